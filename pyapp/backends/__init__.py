"""Switches of torch's backends, which scripts set: they are kept, and change nothing. None of them is available."""

from __future__ import annotations

import importlib
from typing import Any

_ROOMS = ("cuda", "cudnn", "mps")


class _Absent:
    """A backend that is not there."""

    def is_available(self) -> bool:
        return False

    is_built = is_available


mkl, mkldnn, openmp, xnnpack = (_Absent() for _ in range(4))


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
