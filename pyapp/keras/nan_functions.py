"""keras.ops' functions that leave out what is not a number."""

from __future__ import annotations

from typing import Any

import pyapp

from ..engine import Tensor
from . import reducing_functions
from .arguments import as_floats, as_tensor, axes_of

__all__ = [
    "nanargmax", "nanargmin", "nancumprod", "nancumsum", "nanmax", "nanmean", "nanmedian", "nanmin", "nanpercentile",
    "nanprod", "nanquantile", "nanstd", "nansum", "nanvar",
]  # fmt: skip


def _filled(x: Any, value: float) -> Tensor:
    """x with a value where it has no number."""
    values = as_tensor(x)
    return pyapp.where(values.isnan(), value, values) if values.dtype.is_floating_point else values


def nansum(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """`sum` of the numbers."""
    return reducing_functions.sum(_filled(x, 0.0), axis, keepdims)


def nanprod(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """`prod` of the numbers."""
    return reducing_functions.prod(_filled(x, 1.0), axis, keepdims)


def nanmean(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean of the numbers."""
    values = as_floats(x)
    return pyapp.nanmean(values, tuple(axes_of(axis, values)), keepdims)


def nanvar(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The mean of the squared distances from the mean."""
    values = as_floats(x)
    return nanmean((values - nanmean(values, axis, True)).square(), axis, keepdims)


def nanstd(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The root of `nanvar`."""
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
    """The largest number; nan where there is none."""
    return _extreme("amax", x, axis, keepdims)


def nanmin(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The smallest number; nan where there is none."""
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


def nancumsum(x: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    """`cumsum` of the numbers."""
    return reducing_functions.cumsum(_filled(x, 0.0), axis, dtype)


def nancumprod(x: Any, axis: int | None = None, dtype: Any = None) -> Tensor:
    """`cumprod` of the numbers."""
    return reducing_functions.cumprod(_filled(x, 1.0), axis, dtype)


def nanmedian(x: Any, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The middle value, or the mean of the two in the middle."""
    return nanquantile(x, 0.5, axis, keepdims=keepdims)


def nanquantile(x: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Tensor:
    """`quantile` of the numbers."""
    return reducing_functions.quantile_by(pyapp.nanquantile, x, q, axis, method, keepdims)


def nanpercentile(x: Any, q: Any, axis: Any = None, method: str = "linear", keepdims: bool = False) -> Tensor:
    """`nanquantile`, with `q` in percent."""
    return nanquantile(x, as_floats(q) / 100, axis, method, keepdims)
