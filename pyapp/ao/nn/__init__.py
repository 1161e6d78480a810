"""Layers of quantised models: `quantized` after training, `qat` while it goes on, `intrinsic` for several in one."""

from . import intrinsic, qat, quantized

__all__ = ["intrinsic", "qat", "quantized"]
