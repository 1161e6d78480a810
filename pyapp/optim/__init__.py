"""Optimisers and learning-rate schedules, by torch.optim's names."""

from __future__ import annotations

import importlib
from typing import Any

from ..nn.lbfgs import LBFGS
from ..nn.optim import SGD, Adagrad, Adam, AdamW, Lion, Optimizer, RMSprop
from ..nn.optim_more import ASGD, Adadelta, Adafactor, Adamax, Muon, NAdam, RAdam, Rprop
from . import lr_scheduler

__all__ = [
    "ASGD", "Adadelta", "Adafactor", "Adagrad", "Adam", "AdamW", "Adamax", "LBFGS", "Lion", "Muon", "NAdam",
    "Optimizer", "RAdam", "RMSprop", "Rprop", "SGD", "lr_scheduler",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name == "swa_utils":
        return importlib.import_module(".swa_utils", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
