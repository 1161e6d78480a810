"""Load codecs of sound (EnCodec, DAC, SNAC, Mimi, X-Codec, X-Codec 2) and vocoders (SpeechT5's), which make sound of
spectrograms.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.events import Cancel, Event
from pyapp.formats import ByteSource

from .building import ready_model
from .loaded import Loaded
from .task_files import task_files

if TYPE_CHECKING:
    from pyapp.engine.device import Device

TASK, VOCODER = "audio-codec", "vocoder"


@dataclass(frozen=True)
class LoadedCodec(Loaded):
    """A codec of sound or a vocoder, and the object of its config.json."""

    settings: dict[str, Any]


def load_codec(
    source: str | os.PathLike[str] | Mapping[str, ByteSource],
    *,
    task: str = TASK,
    dtype: str | None = None,
    device: Device | str | None = None,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
) -> LoadedCodec:
    """Loads a folder of Hugging Face's, its files by their names, or a name on the hub such as facebook/encodec_24khz,
    descript/dac_16khz or hubertsiuzdak/snac_24khz: config.json and the weights, whose norms are applied once while they
    are read. `task`: VOCODER for a vocoder, such as microsoft/speecht5_hifigan.

    dtype, the errors and events are those of `load_task_model`.
    """
    report, cancel = report or (lambda event: None), cancel or Cancel()
    name, files, settings = task_files(source, task, report, cancel)
    model = ready_model(files, settings, task, dtype, device, report, cancel)
    return LoadedCodec(name, model, settings)
