"""torch.nn.utils: gradient clipping, parameters as one vector, normalised weights, sequences of different lengths."""

from __future__ import annotations

import importlib
from typing import Any

from .._index import UTILITIES

_FILES = ("clip_grad", "convert_parameters", "fusion", "parametrizations", "parametrize", "prune", "rnn", "stateless")
_FILE_OF = {name: file for file, names in UTILITIES.items() for name in names.split()}
__all__ = [*_FILE_OF, *_FILES]


def __getattr__(name: str) -> Any:
    if name in _FILES:
        return importlib.import_module(f".{name}", __name__)
    if name not in _FILE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = getattr(importlib.import_module(f"..{_FILE_OF[name]}", __name__), name)
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
