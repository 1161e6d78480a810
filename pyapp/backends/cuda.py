"""torch.backends.cuda: settings without effect."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any


class _Matmul:
    """Switches of products of matrices."""

    allow_tf32 = allow_fp16_reduced_precision_reduction = allow_bf16_reduced_precision_reduction = False


matmul = _Matmul()


def is_built() -> bool:
    """Whether pyapp has CUDA: always False."""
    return False


def _switch(enabled: bool) -> None:
    """No effect: pyapp chooses the kernel of attention by its arguments."""


enable_flash_sdp = enable_mem_efficient_sdp = enable_math_sdp = enable_cudnn_sdp = _switch


def sdp_kernel(*_: Any, **__: Any) -> Any:
    """A context without effect on attention."""
    return nullcontext()
