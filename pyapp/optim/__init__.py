"""Optimisers and learning-rate schedules, by torch.optim's names; and averages of weights."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from . import (
    adafactor,
    adam,
    adamw8bit,
    adaptive,
    asgd,
    lbfgs,
    lion,
    lr_scheduler,
    masters,
    muon,
    optimizer,
    sgd,
    sparse_adam,
)
from .adafactor import *  # noqa: F403
from .adam import *  # noqa: F403
from .adamw8bit import *  # noqa: F403
from .adaptive import *  # noqa: F403
from .asgd import *  # noqa: F403
from .lbfgs import *  # noqa: F403
from .lion import *  # noqa: F403
from .masters import *  # noqa: F403
from .muon import *  # noqa: F403
from .optimizer import *  # noqa: F403
from .sgd import *  # noqa: F403
from .sparse_adam import *  # noqa: F403

_FAMILIES = (adafactor, adam, adamw8bit, adaptive, asgd, lbfgs, lion, masters, muon, optimizer, sgd, sparse_adam)
__all__ = ["lr_scheduler"]
__all__ += [name for family in _FAMILIES for name in family.__all__]
for _family in _FAMILIES:  # torch has a module for each class: torch.optim.adamw
    for _name in _family.__all__:
        sys.modules.setdefault(f"{__name__}.{_name.lower()}", _family)
        globals().setdefault(_name.lower(), _family)


def __getattr__(name: str) -> Any:
    if name == "swa_utils":
        return importlib.import_module(".swa_utils", __name__)
    if name == "ExponentialMovingAverage":
        return importlib.import_module(".averages", __name__).ExponentialMovingAverage
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
