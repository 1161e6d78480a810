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
from .compare import ge, gt, le, lt, maximum, minimum
from .logical import logical_and, logical_or
from .select import where


def limited(x: Any, low: Any, high: Any) -> Any:
    """x between two numbers, for the programs of element_updates.py."""
    return x.maximum(low).minimum(high)


_between = element_function(limited, 1, 2)


def _d_clamp(g: Tensor, _: Any, x: Tensor, low: Any, high: Any) -> Any:
    """The gradient goes to x inside and on the limits, else to the limit that applies."""
    within = [ge(x, low)] if low is not None else []
    within += [le(x, high)] if high is not None else []  # neither holds for NaN
    inside = within[0] if len(within) == 1 else logical_and(*within)
    g_low = g_high = None
    if isinstance(low, Tensor) and low.requires_grad:
        below = lt(x, low)
        holds = below if high is None else logical_and(below, lt(low, high))
        g_low = unbroadcast(where(holds, g, 0.0), low)
    if isinstance(high, Tensor) and high.requires_grad:
        above = gt(x, high)
        holds = above if low is None else logical_or(above, gt(as_tensor(low, high), high))
        g_high = unbroadcast(where(holds, g, 0.0), high)
    return unbroadcast(where(inside, g, 0.0), x), g_low, g_high


@op(vjp=_d_clamp, name="_clamp")
def _clamp(x: Tensor, low: Any, high: Any) -> Tensor:
    limits = [v for v in (low, high) if v is not None]
    same_device("clamp", x, *limits)
    kind = common_dtype(x, *limits)
    broadcast_shapes(x.shape, *(v.shape for v in limits if isinstance(v, Tensor)), op="clamp")
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
    if common_dtype(x, *(v for v in (min, max) if v is not None)) is _dtype.bool_:
        raise UnsupportedTypeError(f"clamp: takes numbers, not {describe(x)}")
    return _clamp(x, min, max)


@function(method=True, in_place=True)
def clip(x: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """The same as clamp."""
    return clamp(x, min, max)


@function(method=True, in_place=True)
def clamp_min(x: Tensor, min: Any) -> Tensor:
    """clamp from below."""
    return clamp(x, min)


@function(method=True, in_place=True)
def clamp_max(x: Tensor, max: Any) -> Tensor:
    """clamp from above."""
    return clamp(x, None, max)
