"""The commands over pictures: classify-image, read. Results on stdout in the order of the pictures, everything else on
stderr.
"""

from __future__ import annotations

from typing import Any

import click

from pyapp.cli.running import forward, json_option, threads_option, use_threads
from pyapp.cli.texts import ItemsView, model_option, type_option
from pyapp.cli.views import JsonView, View

files_argument = click.argument("files", nargs=-1, required=True, type=click.Path(), metavar="IMAGE…")


@click.command("classify-image", short_help="Label pictures.")
@files_argument
@model_option
@click.option("--top", type=click.IntRange(min=1), default=5, show_default=True, help="Only the best ones.")
@type_option
@threads_option
@json_option
def classify_image(
    files: tuple[str, ...], model: str, top: int, dtype: str | None, threads: int | None, as_json: bool
) -> int:
    """Label each IMAGE with a model such as ViT: its labels with their probabilities, then its name."""
    from pyapp import tasks

    use_threads(threads)

    def lines(index: int, values: Any) -> list[str]:
        labels = ", ".join(f"{entry['label']} {entry['score']:.4f}" for entry in values["labels"])
        return [f"{labels}\t{files[index]}"]

    view: View = JsonView() if as_json else ItemsView(lines)
    return forward(
        lambda cancel: tasks.classify_images(list(files), model=model, dtype=dtype, top=top, cancel=cancel), view
    )


@click.command(short_help="Read the text in pictures.")
@files_argument
@model_option
@click.option(
    "--num-beams", type=click.IntRange(1, 64), help="Hypotheses of a text; 1 is greedy. [default: the model's]"
)
@click.option("-n", "--max-new-tokens", type=click.IntRange(min=1), help="Length at most. [default: the model's]")
@type_option
@threads_option
@json_option
def read(
    files: tuple[str, ...], model: str, dtype: str | None, threads: int | None, as_json: bool, **options: Any
) -> int:
    """Read the text in each IMAGE with a model such as TrOCR, which reads one line: a line for each picture."""
    from pyapp import tasks

    use_threads(threads)
    view: View = JsonView() if as_json else ItemsView(lambda index, values: [" ".join(values["text"].split())])
    return forward(
        lambda cancel: tasks.read_images(list(files), model=model, dtype=dtype, cancel=cancel, **options), view
    )


COMMANDS = (classify_image, read)
