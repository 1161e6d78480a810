"""keras.ops that reduce, sort and add up along axes. Sums of short whole numbers are int32, places are int32."""

from __future__ import annotations

from typing import Any

import pyapp

from ..engine import Tensor, as_dtype, ops
from .arguments import as_floats, as_tensor, axes_of, dim_of, sum_dtype

__all__ = [
    "all", "amax", "amin", "any", "argmax", "argmin", "argpartition", "argsort", "average", "corrcoef",
    "count_nonzero", "cumprod", "cumsum", "logsumexp", "max", "mean", "median", "min", "percentile", "prod", "ptp",
    "quantile", "sort", "std", "sum", "var",
]  # fmt: skip


def sum(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The sum over an axis, several, or all (None)."""
    values = as_tensor(x)
    return values.sum(tuple(axes_of(axis, values)), keepdims, dtype=sum_dtype(values))


def prod(x: Any, axis: Any = None, keepdims: bool = False, dtype: Any = None) -> Tensor:
    """The product over an axis, several, or all (None)."""
    values = as_tensor(x)
    kind = sum_dtype(values) if dtype is None else as_dtype(dtype)
    for place in sorted(axes_of(axis, values), reverse=True):
        values = pyapp.prod(values, place, keepdims, dtype=kind)
    return values.to(kind)


def mean(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean; of whole numbers in float32."""
    values = as_floats(x)
    return values.mean(tuple(axes_of(axis, values)), keepdims) if values.ndim else values


def var(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean of the squared distances from the mean."""
    values = as_floats(x)
    return pyapp.var(values, tuple(axes_of(axis, values)), correction=0, keepdim=keepdims)


def std(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The root of `var`."""
    values = as_floats(x)
    return pyapp.std(values, tuple(axes_of(axis, values)), correction=0, keepdim=keepdims)


def max(x: Any, axis: Any = None, keepdims: bool = False, initial: Any = None) -> Tensor:
    """The largest element, or `initial` if that is larger."""
    found = _extreme("amax", x, axis, keepdims)
    return found if initial is None else pyapp.maximum(found, ops.full((), initial, dtype=found.dtype))


def min(x: Any, axis: Any = None, keepdims: bool = False, initial: Any = None) -> Tensor:
    """The smallest element, or `initial` if that is smaller."""
    found = _extreme("amin", x, axis, keepdims)
    return found if initial is None else pyapp.minimum(found, ops.full((), initial, dtype=found.dtype))


def amax(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The largest element."""
    return _extreme("amax", x, axis, keepdims)


def amin(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The smallest element."""
    return _extreme("amin", x, axis, keepdims)


def _extreme(name: str, x: Any, axis: Any, keepdims: bool) -> Tensor:
    values = as_tensor(x)
    return getattr(pyapp, name)(values, tuple(axes_of(axis, values)), keepdims)


def all(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether all elements are true, or not 0."""
    values = as_tensor(x).to("bool")
    return pyapp.all(values, tuple(axes_of(axis, values)), keepdims)


def any(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """Whether any element is true, or not 0."""
    values = as_tensor(x).to("bool")
    return pyapp.any(values, tuple(axes_of(axis, values)), keepdims)


def count_nonzero(x: Any, axis: Any = None) -> Tensor:
    """How many elements are not 0, int32."""
    values = as_tensor(x)
    return pyapp.count_nonzero(values, tuple(axes_of(axis, values))).to("int32")


def cumsum(x: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    """The sums up to each element along an axis; of all elements as a vector for None."""
    return _running("cumsum", x, axis, dtype)


def cumprod(x: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    """The products up to each element along an axis; of all elements as a vector for None."""
    return _running("cumprod", x, axis, dtype)


def _running(name: str, x: Any, axis: int | None, dtype: Any) -> Tensor:
    values = as_tensor(x)
    kind = as_dtype(dtype or ("int32" if values.dtype is pyapp.bool else values.dtype))
    return getattr(pyapp, name)(values.reshape(-1) if axis is None else values, axis or 0, dtype=kind)


def logsumexp(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """log(the sum of exp(x))."""
    values = as_floats(x)
    return pyapp.logsumexp(values, tuple(axes_of(axis, values)), keepdim=keepdims)


def ptp(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The distance of the largest from the smallest."""
    return amax(x, axis, keepdims) - amin(x, axis, keepdims)


def average(x: Any, axis: Any = None, weights: Any = None) -> Tensor:
    """The mean, in which elements count as their weights say."""
    values = as_floats(x)
    if weights is None:
        return mean(values, axis)
    shares = as_floats(weights)
    kind = pyapp.result_type(values, shares)
    values, shares = values.to(kind), shares.to(kind)
    if axis is not None and shares.ndim == 1 < values.ndim:
        shares = shares.reshape(*(-1 if k == dim_of(axis, values.ndim) else 1 for k in range(values.ndim)))
    return sum(values * shares, axis) / sum(shares.expand(values.shape), axis)


def median(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The middle value, or the mean of the two in the middle."""
    return quantile(x, 0.5, axis, keepdims=keepdims)


def quantile(x: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Tensor:
    """The values below which the shares `q` of the elements lie: (*q, ...)."""
    return quantile_by(pyapp.quantile, x, q, axis, method, keepdims)


def quantile_by(find: Any, x: Any, q: Any, axis: Any, method: str, keepdims: bool) -> Tensor:
    """`find`, pyapp.quantile or pyapp.nanquantile, along an axis or several."""
    values = as_floats(x)
    shares = as_tensor(q).to(values.dtype)
    found: Tensor
    if not isinstance(axis, (tuple, list)):
        found = find(values, shares, axis, keepdims, interpolation=method)
        return found
    places = axes_of(axis, values)
    kept = [k for k in range(values.ndim) if k not in places]
    rows = values.permute(*kept, *places).reshape(*(values.shape[k] for k in kept), -1)
    found = find(rows, shares, -1, interpolation=method)
    if not keepdims:
        return found
    return found.reshape(*shares.shape, *(1 if k in places else values.shape[k] for k in range(values.ndim)))


def percentile(x: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Tensor:
    """`quantile`, with `q` in percent."""
    return quantile(x, as_floats(q) / 100, axis, method, keepdims)


def sort(x: Any, axis: int | None = -1) -> Tensor:
    """Sorted along an axis; all elements as a vector for None."""
    values = as_tensor(x)
    return pyapp.sort(values.reshape(-1) if axis is None else values, -1 if axis is None else axis)[0]


def argsort(x: Any, axis: int | None = -1) -> Tensor:
    """The places of the sorted elements, int32; of all of them if the axis is None."""
    values = as_tensor(x)
    values = values.reshape(-1) if axis is None else values
    return pyapp.argsort(values, -1 if axis is None else axis, stable=True).to("int32")


def argpartition(x: Any, kth: int, axis: int = -1) -> Tensor:
    """Places, int32, after which the kth element stands where it stands in sorted ones, no larger one before it."""
    return argsort(x, axis)


def argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the largest element, int32."""
    return _place(pyapp.argmax, x, axis, keepdims)


def argmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the smallest element, int32."""
    return _place(pyapp.argmin, x, axis, keepdims)


def _place(find: Any, x: Any, axis: int | None, keepdims: bool) -> Tensor:
    values = as_tensor(x)
    values = values.to("uint8") if values.dtype is pyapp.bool else values
    found = find(values.reshape(-1), 0) if axis is None else find(values, axis, keepdims)
    return (found.reshape((1,) * values.ndim) if axis is None and keepdims else found).to("int32")


def corrcoef(x: Any) -> Tensor:
    """The correlations of the rows."""
    return pyapp.corrcoef(as_floats(x))
