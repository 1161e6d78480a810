"""Modules, layers, losses and their helpers. Each name is imported from its file on first use.

Optimisers, schedules and averages of weights are in pyapp.optim.
"""

from __future__ import annotations

import importlib
from typing import Any

from ._index import MODULES

# torch's paths
_FILES = tuple("attention common_types functional grad init modules parallel parameter utils".split())
_FILE_OF = {name: file for file, names in MODULES.items() for name in names.split()}
__all__ = [*_FILE_OF, *_FILES]


def __getattr__(name: str) -> Any:
    if name in _FILES:
        return importlib.import_module(f".{name}", __name__)
    if name not in _FILE_OF:
        raise AttributeError(
            f"module {__name__!r} has no attribute {name!r} (optimisers and schedules are in pyapp.optim)"
        )
    found = globals()[name] = getattr(importlib.import_module(f".{_FILE_OF[name]}", __name__), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
