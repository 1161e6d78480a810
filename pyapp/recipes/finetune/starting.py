"""`pyapp finetune`: which training a model and its data ask for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from pyapp import hub
from pyapp.errors import OptionError
from pyapp.events import Cancel, Event
from pyapp.formats.folders import gone_if_empty
from pyapp.models.load import TEXT, read_settings
from pyapp.models.loading.heads import known_tasks
from pyapp.models.loading.task_files import MORE_FILES
from pyapp.train.ranks import Ranks

from .characters import finetune_characters, names_characters
from .encoders import finetune_encoder
from .labelled import SEPARATORS
from .language import finetune_language_model
from .pictures import finetune_pictures
from .recordings import finetune_whisper
from .sounds import finetune_sounds
from .steps import Request
from .training import FinetuneSettings
from .whole import WholeSettings


def finetune(
    model: str | os.PathLike[str], data: str | os.PathLike[str], out: str | os.PathLike[str], *,
    held_out_data: str | os.PathLike[str] | None = None, evaluate_every: int | None = None, save_every: int = 100,
    device: str | None = None, tokenizer: Any = None, cancel: Cancel | None = None, ranks: Ranks | None = None,
    **settings: Any,
) -> Iterator[Event]:  # fmt: skip
    """Trains a model further on a file or folder in the folder `out`, or continues an interrupted run there: Progress,
    Metric and finally Done.

    `settings` are those of FinetuneSettings, for a language model; of WholeSettings, for an encoder of texts or a model
    of pictures; of SoundSettings, for one of sounds, or of CharacterSettings, if it is to name characters; of
    RecordingSettings, for a Whisper. Leaves an adapter or a model's folder, a checkpoint and, with Pillow, loss.png.
    `evaluate_every`: steps; by default ten times in all. `ranks`: the processes that train it together, of which each
    calls this and computes some of the batches of every step; the first one writes the files. The same settings give
    the same weights, however often it was interrupted. Raises OptionError, FileFormatError for the data, PyappError for
    other settings than those begun with, and errors of load_model.
    """
    given = [Path(path) for path in (data, held_out_data) if path is not None]
    for path in given:
        if not path.exists():
            raise OptionError("there is no such file", where=str(path), hint="Give a .jsonl, .csv or .txt file")
    cancel = cancel or Cancel()
    files = hub.resolve(model, cancel=cancel, also=MORE_FILES).files
    asked = Request(
        os.fspath(model), files, Path(data), Path(out), None if held_out_data is None else Path(held_out_data),
        evaluate_every, save_every, device, tokenizer, cancel, ranks or Ranks(), settings,
    )  # fmt: skip
    train, suited, hint = _training_of(asked)
    other = next((path for path in given if not suited(path)), None)
    if other is not None:
        raise OptionError("the model is not trained on this kind of data", where=str(other), hint=hint)
    if train is not finetune_language_model:
        settings.pop("full", None)  # they are trained whole
        foreign = {field.name for field in fields(FinetuneSettings)} - {field.name for field in fields(WholeSettings)}
        name = next((name for name in settings if name in foreign), None)
        if name is not None:
            raise OptionError(
                "is a setting of language models: of any other, all weights are trained", where=name,
                hint="Leave it out",
            )  # fmt: skip
    with gone_if_empty(out):
        yield from train(asked)


def _training_of(asked: Request) -> tuple[Callable[[Request], Iterator[Event]], Callable[[Path], bool], str]:
    """How a model is trained, by its config.json; which data are suited, and what to give."""
    readable = "config" in asked.files and not str(asked.files["model"]).lower().endswith(".gguf")
    settings = read_settings(asked.files["config"]) if readable else {}
    tasks = known_tasks(settings)
    if settings.get("model_type") == "whisper":
        return finetune_whisper, Path.is_file, "Give a .jsonl, .csv or .tsv file that names recordings"
    if "image-classification" in tasks:
        return finetune_pictures, Path.is_dir, "Give a folder with a folder of pictures for each class"
    if names_characters(settings) and ("audio-classification" not in tasks or asked.data.is_file()):
        return finetune_characters, Path.is_file, "Give a .jsonl, .csv or .tsv file that names recordings"
    if "audio-classification" in tasks:
        hint = " for each class, or a file that names recordings" if names_characters(settings) else ""
        return finetune_sounds, Path.is_dir, f"Give a folder with a folder of recordings{hint or ' for each class'}"
    if "features" in tasks and TEXT not in tasks and "seq2seq-lm" not in tasks:
        return finetune_encoder, Path.is_file, "Give a .jsonl, .csv or .tsv file"
    return (
        finetune_language_model,
        lambda path: path.is_file() and path.suffix.lower() not in SEPARATORS,
        "Give a .jsonl or .txt file, or a model for it: tables are for encoders, folders for models of pictures and "
        "sounds",
    )
