"""`pyapp finetune`: which training a model and its data ask for."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from pyapp import hub
from pyapp.errors import OptionError
from pyapp.events import Event
from pyapp.models.load import TEXT, read_settings
from pyapp.models.loading.by_task import MORE_FILES, known_tasks

from .encoders import finetune_encoder
from .labelled import SEPARATORS
from .pictures import finetune_pictures
from .recordings import finetune_whisper
from .training import FinetuneSettings, finetune_language_model
from .whole import WholeSettings

WHOLE = ("full", "tokenizer")  # settings that others than language models need not be given: all weights are trained


def finetune(
    model: str | os.PathLike[str], data: str | os.PathLike[str], out: str | os.PathLike[str], *,
    held_out_data: str | os.PathLike[str] | None = None, **settings: Any,
) -> Iterator[Event]:  # fmt: skip
    """Trains a model further on a file in the folder `out`, or continues an interrupted run there: an encoder of texts
    by finetune_encoder, a model of pictures by finetune_pictures, a Whisper by finetune_whisper, any other by
    finetune_language_model, whose arguments these are.
    """
    given = [Path(path) for path in (data, held_out_data) if path is not None]
    for path in given:
        if not path.exists():
            raise OptionError("there is no such file", where=str(path), hint="Give a .jsonl, .csv or .txt file")
    train, suited, hint = _training_of(model, settings.get("cancel"))
    other = next((path for path in given if not suited(path)), None)
    if other is not None:
        raise OptionError("the model is not trained on this kind of data", where=str(other), hint=hint)
    if train is not finetune_language_model:
        settings = {name: value for name, value in settings.items() if name not in WHOLE}
        foreign = {field.name for field in fields(FinetuneSettings)} - {field.name for field in fields(WholeSettings)}
        name = next((name for name in settings if name in foreign), None)
        if name is not None:
            raise OptionError(
                "is a setting of language models: of any other, all weights are trained", where=name,
                hint="Leave it out",
            )  # fmt: skip
    yield from train(model, data, out, held_out_data=held_out_data, **settings)


def _training_of(
    model: str | os.PathLike[str], cancel: Any
) -> tuple[Callable[..., Iterator[Event]], Callable[[Path], bool], str]:
    """How a model is trained, by its config.json; which data are suited, and what to give. Downloads the model if need
    be.
    """
    files = hub.resolve(model, cancel=cancel, also=MORE_FILES).files
    readable = "config" in files and not str(files["model"]).lower().endswith(".gguf")
    settings = read_settings(files["config"]) if readable else {}
    tasks = known_tasks(settings)
    if settings.get("model_type") == "whisper":
        return finetune_whisper, Path.is_file, "Give a .jsonl, .csv or .tsv file that names recordings"
    if "image-classification" in tasks:
        return finetune_pictures, Path.is_dir, "Give a folder with a folder of pictures for each class"
    if "features" in tasks and TEXT not in tasks and "seq2seq-lm" not in tasks:
        return finetune_encoder, Path.is_file, "Give a .jsonl, .csv or .tsv file"
    return (
        finetune_language_model,
        lambda path: path.is_file() and path.suffix.lower() not in SEPARATORS,
        "Give a .jsonl or .txt file, or a model for it: tables are for encoders, folders for models of pictures",
    )
