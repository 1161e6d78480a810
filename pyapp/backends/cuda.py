"""torch.backends.cuda: `matmul.allow_tf32`; the other settings have no effect."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

from ..engine.gpu import nvidia
from ..engine.gpu.precision import precision


class _Matmul:
    """Switches of products of matrices."""

    allow_fp16_reduced_precision_reduction = allow_bf16_reduced_precision_reduction = False

    @property
    def allow_tf32(self) -> bool:
        """Whether products of float32 matrices may round their factors to 10 bits on a card: much faster."""
        return precision.allow_tf32

    @allow_tf32.setter
    def allow_tf32(self, allowed: bool) -> None:
        precision.allow_tf32 = bool(allowed)


matmul = _Matmul()


def is_built() -> bool:
    """Whether NVIDIA's packages are installed."""
    return nvidia.is_installed()


def _switch(enabled: bool) -> None:
    """No effect: pyapp chooses the kernel of attention by its arguments."""


enable_flash_sdp = enable_mem_efficient_sdp = enable_math_sdp = enable_cudnn_sdp = _switch


def sdp_kernel(*_: Any, **__: Any) -> Any:
    """A context without effect on attention."""
    return nullcontext()
