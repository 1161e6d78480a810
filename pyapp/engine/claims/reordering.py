"""Elements in another order or place: flip, roll, pad and cat, as copies between views."""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import memmove
from math import prod
from typing import Any

from ..device import cpu
from ..dtype import DType, result_dtype
from ..element_types import CODES
from ..launch import KERNELS, Part, capturing
from ..op import claims
from ..operands import common_dtype, is_half
from ..ops.index import fill_
from ..ops.view import copy_strided, dense_copy
from ..shape import Shape, dense_layout
from ..tensor import Tensor, empty_contiguous, make
from .layouts import in_type

_FEW = 1 << 14  # elements that the C library copies
_COPY, _COPY_BYTES = KERNELS["copy_strided"], KERNELS["copy_bytes"]


@claims("_flip")
def _flip(x: Tensor, dims: tuple[int, ...]) -> Any:
    if x.dtype.is_quantized:
        return NotImplemented
    strides = tuple(-s if d in dims else s for d, s in enumerate(x.strides))
    start = sum((x._shape[d] - 1) * x.strides[d] for d in set(dims) if x._shape[d])
    return dense_copy(make(x._storage, x._shape, strides, x.dtype, x.offset + start))


@claims("_roll")
def _roll(x: Tensor, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    if len(x._shape) > 6 or x.dtype.is_quantized:
        return NotImplemented
    for shift, dim in zip(shifts, dims, strict=True):
        size, y = x._shape[dim], empty_contiguous(x._shape, x.dtype, x.device)
        front = shift % size if size else 0  # elements that come from the end
        for to, at, count in ((0, size - front, front), (front, 0, size - front)):
            if count:
                copy_strided(_part(y, dim, to, count), _part(x, dim, at, count))
        x = y
    return x if shifts else dense_copy(x)


def _part(x: Tensor, dim: int, start: int, count: int) -> Tensor:
    shape: Shape = (*x._shape[:dim], count, *x._shape[dim + 1 :])
    return make(x._storage, shape, x.strides, x.dtype, x.offset + start * x.strides[dim])


@claims("_pad")
def _pad(x: Tensor, widths: tuple[tuple[int, int], ...], value: float) -> Any:
    if len(x._shape) > 6 or (x.dtype.is_bits and not is_half(x)) or x.dtype.is_quantized:
        return NotImplemented
    shape = tuple(before + n + after for n, (before, after) in zip(x._shape, widths, strict=True))
    y = fill_(empty_contiguous(shape, x.dtype, x.device), value)
    start = sum(before * s for (before, _), s in zip(widths, y.strides, strict=True))
    if x.numel():
        copy_strided(make(y._storage, x._shape, y.strides, x.dtype, start), x)
    return y


@claims("_pad_with_own")
def _pad_with_own(x: Tensor, widths: tuple[tuple[int, int], ...], mode: str) -> Any:
    """x in the middle, and then, dim by dim, both edges from what is there already."""
    if len(x._shape) > 6 or x.dtype.is_quantized or not x.numel() or min(map(min, widths)) < 0:
        return NotImplemented
    shape = tuple(before + n + after for n, (before, after) in zip(x._shape, widths, strict=True))
    y = filled = empty_contiguous(shape, x.dtype, x.device)
    for dim, (before, _) in enumerate(widths):
        filled = _part(filled, dim, before, x._shape[dim])
    copy_strided(filled, x)
    for dim, (before, after) in enumerate(widths):
        step, first = y.strides[dim], filled.offset
        last = first + (x._shape[dim] - 1) * step
        if mode == "reflect":
            stride, left, right = -step, first + before * step, last - step
        elif mode == "circular":
            stride, left, right = step, last - (before - 1) * step, first
        else:
            stride, left, right = 0, first, last
        own, read = (filled._shape[:dim], filled._shape[dim + 1 :]), (*y.strides[:dim], stride, *y.strides[dim + 1 :])
        for count, to, source in ((before, first - before * step, left), (after, last + step, right)):
            if count:
                edge = (*own[0], count, *own[1])
                from_edge = make(y._storage, edge, read, y.dtype, source)
                copy_strided(make(y._storage, edge, y.strides, y.dtype, to), from_edge)
        filled = make(y._storage, (*own[0], shape[dim], *own[1]), y.strides, y.dtype, first - before * step)
    return y


def _are_small(tensors: Sequence[Tensor], kind: DType) -> bool:
    """Whether tensors of one shape are dense, of few elements and of this dtype."""
    count, strides = dense_layout(tensors[0]._shape)
    if count > _FEW:
        return False
    for x in tensors:
        if x.dtype is not kind or x.strides != strides:
            return False
    return True


def _joined(tensors: Sequence[Tensor], shape: Shape, dim: int, kind: DType, new_dim: bool) -> Any:
    """Tensors one after another along a dim of a new tensor; `new_dim`: which they do not have."""
    if len(shape) > 6 or not (kind in CODES or kind.is_complex):
        return NotImplemented
    y, at = empty_contiguous(shape, kind, tensors[0].device), 0
    size, step = kind.itemsize, kind.itemsize * y.strides[dim]
    strides = y.strides[:dim] + y.strides[dim + 1 :] if new_dim else y.strides
    rank, follow = len(strides), not dim or prod(shape[:dim]) == 1
    direct = follow and y.device is cpu and not capturing()
    if direct and new_dim and _are_small(tensors, kind):  # as the examples of a batch are
        to, nbytes = y.address, tensors[0].numel() * size
        for x in tensors:
            memmove(to, x.address, nbytes)
            to += nbytes
        return y
    pad = (0,) * (6 - rank)
    for x in tensors:
        if x.dtype is not kind:
            x = in_type(x, kind)
        count = x.numel()
        if direct and count <= _FEW and x.is_contiguous():
            memmove(y.address + at * step, x.address, count * size)  # a launch costs as much as 10 kB
            at += 1 if new_dim else x._shape[dim]
            continue
        part = Part(y, at * step)
        if follow and x.is_contiguous():
            _COPY_BYTES.launch(count >> 10, part, x, count * size)
        else:
            _COPY.launch(count >> 10, part, x, size, rank, *x._shape, *pad, *strides, *pad, *x.strides, *pad)
        at += 1 if new_dim else x._shape[dim]
    return y


@claims("_cat")
def _cat(tensors: Sequence[Tensor], dim: int) -> Any:
    shape, kind, length = tensors[0]._shape, tensors[0].dtype, 0
    for x in tensors:
        if x.dtype is not kind:
            kind = common_dtype(*tensors)
        length += x._shape[dim]
    return _joined(tensors, (*shape[:dim], length, *shape[dim + 1 :]), dim, kind, False)


@claims("_stack")
def _stack(tensors: Sequence[Tensor], dim: int) -> Any:
    shape, kinds = tensors[0]._shape, [x.dtype for x in tensors]
    kind = kinds[0] if kinds.count(kinds[0]) == len(kinds) else result_dtype([(kind, 2) for kind in kinds])
    return _joined(tensors, (*shape[:dim], len(tensors), *shape[dim:]), dim, kind, True)
