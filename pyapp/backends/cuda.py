"""torch.backends.cuda: switches that change nothing here."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any


class _Matmul:
    """Switches of products of matrices."""

    allow_tf32 = allow_fp16_reduced_precision_reduction = allow_bf16_reduced_precision_reduction = False


matmul = _Matmul()


def is_built() -> bool:
    """Whether CUDA is there: no."""
    return False


def _switch(enabled: bool) -> None:
    """Which kernel attention has is chosen by what it is given."""


enable_flash_sdp = enable_mem_efficient_sdp = enable_math_sdp = enable_cudnn_sdp = _switch


def sdp_kernel(*_: Any, **__: Any) -> Any:
    """A context in which attention is computed as it is outside."""
    return nullcontext()
