"""The types of results of several parts, by the names of their functions, as in torch.return_types."""

from __future__ import annotations

import importlib
from typing import Any

from .engine.ops import declared
from .engine.ops._index import FUNCTION_MODULES
from .engine.return_types import KINDS

_PREFIX = "linalg_"


def __getattr__(name: str) -> Any:
    if name not in KINDS:  # the module of the function makes its type
        if name in FUNCTION_MODULES:
            declared(name)
        elif name.startswith(_PREFIX):
            importlib.import_module(".linalg", __package__)
    if name in KINDS:
        return KINDS[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
