"""torch.nn.attention: the choice of a kernel for attention, which pyapp makes by itself."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

__all__ = ["SDPBackend", "sdpa_kernel"]


class SDPBackend:
    """torch's names for kernels of attention; pyapp chooses the kernel from the arguments of attention."""

    ERROR, MATH, FLASH_ATTENTION, EFFICIENT_ATTENTION, CUDNN_ATTENTION = range(-1, 4)


def sdpa_kernel(backends: Any, set_priority: bool = False) -> Any:
    """A context without effect: attention inside is computed as outside."""
    return nullcontext()
