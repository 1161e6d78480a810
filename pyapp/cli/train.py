"""`pyapp train`: the models that pyapp trains itself, and scripts of the user's own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import click

from pyapp import tasks
from pyapp.cli.grouped import TRAINING, combined
from pyapp.cli.options import WHERE, device_of, json_option, threads_option
from pyapp.cli.running import forward
from pyapp.cli.train_script import TrainGroup
from pyapp.cli.views import JsonView, ReaderTrainView, SpeechTrainView, TrainView, View
from pyapp.events import Event
from pyapp.text.generation.options import SEEDS


@click.group(cls=TrainGroup)
def train() -> None:
    """Train a model: a named one, or by your own script.

    `pyapp train SCRIPT.py [ARGUMENTS]` runs a script; `pyapp train SETTINGS.toml` runs a command with the settings of a
    file. `pyapp finetune` trains a language model further.
    """


def training_options(
    folder: str, parts: str = "the model, its tokenizer, the loss curve and the checkpoint"
) -> Callable[[Any], Any]:
    """The options of the commands that train a model from scratch, in a folder of runs/."""
    return combined(
        click.option("-o", "--out-dir", "--output-dir",
                     type=click.Path(file_okay=False, path_type=Path), default=Path("runs") / folder,
                     show_default=True, help=f"The folder for {parts}."),
        click.option("--steps", type=click.IntRange(min=1),
                     help="Optimiser steps. [default: those of the embedded model]"),
        click.option("--seed", type=click.IntRange(0, SEEDS - 1), help="The same seed gives the same model."),
        click.option("--resume/--no-resume", default=True,
                     help="Continue a run that was interrupted. [default: resume]"),
        click.option("--device", metavar="DEVICE", callback=device_of, help=WHERE),
        threads_option, json_option,
    )  # fmt: skip


def run_training(
    task: Callable[..., AsyncIterator[Event]], view: View, out_dir: Path, resume: bool,
    as_json: bool, **settings: Any,
) -> int:  # fmt: skip
    """Trains a model from scratch, with the values of `training_options`."""
    given = {name: value for name, value in settings.items() if value is not None}
    train = lambda cancel: task(out_dir, resume=resume, cancel=cancel, **given)  # noqa: E731
    return forward(train, JsonView() if as_json else view, keeps_state=True)


@train.command(short_help="Train the small story model from scratch.")
@training_options("story")
def story(**settings: Any) -> int:
    """Train the small story model from scratch: makes its stories, its tokenizer and its weights.

    Ctrl-C writes a checkpoint; the same command continues from it. The same seed gives the same model.
    """
    return run_training(tasks.train_story, TrainView(), **settings)


@train.command(short_help="Train the small speech model from scratch.")
@training_options("speech")
def speech(**settings: Any) -> int:
    """Train the small speech model from scratch: makes its sentences, speaks them with espeak-ng, trains its weights.

    Needs the program espeak-ng. Ctrl-C writes a checkpoint; the same command continues from it. The same seed gives
    the same model with the same version of espeak-ng.
    """
    return run_training(tasks.train_speech, SpeechTrainView(), **settings)


@train.command("reader", short_help="Train the small reader of printed lines from scratch.")
@training_options("reader", "the model, the loss curve and the checkpoint")
def train_reader(**settings: Any) -> int:
    """Train the small reader of printed lines from scratch: writes texts, prints them with the installed fonts, trains
    its weights.

    Needs fontconfig, fonts and word lists (docs/reader.md lists Debian's packages). Ctrl-C writes a checkpoint; the
    same command continues from it. The same seed gives the same model with the same fonts.
    """
    return run_training(tasks.train_reader, ReaderTrainView(), **settings)


__commands__ = {TRAINING: (train,)}
