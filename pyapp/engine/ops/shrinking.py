"""Activations that give 0, or another value, up to a threshold."""

from __future__ import annotations

from math import inf

from ..declare import function
from ..op import op
from ..tensor import Tensor
from .element_updates import element_function
from .elementwise.select import where


@function()
def softshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """sign(x) max(|x| - lambd, 0)."""
    if not 0 <= lambd < inf:
        raise ValueError(f"softshrink: lambd must be a number >= 0, not {lambd}")
    return _soft_shrunk(x, float(lambd)) if x.dtype.is_floating_point else x - x.clamp(-lambd, lambd)


@function(method=True)
def hardshrink(x: Tensor, lambd: float = 0.5) -> Tensor:
    """x where |x| > lambd, else 0."""
    return _hard_shrunk(x, float(lambd)) if x.dtype.is_floating_point else where(x.abs() <= lambd, x * 0, x)


_hard_values = element_function(lambda x, limit: x.where(x.abs() > limit, x * 0.0), 1, 1)
# at NaN, which times 0 is not 0, the gradient is g
_hard_slope = element_function(lambda g, x, limit: g.where(x.abs() > limit, g.where((x * 0.0) != 0, 0.0)), 2, 1)


@op(vjp=lambda g, _, x, lambd: (_hard_slope(g, x, lambd), None), name="_hard_shrunk")
def _hard_shrunk(x: Tensor, lambd: float) -> Tensor:
    return _hard_values(x, lambd)


# The gradient of the difference would be g where |x| is lambd; torch's is 0 there, as that of hardshrink.
@op(vjp=lambda g, _, x, lambd: (_hard_slope(g, x, lambd), None), name="_soft_shrunk")
def _soft_shrunk(x: Tensor, lambd: float) -> Tensor:
    return x - x.clamp(-lambd, lambd)


_hard_shrunk.flat = _soft_shrunk.flat = True


@function()
def threshold(x: Tensor, threshold: float, value: float) -> Tensor:
    """x where x > threshold or NaN, else value, which is truncated for integers."""
    return _above(x, threshold, value if x.dtype.is_floating_point else int(value))


@op(vjp=lambda g, _, x, threshold, value: (where(x <= threshold, 0.0, g),))
def _above(x: Tensor, threshold: float, value: float) -> Tensor:
    return where(x <= threshold, value, x)


_above.flat = True
