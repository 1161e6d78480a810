"""What torch.utils has that makes sense here: `data`, `checkpoint` and `dlpack`."""

from __future__ import annotations

import importlib
from typing import Any

_ROOMS = ("checkpoint", "data", "dlpack")


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
