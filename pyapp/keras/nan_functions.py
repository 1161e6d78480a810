"""keras.ops' functions that leave out what is not a number."""

from __future__ import annotations

from typing import Any

import pyapp

from ..engine import Tensor, as_dtype
from .arguments import as_floats, as_tensor, axes_of, sum_dtype

__all__ = [
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile",
    "nanprod", "nanquantile", "nanstd", "nansum", "nanvar",
]  # fmt: skip


def _filled(x: Any, value: float) -> Tensor:
    """x with a value where it has no number."""
    values = as_tensor(x)
    return pyapp.where(values.isnan(), value, values) if values.dtype.is_floating_point else values


def nansum(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    values = _filled(x, 0.0)
    return values.sum(tuple(axes_of(axis, values)), keepdims, dtype=sum_dtype(values))


def nanprod(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    values = _filled(x, 1.0)
    for place in sorted(axes_of(axis, values), reverse=True):
        values = pyapp.prod(values, place, keepdims, dtype=sum_dtype(values))
    return values


def nanmean(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    values = as_floats(x)
    return pyapp.nanmean(values, tuple(axes_of(axis, values)), keepdims)


def nanvar(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean of the squared distances from the mean."""
    values = as_floats(x)
    return nanmean((values - nanmean(values, axis, True)).square(), axis, keepdims)


def nanstd(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    return nanvar(x, axis, keepdims).sqrt()


def _extreme(name: str, x: Any, axis: Any, keepdims: bool) -> Tensor:
    """The extreme number; nan where there is none."""
    values = as_tensor(x)
    find = getattr(pyapp, name)
    axes = tuple(axes_of(axis, values))
    if not values.dtype.is_floating_point:
        return find(values, axes, keepdims)
    found = find(_filled(values, float("-inf" if name == "amax" else "inf")), axes, keepdims)
    return pyapp.where(pyapp.all(values.isnan(), axes, keepdims), float("nan"), found)


def nanmax(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    return _extreme("amax", x, axis, keepdims)


def nanmin(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    return _extreme("amin", x, axis, keepdims)


def _place(name: str, fill: float, x: Any, axis: int | None, keepdims: bool) -> Tensor:
    """The place of an extreme number, int32; -1 where there is none."""
    given = as_tensor(x)
    values = _filled(given, fill)
    find = getattr(pyapp, name)
    found = find(values.reshape(-1), 0) if axis is None else find(values, axis, keepdims)
    if axis is None and keepdims:
        found = found.reshape((1,) * values.ndim)
    if given.dtype.is_floating_point:
        found = pyapp.where(pyapp.all(given.isnan(), tuple(axes_of(axis, given)), keepdims), -1, found)
    return found.to("int32")


def nanargmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the largest number, int32; -1 where there is none."""
    return _place("argmax", float("-inf"), x, axis, keepdims)


def nanargmin(x: Any, axis: int | None = None, keepdims: bool = False) -> Tensor:
    """The place of the smallest number, int32; -1 where there is none."""
    return _place("argmin", float("inf"), x, axis, keepdims)


def _running(name: str, fill: float, x: Any, axis: int | None, dtype: Any) -> Tensor:
    values = _filled(x, fill)
    kind = as_dtype(dtype or ("int32" if values.dtype is pyapp.bool else values.dtype))
    values = values.reshape(-1) if axis is None else values
    return getattr(pyapp, name)(values.to(kind), axis or 0, dtype=kind)


def nancumsum(x: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    return _running("cumsum", 0.0, x, axis, dtype)


def nancumprod(x: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    return _running("cumprod", 1.0, x, axis, dtype)


def nanmedian(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The middle value, or the mean of the two in the middle."""
    return nanquantile(x, 0.5, axis, keepdims=keepdims)


def nanquantile(x: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Tensor:
    values = as_floats(x)
    shares = as_tensor(q).to(values.dtype)
    places = axes_of(axis, values)
    kept = [k for k in range(values.ndim) if k not in places]
    rows = values.permute(*kept, *places).reshape(*(values.shape[k] for k in kept), -1)
    found = pyapp.nanquantile(rows, shares, -1, interpolation=method)
    if not keepdims:
        return found
    return found.reshape(*shares.shape, *(1 if k in places else values.shape[k] for k in range(values.ndim)))


def nanpercentile(x: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Tensor:
    return nanquantile(x, as_floats(q) / 100, axis, method, keepdims)
