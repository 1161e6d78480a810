"""Load a model of pictures for a task, with the image processor that prepares them, and the tokenizer of a model that
writes or reads texts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device
from pyapp.errors import ModelError
from pyapp.events import Cancel, Event
from pyapp.formats import ByteSource, open_checkpoint
from pyapp.models.load import read_settings, settings_beside
from pyapp.text.tokenization.tokenizer import Tokenizer
from pyapp.text.tokenization.tokenizer_files import VOCABULARIES, load_tokenizer
from pyapp.vision.processors import ImageProcessor

from . import bare_files, open_clip, timm, ultralytics
from .building import build
from .by_task import check_tokenizer
from .heads import check_new_head, check_task, with_labels
from .image_processors import check_fit, usual_processor
from .loaded import Loaded
from .task_files import TOKENIZER_FILES, files_of, settings_in

READERS = r"(qformer_tokenizer/)?"  # the folder of a second tokenizer, of InstructBLIP
MORE_FILES = re.compile(READERS + "(" + "|".join(map(re.escape, TOKENIZER_FILES)) + ")")
WITH_TOKENIZER = (
    "image-to-text", "zero-shot-image-classification", "zero-shot-object-detection",
    "zero-shot-semantic-segmentation", "visual-document-retrieval", "visual-question-answering",
)  # fmt: skip


@dataclass(frozen=True)
class LoadedImageModel(Loaded):
    """A model, its image processor, the tokenizer of one with texts, and the objects of its config.json and
    generation_config.json. `seen` is what tasks.segmentation.cut_out remembers of the last picture, by its name.
    """

    processor: ImageProcessor
    tokenizer: Tokenizer | None
    settings: dict[str, Any]
    generation: dict[str, Any]
    seen: dict[str, Any] = field(default_factory=dict)


def load_image_model(
    source: str | os.PathLike[str] | Mapping[str, ByteSource],
    task: str,
    *,
    dtype: str | None = None,
    device: Device | str | None = None,
    labels: Sequence[str] | None = None,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
) -> LoadedImageModel:
    """Loads a folder of Hugging Face's or timm's, its files by their names, or a name on the hub, for a task
    of models of pictures, such as "image-classification" (docs/models.md lists them).

    dtype, labels, the errors and events are those of `load_task_model`; ModelError too for a processor that does not
    fit the model.
    """
    report, cancel = report or (lambda event: None), cancel or Cancel()

    def check(files: Mapping[str, Path]) -> None:
        if "config" in files and _says_model(read_settings(files["config"])):
            settings = _checked(read_settings(files["config"]), str(files["config"]), task, labels is not None)
            _processor(files, settings)

    name, files = files_of(source, check, report, cancel, MORE_FILES)
    settings = _checked(_settings_in(files, name), name, task, labels is not None)
    settings |= {} if labels is None else with_labels(labels)
    processor = _processor(files, settings)
    tokenizer = tokenizer_of(source, name, files) if task in WITH_TOKENIZER else None
    opened = ultralytics.open_weights if settings["model_type"] == ultralytics.MODEL_TYPE else open_checkpoint
    with opened(files["model"]) as checkpoint:
        model: Any = build(checkpoint, settings, task, dtype, device, report, cancel, labels is not None)
    if tokenizer is not None:
        check_tokenizer(tokenizer, model, name)
    if getattr(model, "reader_files", ""):
        model.reader = tokenizer_of(source, name, files, model.reader_files).encode
    if hasattr(model, "task_text"):  # OneFormer, which reads what it is to do
        model.take_task(tokenizer_of(source, name, files).encode(model.task_text))
    check_fit(processor, model.pixels, name)
    if hasattr(model, "take_prompts") and "processor_config" in files:
        model.take_prompts(read_settings(files["processor_config"]))
    model.eval()
    generation = settings_beside(files, "generation_config")
    return LoadedImageModel(name, model, processor, tokenizer, settings, generation)


def tokenizer_of(source: Any, name: str, files: Mapping[str, Any], folder: str = "") -> Tokenizer:
    """The tokenizer among the files that are given, or those by role; the one in a folder of them. ModelError where
    there is none.
    """
    before, given = f"{folder}/" if folder else "", source if isinstance(source, Mapping) else files
    own = {path.removeprefix(before): file for path, file in given.items() if path.startswith(before)}
    words: dict[str, Any] = {path: file for path, file in own.items() if path in TOKENIZER_FILES}
    if not folder and given is files and "tokenizer" in files:
        words[files["tokenizer"].name] = files["tokenizer"]
    if not any(file in words for file in VOCABULARIES):
        hint = f"Put the model's {before}tokenizer.json beside it"
        raise ModelError(f"its {before}tokenizer is missing", where=name, hint=hint)
    return load_tokenizer(words, name)


def _says_model(settings: Mapping[str, Any]) -> bool:
    """Whether a config.json names a model."""
    return "model_type" in settings or timm.is_timms(settings) or open_clip.is_open_clips(settings)


def _settings_in(files: Mapping[str, Any], name: str) -> dict[str, Any]:
    """The object of config.json; without one that names a model, what the tensors say."""
    found = settings_in(files, name) if "config" in files else {}
    return found if _says_model(found) else bare_files.settings_in(files["model"])


def _checked(settings: dict[str, Any], where: str, task: str, new_head: bool = False) -> dict[str, Any]:
    """The settings of a model for a task, those of timm's library as pyapp reads them. ModelError for an unknown
    architecture, and for a checkpoint that was made for another task, unless it gets a new head.
    """
    if new_head:
        check_new_head(settings, where, task)
        return settings
    if timm.is_timms(settings):
        settings = timm.settings_of(settings, where)
        timm.check_head(settings, task, where)
    elif open_clip.is_open_clips(settings):
        settings = open_clip.settings_of(settings, where)
    check_task(settings, where, task)
    return settings


def _processor(files: Mapping[str, Any], settings: Mapping[str, Any]) -> ImageProcessor:
    """The image processor that timm's config.json describes; that of preprocessor_config.json, of
    processor_config.json, which newer files have for all that prepares inputs, or the usual one of the architecture.
    """
    found: Mapping[str, Any] = {}
    if timm.PREPARATION in settings:
        found = timm.processor_settings(settings)
    elif open_clip.PREPARATION in settings:
        found = open_clip.processor_settings(settings)
    elif "preprocessor_config" in files:
        found = read_settings(files["preprocessor_config"])
    elif "processor_config" in files:
        own = read_settings(files["processor_config"]).get("image_processor")
        found = own if isinstance(own, dict) else {}
    elif settings["model_type"] == ultralytics.MODEL_TYPE:
        found = ultralytics.processor_settings(settings)
    parts = (settings.get("encoder"), settings)
    kinds = [str(part.get("model_type", "")) for part in parts if isinstance(part, dict)]
    return ImageProcessor.from_settings(found, usual_processor(kinds[0]))
