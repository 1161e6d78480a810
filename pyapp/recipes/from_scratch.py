"""What the trainings of the embedded models share, which begin with random weights."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pyapp.engine.device import Device, as_device
from pyapp.errors import OptionError
from pyapp.events import Cancel, Event, Progress
from pyapp.formats.folders import gone_if_empty
from pyapp.text.generation.options import check_number
from pyapp.train.resumable import ResumableTraining, settings_of


def check_counts_and_rate(settings: Any, *counts: str) -> None:
    """OptionError for counts that cannot be, and for a learning rate that is not above 0 and at most 1."""
    for name in counts:
        check_number(name, getattr(settings, name), 1, 10_000_000, whole=True)
    check_number("rate", settings.rate, 0, 1)
    if not settings.rate:
        raise OptionError("rate must be above 0")


def train_in(
    out: str | os.PathLike[str], training: Callable[[Path, Any, Device], ResumableTraining], kind: type,
    preparing: str, settings: Mapping[str, Any], evaluate_every: int, save_every: int, device: Device | str,
    cancel: Cancel | None,
) -> Iterator[Event]:  # fmt: skip
    """Trains on `device` in the folder `out`, or continues there, also what another device began. `kind`: the class of
    the settings; `preparing`: what is done before the first step. ValueError where there is no such device.
    """
    chosen: Any = settings_of(kind, settings)
    place = as_device(device)
    yield Progress(preparing, 0, 1)
    with gone_if_empty(out):
        yield from training(Path(out), chosen, place).run(evaluate_every, save_every, cancel or Cancel())
