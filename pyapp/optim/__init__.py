"""Optimisers and learning-rate schedules, by torch.optim's names; and averages of weights."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from . import lr_scheduler
from .adafactor import *  # noqa: F403
from .adam import *  # noqa: F403
from .adamw8bit import *  # noqa: F403
from .adaptive import *  # noqa: F403
from .asgd import *  # noqa: F403
from .lbfgs import *  # noqa: F403
from .lion import *  # noqa: F403
from .masters import *  # noqa: F403
from .muon import *  # noqa: F403
from .optimizer import Optimizer as Optimizer
from .sgd import *  # noqa: F403
from .sparse_adam import *  # noqa: F403

_OPTIMIZERS = {
    name: kind for name, kind in [*globals().items()] if isinstance(kind, type) and issubclass(kind, Optimizer)
}
__all__ = ["lr_scheduler", *_OPTIMIZERS]
for _name, _kind in _OPTIMIZERS.items():  # torch has a module for each class: torch.optim.adamw
    sys.modules.setdefault(f"{__name__}.{_name.lower()}", sys.modules[_kind.__module__])
    globals().setdefault(_name.lower(), sys.modules[_kind.__module__])


def __getattr__(name: str) -> Any:
    if name == "swa_utils":
        return importlib.import_module(".swa_utils", __name__)
    if name == "ExponentialMovingAverage":
        return importlib.import_module(".averages", __name__).ExponentialMovingAverage
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
