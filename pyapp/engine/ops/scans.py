"""Running sums and extremes along a dim: cumsum, cummax, cummin."""

from __future__ import annotations

from typing import Any

from .. import dtype as _dtype
from ..declare import function
from ..lazy import np
from ..numpy_arrays import array_of, tensor_of
from ..op import primitive
from ..shape import normalize_dim
from ..tensor import Tensor
from .reduce import Found, _accumulator


@function(method=True, in_place=True)
@primitive(vjp=lambda g, _, x, dim: (g.flip(dim).cumsum(dim).flip(dim),), saves="none")
def cumsum(x: Tensor, dim: int) -> Tensor:
    """Running sum along a dim; of integers in int64."""
    kind = _accumulator(x)  # named: on wasm32 NumPy would add int32 in 32 bits
    axis = normalize_dim(dim, x.ndim, "cumsum")
    array = array_of(x, None if x.dtype.is_floating_point else kind)
    return tensor_of(np.cumsum(array, axis=axis) if x.ndim else array.copy(), kind)


def _cumsum_by_name(x: Tensor, dim: int, dtype: Any = None) -> Tensor:
    return cumsum(x, dim) if dtype is None else cumsum(x.to(dtype), dim).to(dtype)


cumsum.by_name = _cumsum_by_name


def _running(name: str, accumulate: Any) -> Any:
    def function(x: Tensor, dim: int) -> Found:
        if not x.ndim:
            return Found(x.clone(), tensor_of(np.zeros((), np.int64)))
        d = normalize_dim(dim, x.ndim, name)
        array = array_of(x)
        values = accumulate().accumulate(array, axis=d)
        at = np.arange(array.shape[d], dtype=np.int64).reshape((-1,) + (1,) * (x.ndim - 1 - d))
        hit = np.where((array == values) | (array != array), at, 0)
        indices = tensor_of(np.maximum.accumulate(hit, axis=d), _dtype.int64)
        return Found(x.gather(d, indices), indices)

    function.__name__ = name
    function.__doc__ = f"(values, indices) of the running {name[3:]}imum along a dim; of equals the last. NaN wins."
    return function


cummax = function(method=True)(_running("cummax", lambda: np.maximum))
cummin = function(method=True)(_running("cummin", lambda: np.minimum))
