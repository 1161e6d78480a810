"""Load a model that reads text in pictures: a reader of lines (pyapp.models.ctc_reader), or one that writes what a
picture shows, such as TrOCR.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from pyapp import hub
from pyapp.dataclass import dataclass
from pyapp.engine import Device
from pyapp.events import Cancel, Event
from pyapp.formats import ByteSource
from pyapp.models.load import settings_beside
from pyapp.text.generation.character_model import read_character_model
from pyapp.text.generation.ctc import TextSearch

from .building import ready_model
from .loaded import Loaded
from .pictures import LoadedImageModel, load_image_model
from .task_files import given_files

LINE_READING = "line-reading"
LINE_READERS = ("ctc_reader",)


@dataclass(frozen=True)
class LoadedReader(Loaded):
    """A reader of lines. It has no tokenizer: its alphabet is part of its configuration. `search` finds the texts that
    a language makes likely; None: the best character at each place is taken.
    """

    search: TextSearch | None = None
    tokenizer: None = None


def load_reading_model(
    source: str | os.PathLike[str] | Mapping[str, ByteSource],
    *,
    dtype: str | None = None,
    device: Device | str | None = None,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
) -> LoadedReader | LoadedImageModel:
    """Loads a folder, its files by their names, or a name. dtype, the errors and events are those of
    `load_image_model`; readers of lines compute in float32 unless a dtype is given. A reader's folder may have
    language.safetensors (pyapp.text.generation.character_model).
    """
    report, cancel = report or (lambda event: None), cancel or Cancel()
    files: Mapping[str, Any]
    if isinstance(source, Mapping):
        files = given_files(source)
        name = files["model"].name
    else:
        name = os.fspath(source)
        files = hub.resolve(source, report=report, cancel=cancel).files
    settings = settings_beside(files, "config")
    if settings.get("model_type") not in LINE_READERS:
        return load_image_model(
            source, "image-to-text", dtype=dtype, device=device, report=report, cancel=cancel
        )  # with its errors
    model = ready_model(files, settings, LINE_READING, dtype or "float32", device, report, cancel)
    search = None
    if "language" in files:
        search = TextSearch(model.config.alphabet, read_character_model(files["language"]))
    return LoadedReader(name, model, search)
