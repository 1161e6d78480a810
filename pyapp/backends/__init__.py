"""Settings of torch's backends: they are stored without effect. No backend is available."""

from __future__ import annotations

from pyapp.engine.lazy import late_names


class _Absent:
    """A missing backend."""

    def is_available(self) -> bool:
        return False

    is_built = is_available


mkl, mkldnn, openmp, xnnpack = (_Absent() for _ in range(4))

__getattr__ = late_names(__name__, {}, ("cpu", "cuda", "cudnn", "mps"))
