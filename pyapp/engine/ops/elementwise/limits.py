"""Limit elements to a range: clamp and its synonyms."""

from __future__ import annotations

from math import inf
from typing import Any

from ....errors import UnsupportedTypeError
from ... import dtype as _dtype
from ...declare import function
from ...op import op
from ...operands import as_tensor, common_dtype, same_device, unbroadcast
from ...shape import broadcast_shapes
from ...tensor import Tensor
from ...user_errors import describe
from ..element_updates import element_function
from .compare import eq, gt, le, lt, maximum, minimum, vjp_of_choice
from .logical import logical_and, logical_or
from .select import where


def limited(x: Any, low: Any, high: Any) -> Any:
    """x between two numbers, for the programs of element_updates.py."""
    return x.maximum(low).minimum(high)


_between = element_function(limited, 1, 2)


_where_above = element_function(lambda g, x, low: g.where(x > low, 0.0), 2, 1)  # nowhere at NaN
_where_below = element_function(lambda g, x, high: g.where(x < high, 0.0), 2, 1)


def _d_clamp(g: Tensor, _: Any, x: Tensor, low: Any, high: Any) -> Any:
    """The gradient goes to x between the limits, else to the limit that applies. On a limit it goes nowhere if that is
    a number, and one half to each if it is a tensor, as in torch (2.14)."""
    if not (isinstance(low, Tensor) or isinstance(high, Tensor)):
        g = g if low is None else _where_above(g, x, float(low))
        return g if high is None else _where_below(g, x, float(high)), None, None
    if low is None or high is None:
        limit, loses = (low, lt) if high is None else (high, gt)
        to_x, to_limit = vjp_of_choice(loses)(g, None, x, limit)
        return (to_x, to_limit, None) if high is None else (to_x, None, to_limit)
    low, high = as_tensor(low, x), as_tensor(high, x)
    ordered, below, above = le(low, high), lt(x, low), gt(x, high)
    halved = logical_and(lt(low, high), logical_or(eq(x, low), eq(x, high)))
    half = where(halved, g * 0.5, g)
    to_x = where(logical_or(below, above), 0.0, half)  # that of NaN, too
    to_low = where(logical_and(ordered, below), g, where(logical_and(halved, eq(x, low)), half, 0.0))
    to_high = where(logical_and(ordered, above), g, where(logical_and(halved, eq(x, high)), half, 0.0))
    to_high = where(gt(low, high), g, to_high)
    return tuple(unbroadcast(part, to) for part, to in ((to_x, x), (to_low, low), (to_high, high)))


@op(vjp=_d_clamp, name="_clamp")
def _clamp(x: Tensor, low: Any, high: Any) -> Tensor:
    limits = [v for v in (low, high) if v is not None]
    same_device("clamp", x, *limits)
    kind = common_dtype(x, *limits)
    broadcast_shapes(x._shape, *(v._shape for v in limits if isinstance(v, Tensor)), op="clamp")
    if x.dtype is kind and kind.is_floating_point and all(isinstance(v, (int, float)) for v in limits):
        return _between(x, -inf if low is None else low, inf if high is None else high)
    x = x.to(kind)
    x = x if low is None else maximum(x, low)
    return x if high is None else minimum(x, high)


@function(method=True, in_place=True)
def clamp(x: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """Limits each element to min .. max, each a number or a tensor; where min > max, to max."""
    if min is None and max is None:
        raise ValueError("clamp: give min, max or both")
    if x.dtype is _dtype.bool_ and common_dtype(x, *(v for v in (min, max) if v is not None)) is _dtype.bool_:
        raise UnsupportedTypeError(f"clamp: takes numbers, not {describe(x)}")
    return _clamp(x, min, max)


@function(method=True, in_place=True)
def clip(x: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """The same as clamp."""
    return clamp(x, min, max)


@function(method=True, in_place=True)
def clamp_min(x: Tensor, min: Any) -> Tensor:
    """clamp from below. A tensor of bools as a limit is taken for bools, too."""
    return maximum(x, min) if isinstance(min, Tensor) and min.dtype is x.dtype is _dtype.bool_ else clamp(x, min)


@function(method=True, in_place=True)
def clamp_max(x: Tensor, max: Any) -> Tensor:
    """clamp from above. A tensor of bools as a limit is taken for bools, too."""
    return minimum(x, max) if isinstance(max, Tensor) and max.dtype is x.dtype is _dtype.bool_ else clamp(x, None, max)
