"""Products of int8 vectors with an int8 matrix, with exact sums."""

from __future__ import annotations

from .. import dtype as _dtype
from ..op import op
from ..quant import dequantize
from ..tensor import Tensor
from ..user_errors import describe

LARGEST = 127  # of x: -128 has no opposite, which some processors' instructions take


@op()
def _int8_linear(x: Tensor, weight: Tensor) -> Tensor:
    """int8_linear in float32: sums below 2^24 are exact."""
    return x.to(_dtype.float32) @ dequantize(weight).T


def int8_linear(x: Tensor, weight: Tensor) -> Tensor:
    """x (..., K) int8 of -127 .. 127 times the rows of `weight` (N, K), a matrix of `quant.pack_int8` → (..., N)
    float32. Sums are exact below 2^24, then rounded as float32 is. TypeError for other dtypes, ValueError for other
    shapes."""
    if x.dtype is not _dtype.int8 or weight.dtype is not _dtype.q8_group:
        raise TypeError(f"int8_linear: takes int8 and a matrix of pack_int8, got {describe(x)} and {describe(weight)}")
    if not x._shape or x._shape[-1] != weight._shape[1]:
        raise ValueError(f"int8_linear: {describe(x)} does not fit the matrix {describe(weight)} (outputs, inputs)")
    return _int8_linear(x, weight)


__all__ = ["LARGEST", "int8_linear"]
