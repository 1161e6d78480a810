"""`pyapp finetune`: which training a model and its data ask for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

from pyapp import hub
from pyapp.errors import OptionError
from pyapp.events import Event
from pyapp.models.load import TEXT, read_settings
from pyapp.models.loading.by_task import MORE_FILES, known_tasks

from .encoders import EncoderSettings, finetune_encoder
from .labelled import SEPARATORS
from .training import FinetuneSettings, finetune_language_model

WHOLE = ("full", "tokenizer")  # settings that encoders need not be given: all weights are trained


def finetune(
    model: str | os.PathLike[str], data: str | os.PathLike[str], out: str | os.PathLike[str], *,
    held_out_data: str | os.PathLike[str] | None = None, **settings: Any,
) -> Iterator[Event]:  # fmt: skip
    """Trains a model further on a file in the folder `out`, or continues an interrupted run there: an encoder by
    finetune_encoder, any other by finetune_language_model, whose arguments these are.
    """
    for path in (data, held_out_data):
        if path is not None and not Path(path).is_file():
            raise OptionError("there is no such file", where=os.fspath(path), hint="Give a .jsonl, .csv or .txt file")
    if not is_encoder(model, settings.get("cancel")):
        for path in (data, held_out_data):
            if path is not None and Path(path).suffix.lower() in SEPARATORS:
                raise OptionError(
                    "tables are for encoders, and the model is none", where=os.fspath(path),
                    hint="Give a .jsonl or .txt file, or an encoder such as BERT",
                )  # fmt: skip
        yield from finetune_language_model(model, data, out, held_out_data=held_out_data, **settings)
        return
    known = {field.name for field in fields(EncoderSettings)}
    given = {name: value for name, value in settings.items() if name not in WHOLE}
    other = next((field.name for field in fields(FinetuneSettings) if field.name in given.keys() - known), None)
    if other is not None:
        raise OptionError(
            "is a setting of language models: of an encoder, all weights are trained", where=other, hint="Leave it out"
        )
    yield from finetune_encoder(model, data, out, held_out_data=held_out_data, **given)


def is_encoder(model: str | os.PathLike[str], cancel: Any = None) -> bool:
    """Whether a model is an encoder of texts, by its config.json. Downloads it if need be."""
    files = hub.resolve(model, cancel=cancel, also=MORE_FILES).files
    if "config" not in files or str(files["model"]).lower().endswith(".gguf"):
        return False
    tasks = known_tasks(read_settings(files["config"]))
    return "features" in tasks and TEXT not in tasks and "seq2seq-lm" not in tasks
