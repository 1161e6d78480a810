"""Rectifiers whose slope below zero is learnt or random."""

from __future__ import annotations

from typing import Any

from ..declare import function
from ..op import op
from ..operands import unbroadcast
from ..tensor import Tensor
from ..user_errors import describe
from .element_updates import element_function
from .elementwise.select import where
from .random import rand
from .view import expand


@function()
def prelu(x: Tensor, weight: Tensor) -> Tensor:
    """x, or weight x below zero: one weight, or one for each channel (dim 1) (He et al. 2015, arXiv 1502.01852)."""
    if not x.ndim and weight.numel() == 1:
        weight = weight.reshape(())
    elif weight.numel() != 1:
        if x.ndim < 2 or weight._shape != (x._shape[1],):
            raise ValueError(f"prelu: the weight {describe(weight)} does not fit the channels of {describe(x)}")
        weight = weight.reshape((1, -1) + (1,) * (x.ndim - 2))
    return _prelu(x, weight)


_prelu_values = element_function(lambda x, weight: x.where(x > 0.0, x * weight), 2)
_prelu_slope = element_function(lambda g, x, weight: g.where(x > 0.0, g * weight), 3)
_prelu_share = element_function(lambda g, x: (g * 0.0).where(x > 0.0, g * x), 2)


@op(name="_prelu")
def _prelu(x: Tensor, weight: Tensor) -> Tensor:
    """prelu with a weight that broadcasts to x."""
    if x.dtype is not weight.dtype:
        return where(x > 0, x, x * weight)
    return _prelu_values(x, weight if weight.numel() == 1 else expand(weight, x._shape))


@_prelu.gradient
def _d_prelu(g: Tensor, _: Any, x: Tensor, weight: Tensor) -> tuple[Any, Any]:
    if not x.dtype is weight.dtype is g.dtype:
        above = x > 0
        return where(above, g, g * weight), unbroadcast(where(above, 0.0, g * x), weight)
    each = weight if weight.numel() == 1 else expand(weight, x._shape)
    return _prelu_slope(g, x, each), unbroadcast(_prelu_share(g, x), weight)


_prelu.flat = True


@function()
def rrelu(
    x: Tensor, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False, *, generator: Any = None
) -> Tensor:
    """x, or a * x below zero. `a` is uniform in lower .. upper in training, else their mean."""
    if not training:
        return where(x > 0, x, x * ((lower + upper) / 2))
    slope = rand(x._shape, generator=generator, dtype=x.dtype, device=x.device) * (upper - lower) + lower
    return where(x > 0, x, x * slope)
