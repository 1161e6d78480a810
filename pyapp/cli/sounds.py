"""The command over recordings that is not about their words: classify-sound. Results on stdout in the order of the
recordings, everything else on stderr.
"""

from __future__ import annotations

from typing import Any

import click

from pyapp.cli.grouped import command
from pyapp.cli.running import forward, json_option, threads_option, use_threads
from pyapp.cli.texts import ItemsView, labels_line, model_option, type_option
from pyapp.cli.views import JsonView, View


@command("classify-sound", short_help="Label recordings.")
@click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="SOUND…")
@model_option
@click.option(
    "--top", type=click.IntRange(min=1), default=5, show_default=True, help="How many labels, the best first."
)
@type_option
@threads_option
@json_option
def classify_sound(
    files: tuple[str, ...], model: str, top: int, dtype: str | None, threads: int | None, as_json: bool
) -> int:
    """Label each SOUND with a model such as the Audio Spectrogram Transformer (what sounds), or wav2vec 2.0, HuBERT or
    WavLM with labels (a command, a feeling, a language): its labels with their probabilities, then its name.
    """
    from pyapp import tasks

    use_threads(threads)

    def lines(index: int, values: Any) -> list[str]:
        return [labels_line(values["labels"], files[index])]

    view: View = JsonView() if as_json else ItemsView(lines)
    return forward(
        lambda cancel: tasks.classify_sounds(list(files), model=model, dtype=dtype, top=top, cancel=cancel), view
    )


COMMANDS = (classify_sound,)
