"""Elements in another order or place: flip, roll, pad and cat, as copies between views."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..op import claims
from ..ops import padding as _padding  # noqa: F401 (defines the ops)
from ..ops import reordering as _reordering  # noqa: F401 (defines the ops)
from ..ops import stacking as _stacking  # noqa: F401 (defines the op)
from ..ops.index import fill_
from ..ops.view import copy_strided, dense_copy
from ..shape import Shape
from ..tensor import Tensor, empty_contiguous, make


@claims("_flip")
def _flip(x: Tensor, dims: tuple[int, ...]) -> Any:
    if x.dtype.is_quantized:
        return NotImplemented
    strides = tuple(-s if d in dims else s for d, s in enumerate(x.strides))
    start = sum((x.shape[d] - 1) * x.strides[d] for d in set(dims) if x.shape[d])
    return dense_copy(make(x.storage, x.shape, strides, x.dtype, x.offset + start))


@claims("_roll")
def _roll(x: Tensor, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    if len(x.shape) > 6 or x.dtype.is_quantized:
        return NotImplemented
    for shift, dim in zip(shifts, dims, strict=True):
        size, y = x.shape[dim], empty_contiguous(x.shape, x.dtype, x.device)
        front = shift % size if size else 0  # elements that come from the end
        for to, at, count in ((0, size - front, front), (front, 0, size - front)):
            if count:
                copy_strided(_part(y, dim, to, count), _part(x, dim, at, count))
        x = y
    return x if shifts else dense_copy(x)


def _part(x: Tensor, dim: int, start: int, count: int) -> Tensor:
    shape: Shape = (*x.shape[:dim], count, *x.shape[dim + 1 :])
    return make(x.storage, shape, x.strides, x.dtype, x.offset + start * x.strides[dim])


@claims("_pad")
def _pad(x: Tensor, widths: tuple[tuple[int, int], ...], value: float) -> Any:
    if len(x.shape) > 6 or x.dtype.is_bits or x.dtype.is_quantized:
        return NotImplemented
    shape = tuple(before + n + after for n, (before, after) in zip(x.shape, widths, strict=True))
    y = fill_(empty_contiguous(shape, x.dtype, x.device), value)
    start = sum(before * s for (before, _), s in zip(widths, y.strides, strict=True))
    if x.numel():
        copy_strided(make(y.storage, x.shape, y.strides, x.dtype, start), x)
    return y


@claims("_cat")
def _cat(tensors: Sequence[Tensor], dim: int) -> Any:
    first = tensors[0]
    shape = (*first.shape[:dim], sum(x.shape[dim] for x in tensors), *first.shape[dim + 1 :])
    if len(shape) > 6 or any(x.dtype is not first.dtype for x in tensors):
        return NotImplemented
    y, at = empty_contiguous(shape, first.dtype, first.device), 0
    for x in tensors:
        if x.numel():
            copy_strided(_part(y, dim, at, x.shape[dim]), x)
        at += x.shape[dim]
    return y
