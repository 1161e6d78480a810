"""torch.nn.attention: the choice of a kernel for attention. It has no effect: pyapp chooses the kernel itself."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any


class SDPBackend:
    """torch's names for kernels of attention; pyapp chooses the kernel from the arguments of attention."""

    ERROR, MATH, FLASH_ATTENTION, EFFICIENT_ATTENTION, CUDNN_ATTENTION = range(-1, 4)


def sdpa_kernel(backends: Any, set_priority: bool = False) -> Any:
    """A context manager without effect: attention is computed the same way inside and outside."""
    return nullcontext()
