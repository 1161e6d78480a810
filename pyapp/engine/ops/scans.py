"""Running sums and extremes along a dim: cumsum, cummax, cummin."""

from __future__ import annotations

from typing import Any

from .. import dtype as _dtype
from ..declare import function
from ..lazy import np
from ..numpy_arrays import array_of, tensor_of
from ..op import primitive
from ..operands import refuse_complex
from ..return_types import Found, found
from ..shape import normalize_dim
from ..tensor import Tensor
from .reduce import _accumulator


@function(method=True, in_place=True)
@primitive(vjp=lambda g, _, x, dim: (g.flip(dim).cumsum(dim).flip(dim),), saves="none")
def cumsum(x: Tensor, dim: int) -> Tensor:
    """Running sum along a dim; of integers in int64."""
    kind = _accumulator(x)  # named: on wasm32 NumPy would add int32 in 32 bits
    axis = normalize_dim(dim, x.ndim, "cumsum")
    array = array_of(x, None if x.dtype.has_gradient else kind)
    return tensor_of(np.cumsum(array, axis=axis) if x.ndim else array.copy(), kind)


def _cumsum_by_name(x: Tensor, dim: int, dtype: Any = None) -> Tensor:
    return cumsum(x, dim) if dtype is None else cumsum(x.to(dtype), dim).to(dtype)


cumsum.by_name = _cumsum_by_name


@primitive(saves="none", name="_running_places")
def _running_places(x: Tensor, dim: int, name: str) -> Tensor:
    """Where the largest (cummax) or smallest (cummin) element so far is, int64: of equals the last; NaN wins."""
    array = array_of(x)
    values = (np.maximum if name == "cummax" else np.minimum).accumulate(array, axis=dim)
    at = np.arange(array.shape[dim], dtype=np.int64).reshape((-1,) + (1,) * (x.ndim - 1 - dim))
    hit = np.where((array == values) | (array != array), at, 0)
    return tensor_of(np.maximum.accumulate(hit, axis=dim), _dtype.int64)


def _running(name: str) -> Any:
    kind = found(name)

    def function(x: Tensor, dim: int) -> Found:
        d = normalize_dim(dim, x.ndim, name)
        refuse_complex(name, x)
        if not x.ndim:
            return kind(x.clone(), x.new_zeros((), dtype=_dtype.int64))
        indices = _running_places(x.detach(), d, name)
        return kind(x.gather(d, indices), indices)

    function.__name__ = name
    function.__doc__ = f"(values, indices) of the running {name[3:]}imum along a dim; of equals the last. NaN wins."
    return function


cummax = function(method=True)(_running("cummax"))
cummin = function(method=True)(_running("cummin"))
