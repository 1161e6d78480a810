"""Load a model that forecasts series: TimesFM, Chronos, Chronos-Bolt, PatchTST and PatchTSMixer."""

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

TASK = "time-series-forecasting"


@dataclass(frozen=True)
class LoadedForecaster(Loaded):
    """A model (pyapp.nn.forecasting.Forecaster) and the object of its config.json. It has no tokenizer."""

    settings: dict[str, Any]
    tokenizer: None = None


def load_forecaster(
    source: str | os.PathLike[str] | Mapping[str, ByteSource],
    *,
    dtype: str | None = None,
    device: Device | str | None = None,
    report: Callable[[Event], None] | None = None,
    cancel: Cancel | None = None,
) -> LoadedForecaster:
    """Loads a folder of Hugging Face's, its files by their names, or a name on the hub such as
    google/timesfm-2.0-500m-pytorch or amazon/chronos-bolt-small: config.json and the weights. dtype, the errors and
    events are those of `load_task_model`.
    """
    report, cancel = report or (lambda event: None), cancel or Cancel()
    name, files, settings = task_files(source, TASK, report, cancel)
    model = ready_model(files, settings, TASK, dtype, device, report, cancel)
    return LoadedForecaster(name, model, settings)
