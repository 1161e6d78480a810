"""Settings of torch's backends: they are stored without effect. No backend is available."""

from __future__ import annotations

import importlib
from typing import Any

_ROOMS = ("cuda", "cudnn", "mps")


class _Absent:
    """A missing backend."""

    def is_available(self) -> bool:
        return False

    is_built = is_available


mkl, mkldnn, openmp, xnnpack = (_Absent() for _ in range(4))


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
