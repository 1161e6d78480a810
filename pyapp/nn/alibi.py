"""The slopes of attention with linear biases (ALiBi: Press et al. 2021, arXiv 2108.12409), for BLOOM, Falcon and
MPT.
"""

from __future__ import annotations

from ..engine import Tensor
from ..engine.ops import tensor
from ..errors import ArgumentError

__all__ = ["alibi_slopes"]


def alibi_slopes(heads: int) -> Tensor:
    """float32 (heads,), for `slopes` of ops.attention and of the caches: 2^(-8/n), 2^(-16/n), … for the largest power
    of two n up to `heads`, then every other slope of 2 n heads.
    """
    if heads < 1:
        raise ArgumentError(f"alibi_slopes: {heads} heads; 1 or more are needed")
    n = 1 << (heads.bit_length() - 1)
    slopes = [2.0 ** (-8.0 * (i + 1) / n) for i in range(n)]
    slopes += [2.0 ** (-4.0 * (2 * i + 1) / n) for i in range(heads - n)]
    return tensor(slopes)
