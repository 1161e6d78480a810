"""Products of int8 vectors with an int8 matrix, by the kernel for block-quantised weights (native/linear_q8.c)."""

from __future__ import annotations

from math import prod
from typing import Any

from .. import dtype as _dtype
from ..launch import KERNELS
from ..op import claims
from ..ops import int8_product as _int8_product  # noqa: F401 (defines the op)
from ..ops.create import ones
from ..ops.padding import pad
from ..ops.stacking import cat
from ..quant import BLOCK, is_transposed
from ..tensor import Tensor, empty_contiguous

_LINEAR = KERNELS["linear_q8_group"]


@claims("_int8_linear")
def _int8_linear(x: Tensor, weight: Tensor) -> Any:
    if is_transposed(weight):
        return NotImplemented
    (outputs, inputs), rows = weight._shape, prod(x._shape[:-1])
    y = empty_contiguous((*x._shape[:-1], outputs), _dtype.float32, x.device)
    _LINEAR.launch(rows * outputs * inputs >> 10, y, _activations(x, rows), weight, None,
        rows, outputs, inputs, outputs, 0,
    )  # fmt: skip
    return y


def _activations(x: Tensor, rows: int) -> Tensor:
    """x (..., K) as quantize_rows writes activations, with scales of 1: (rows, blocks, 40) bytes, of each block 32
    int8, a float32 scale and the int32 sum."""
    inputs = x._shape[-1]
    blocks = -(-inputs // BLOCK)
    values = x.reshape(rows, inputs)
    if blocks * BLOCK != inputs:
        values = pad(values, (0, blocks * BLOCK - inputs))
    values = values.reshape(rows, blocks, BLOCK).contiguous()
    sums = values.to(_dtype.int32).sum(-1, keepdim=True, dtype=_dtype.int32)  # (rows, blocks, 1)
    scales = ones(rows, blocks, 1, dtype=_dtype.float32, device=x.device)
    return cat([part.view(_dtype.uint8) for part in (values, scales, sums)], -1)
