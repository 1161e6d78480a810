"""Sorting along a dim: sort, argsort, topk, msort."""

from __future__ import annotations

from .. import dtype as _dtype
from ..declare import function
from ..lazy import np
from ..numpy_arrays import array_of, tensor_of
from ..op import primitive
from ..operands import refuse_complex
from ..return_types import Found, found
from ..shape import normalize_dim
from ..tensor import Tensor

_Sorted, _Top = found("sort"), found("topk")


@function(method=True)
@primitive(vjp=None)
def argsort(x: Tensor, dim: int = -1, descending: bool = False) -> Tensor:
    """Indices (int64) that sort along a dim; equal elements keep their order."""
    refuse_complex("argsort", x)
    if not x.ndim:
        normalize_dim(dim, 0, "argsort")
        return tensor_of(np.zeros((), np.int64))
    array = array_of(x)
    axis = normalize_dim(dim, x.ndim, "argsort")
    if descending:  # a stable descending order: sort the mirrored array, and mirror back
        size = array.shape[axis]
        order = size - 1 - np.flip(np.argsort(np.flip(array, axis), axis=axis, kind="stable"), axis)
    else:
        order = np.argsort(array, axis=axis, kind="stable")
    return tensor_of(order, _dtype.int64)


argsort.by_name = lambda x, dim=-1, descending=False, stable=False: argsort(x, dim, descending)


@function(method=True)
def sort(x: Tensor, dim: int = -1, descending: bool = False, stable: bool = True) -> Found:
    """(values, indices) in sorted order along a dim; equal elements keep their order, `stable` or not."""
    indices = argsort(x, dim, descending)
    return _Sorted(x.gather(dim, indices), indices)


@primitive(vjp=None, name="_first_indices")
def _first_indices(x: Tensor, count: int, dim: int, descending: bool) -> Tensor:
    """Indices (int64) of the first `count` elements along dim >= 0 in sorted order."""
    return argsort(x, dim, descending).narrow(dim, 0, count).contiguous() if x.ndim else argsort(x, dim, descending)


@function(method=True)
def topk(x: Tensor, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> Found:
    """(values, indices) of the k largest along a dim in descending order, or of the k smallest in ascending order.

    NaN counts as the largest. Of equal elements, those with the smallest indices are taken and come first; which ones
    torch takes is not defined. They are in order with `sorted` or without.
    """
    d = normalize_dim(dim, x.ndim, "topk")
    size = x._shape[d] if x.ndim else 1
    if not 0 <= k <= size:
        raise ValueError(f"topk: selected index k out of range: k = {k} is not between 0 and {size}")
    k = +k  # a size is not a bool
    indices = _first_indices(x, k, d, largest)
    return _Top(x.gather(d, indices), indices)


@function(method=True)
def msort(x: Tensor) -> Tensor:
    """Sorted along dim 0."""
    return x.sort(0)[0]
