"""torch.nn.modules: the layers of pyapp.nn, and the modules of torch.nn.modules that other code imports."""

from __future__ import annotations

import importlib
import os
from typing import Any

from ... import nn

_MODULES = {entry.partition(".")[0] for entry in os.listdir(__path__[0])}


def __getattr__(name: str) -> Any:
    """A layer, or a module of layers."""
    if name in _MODULES:
        return importlib.import_module(f".{name}", __name__)
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(nn, name)
