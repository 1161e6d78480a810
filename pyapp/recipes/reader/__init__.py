"""The embedded reader: texts, the fonts that print them, paper and its defects, and the training of a CTC recogniser.

Names are imported on first use: the texts need no engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .training import ReaderSettings, train_reader

__all__ = ["ReaderSettings", "train_reader"]

_MODULES = {"ReaderSettings": "training", "train_reader": "training"}


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
