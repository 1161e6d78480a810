"""The commands about sound that is not speech: classify-sound, label-sound, compose, embed-sound. Results on stdout,
everything else on stderr.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import click

from pyapp import tasks
from pyapp.cli.grouped import SOUNDS, command
from pyapp.cli.items import (
    files_argument,
    label_lines,
    label_options,
    model_option,
    own_labels,
    texts_option,
    top_labels,
    vector,
)
from pyapp.cli.options import WORDS, usual_options
from pyapp.cli.running import forward_items
from pyapp.cli.speak import SpeakJson, SpeakView, targets_of, write_sound


@command("classify-sound", short_help="Label recordings.")
@files_argument("SOUND…")
@model_option("MIT/ast-finetuned-audioset-10-10-0.4593")
@label_options("Labels to choose from, with a model such as CLAP: a dog,rain", '"This is a sound of {}."')
@top_labels
@usual_options
def classify_sound(
    files: tuple[str, ...], labels: str | None, template: str | None, as_json: bool, **settings: Any
) -> int:  # fmt: skip
    """Label each SOUND with a model such as the Audio Spectrogram Transformer (what sounds), or wav2vec 2.0, HuBERT or
    WavLM with labels (a command, a feeling, a language): its labels with their probabilities, then its name. With
    --labels, any labels: a model such as CLAP says how well each fits.
    """
    chosen = own_labels(labels, template)
    hear = partial(tasks.classify_sounds, list(files), **settings)
    if chosen is not None:
        hear = partial(tasks.match_sounds, list(files), chosen, template=template, **settings)
    return forward_items(hear, as_json, label_lines(files))


@command("label-sound", short_help="Find when labels hold in recordings.")
@files_argument("SOUND…")
@model_option("anton-l/wav2vec2-base-superb-sd")
@click.option("--threshold", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.5, show_default=True,
              help="The least probability of a label at a moment.")  # fmt: skip
@usual_options
def label_sound(files: tuple[str, ...], as_json: bool, **settings: Any) -> int:
    """Find when each label holds in each SOUND, such as who speaks, with a model that labels moments
    (anton-l/wav2vec2-base-superb-sd): the first and the last second, the label and its probability, then the file.
    """

    def lines(index: int, values: Any) -> list[str]:
        return [
            f"{part['start']:.2f}\t{part['end']:.2f}\t{part['label']}\t{part['score']:.3f}\t{files[index]}"
            for part in values["labels"]
        ]

    return forward_items(partial(tasks.label_moments, list(files), **settings), as_json, lines)


@command("embed-sound", short_help="Turn recordings and texts into vectors.")
@files_argument("SOUND…", required=False)
@model_option("laion/clap-htsat-fused")
@texts_option
@usual_options
def embed_sound(files: tuple[str, ...], texts: tuple[str, ...], as_json: bool, **settings: Any) -> int:
    """Compute the vector of each SOUND, then of each --text, with a model such as CLAP: a JSON array per line. Or with
    a model of voices, such as microsoft/wavlm-base-plus-sv: those of one speaker point in nearly one direction.
    """
    if not files and not texts:
        raise click.UsageError("Give recordings, or texts with --text.")
    return forward_items(partial(tasks.embed_sounds, list(files), texts, **settings), as_json, vector)


class MusicView(SpeakView):
    """Keeps the samples of the music."""

    kind = "music"


@command(short_help="Make music that a text describes.")
@click.argument("text", type=WORDS)
@click.option("-o", "--output", default="music.wav", show_default=True,
              help="The file to write (.wav; .mp3, .flac and .opus with pip install 'pyapp[audio]'); \"-\": a WAVE "
              "file on stdout.")  # fmt: skip
@model_option("facebook/musicgen-small")
@click.option("--melody", type=click.Path(exists=True, dir_okay=False), metavar="SOUND",
              help="A recording whose notes the music follows (facebook/musicgen-melody).")  # fmt: skip
@click.option(
    "--seconds", type=click.FloatRange(0.05, 30), default=8.0, show_default=True, help="How long the music is."
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="The same seed makes the same sound."
)
@click.option("--guidance", type=click.FloatRange(1, 100), default=3.0, show_default=True,
              help="How closely it follows the text.")  # fmt: skip
@click.option("--temperature", type=click.FloatRange(0, 100), default=1.0, show_default=True,
              help="How much it varies.")  # fmt: skip
@click.option("--top-k", type=click.IntRange(min=1), default=250, show_default=True,
              help="Draw each code from this many of the likeliest.")  # fmt: skip
@usual_options
def compose(
    text: str, output: str, model: str, melody: str | None, dtype: str | None, as_json: bool,
    **options: Any,
) -> int:  # fmt: skip
    """Make music that TEXT describes ("a calm piano in the rain"), with a model such as facebook/musicgen-small, into a
    file.
    """
    [target] = targets_of((), output, as_json)
    view = SpeakJson(target, None) if as_json else MusicView(target)
    return write_sound(
        view, lambda cancel: tasks.compose(text, options, model=model, melody=melody, dtype=dtype, cancel=cancel),
        target, as_json,
    )  # fmt: skip


__commands__ = {SOUNDS: (classify_sound, label_sound, compose, embed_sound)}
