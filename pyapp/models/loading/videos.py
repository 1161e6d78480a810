"""Load a model of videos for a task, with the image processor that prepares their frames."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.errors import ModelError
from pyapp.events import Cancel, Event
from pyapp.formats import ByteSource
from pyapp.models.load import read_settings
from pyapp.vision.processors import ImageProcessor

from .building import ready_model
from .image_processors import usual_processor
from .loaded import Loaded
from .task_files import task_files

if TYPE_CHECKING:
    from pyapp.engine.device import Device

TASK = "video-classification"
PREPARATION = "video_preprocessor_config.json"
MORE_FILES = re.compile(re.escape(PREPARATION))


@dataclass(frozen=True)
class LoadedVideoModel(Loaded):
    """A model, what prepares its frames, and the object of its config.json. It has no tokenizer."""

    processor: ImageProcessor
    settings: dict[str, Any]
    tokenizer: None = None


def load_video_model(
    source: str | os.PathLike[str] | Mapping[str, ByteSource],
    *,
    dtype: str | None = None,
    device: Device | str | None = None,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
) -> LoadedVideoModel:
    """Loads a folder of Hugging Face's, its files by their names, or a name on the hub such as
    MCG-NJU/videomae-base-finetuned-kinetics: config.json, preprocessor_config.json (or video_preprocessor_config.json)
    and the weights. dtype, the errors and events are those of `load_task_model`; ModelError too for a processor that
    does not fit the model.
    """
    report, cancel = report or (lambda event: None), cancel or Cancel()
    name, files, settings = task_files(source, TASK, report, cancel, MORE_FILES)
    processor = _processor(files, str(settings["model_type"]))
    model = ready_model(files, settings, TASK, dtype, device, report, cancel)
    if processor.fixed_size != model.pixels:
        made = "several sizes" if processor.fixed_size is None else "{} x {} pixels".format(*processor.fixed_size)
        raise ModelError(
            f"its processor makes frames of {made}, the model takes {model.pixels[0]} x {model.pixels[1]}", where=name,
            hint="Give the preprocessor_config.json that belongs to the weights",
        )  # fmt: skip
    return LoadedVideoModel(name, model, processor, settings)


def _processor(files: Mapping[str, Any], kind: str) -> ImageProcessor:
    """The processor of video_preprocessor_config.json, of preprocessor_config.json, of processor_config.json, or the
    usual one of the architecture.
    """
    role = next((role for role in (PREPARATION, "preprocessor_config", "processor_config") if role in files), None)
    found: Any = {} if role is None else read_settings(files[role])
    if role == "processor_config":
        parts = (found.get("video_processor"), found.get("image_processor"))
        found = next((part for part in parts if isinstance(part, dict)), {})
    if "offset" in found and kind == "vivit":
        found = {**found, "rescale_offset": found["offset"]}
    return ImageProcessor.from_settings(found, usual_processor(kind))
