"""Layouts of tensors that launch records can express."""

from __future__ import annotations

from math import prod

from .. import shape as shapes
from ..dtype import DType
from ..launch import KERNELS
from ..operands import dense
from ..ops.elementwise.cast import cast
from ..ops.view import copy_strided
from ..shape import dense_layout
from ..storage import Storage
from ..tensor import Tensor, empty_contiguous, make

_FILL = KERNELS["fill_f32"]


def row_major(x: Tensor) -> Tensor:
    """x, dense, with the strides of that: what `dense` gives may have any where a dim has the size one."""
    x, strides = dense(x), dense_layout(x._shape)[1]
    return x if x.strides == strides else make(x._storage, x._shape, strides, x.dtype, x.offset)


def rows_of(x: Tensor) -> tuple[Tensor, int, int, int]:
    """(x, rows, columns, row stride): x itself if its rows are dense and evenly spaced, else a dense copy."""
    shape, strides = x._shape, x.strides
    columns = shape[-1]
    if len(shape) == 2 and strides[1] == 1:
        return x, shape[0], columns, strides[0]
    x = dense(x)
    return x, prod(shape[:-1]), columns, columns


def is_packed(x: Tensor) -> bool:
    """Whether the elements have no gaps in memory, in any order of the dims."""
    return shapes.is_packed(x._shape, x.strides)


def is_turned(x: Tensor) -> bool:
    """Whether the elements have no gaps in memory, but another order than that of the dims, as a transpose's have."""
    return x.strides != dense_layout(x._shape)[1] and not x.is_contiguous() and is_packed(x)


def laid_as(x: Tensor, other: Tensor) -> Tensor:
    """x itself if it has the strides of another tensor of its shape, which has no gaps, else a copy that has them."""
    if x.strides == other.strides:
        return x
    if other.is_contiguous():
        return dense(x)
    y = make(Storage(x.dtype.itemsize * x.numel(), x.device), x._shape, other.strides, x.dtype)
    return y if copy_strided(y, x) else y.copy_(x)


def result_like(x: Tensor) -> tuple[Tensor, Tensor, int]:
    """(x, an empty result with x's layout, elements): x itself where it has no gaps, else a copy without them."""
    shape = x._shape
    layout = count, strides = dense_layout(shape)
    if x.strides != strides and not x.is_contiguous():
        if not is_packed(x):
            x = x.clone()
        if x.strides != strides:
            return x, make(Storage(x.dtype.itemsize * count, x.device), shape, x.strides, x.dtype), count
    return x, empty_contiguous(shape, x.dtype, x.device, layout), count


def fill_zero(x: Tensor) -> None:
    """Zeroes a dense float32 tensor."""
    _FILL.launch(x.numel() >> 10, x, x.numel(), 0.0)


def in_type(x: Tensor, dtype: DType) -> Tensor:
    """x in a dtype, outside the graph."""
    return x if x.dtype is dtype else cast.forward(x, dtype)
