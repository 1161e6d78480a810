"""Activation functions."""

from __future__ import annotations

from math import pi, sqrt
from typing import Any

from .. import dtype as _dtype
from ..declare import function
from ..lazy import np
from ..op import op
from ..shape import normalize_dim
from ..tensor import Tensor
from ..user_errors import describe
from .composite_gradient import fused_gradient
from .element_updates import element_function
from .elementwise.builders import unary
from .elementwise.compare import minimum
from .elementwise.exponential import exp, expm1, log1p
from .elementwise.limits import clamp, limited
from .elementwise.select import where
from .elementwise.special import erf
from .elementwise.trigonometry import tanh
from .stacking import cat
from .view import narrow


def _sigmoid(x: Any) -> Any:
    if x.dtype.kind == "c":
        return 1 / (1 + np.exp(-x))
    e = np.exp(-np.abs(x))
    return np.where(x >= 0, 1, e) / (1 + e)


# Gradients by g and the result y, or the argument x.
_d_sigmoid = element_function(lambda g, y: g * (y * (1.0 - y)), 2)
_d_relu = element_function(lambda g, y: g.where(y != 0, 0.0), 2)  # g at NaN, as in torch
_d_leaky = element_function(lambda g, x, slope: g.where(x > 0.0, g * slope), 2, 1)

sigmoid = unary("sigmoid", _sigmoid, lambda g, y, x: (_d_sigmoid(g, y),), saves="output", of_complex=True)
relu = unary(
    "relu",
    lambda x: np.maximum(x, 0),
    lambda g, y, x: (_d_relu(g, y),),
    out="same",
    saves="output",
    instead_of_bools="convert it first",
)
relu.flat = True


@function(method=True, in_place=True)
@op()
def silu(x: Tensor) -> Tensor:
    """x * sigmoid(x) (Hendrycks & Gimpel 2016, arXiv 1606.08415)."""
    return x * x.sigmoid()


silu_backward = fused_gradient(silu)


@function()
@op()
def silu_mul(x: Tensor) -> Tensor:
    """silu(gate) * up for x (..., 2F) = [gate, up]: the gate of SwiGLU (Shazeer 2020, arXiv 2002.05202). Returns (...,
    F).
    """
    width = x._shape[-1]
    if width % 2:
        raise ValueError(f"silu_mul: the last dim of {describe(x)} is odd; it holds [gate, up]")
    return silu(x[..., : width // 2]) * x[..., width // 2 :]


silu_mul_backward = fused_gradient(silu_mul)


@function(method=True)
@op()
def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution's cdf (Hendrycks & Gimpel 2016, arXiv 1606.08415), exact or by "tanh"."""
    if approximate == "none":
        return x * 0.5 * (1 + erf(x * sqrt(0.5)))
    if approximate != "tanh":
        raise ValueError(f"gelu: approximate is 'none' or 'tanh', not {approximate!r}")
    return x * 0.5 * (1 + tanh((x + x * x * x * 0.044715) * sqrt(2 / pi)))


gelu_backward = fused_gradient(gelu)


@function(method=True)
@op()
def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta; x itself where beta x > threshold."""
    scaled = x * beta
    straight = scaled > threshold
    return where(straight, x, log1p(exp(where(straight, 0.0, scaled))) / beta)


_softplus_slope = element_function(lambda g, x, share, limit: g.where(x > limit, g * share), 3, 1)


@softplus.gradient
def _d_softplus(g: Tensor, _: Any, x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Any:
    scaled = x if beta == 1 else x * beta
    return (_softplus_slope(g, scaled, sigmoid(scaled), float(threshold)),)


@function(method=True)
@op()
def mish(x: Tensor) -> Tensor:
    """x tanh(softplus(x)) (Misra 2019, arXiv 1908.08681)."""
    return x * tanh(softplus(x))


_elu_values = element_function(lambda x, below, alpha: x.where(x > 0.0, below * alpha), 2, 1)


@function(method=True, in_place=True)
@op()
def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x, or alpha (exp(x) - 1) below zero (Clevert et al. 2015, arXiv 1511.07289)."""
    return _elu_values(x, expm1(minimum(x, 0.0)), float(alpha))


_elu_slope = element_function(
    lambda g, x, power, alpha: (g * (power * alpha)).where(x < 0.0, g.where(x != 0, g * alpha)), 3, 1
)


@elu.gradient
def _d_elu(g: Tensor, _: Any, x: Tensor, alpha: float = 1.0) -> Any:
    # from x alone: the result may be written in place
    return (_elu_slope(g, x, exp(minimum(x, 0.0)), float(alpha)),)  # the slope at NaN is 1, as in torch


@function(method=True, in_place=True)
@op()
def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x, or negative_slope x below zero."""
    return where(x > 0, x, x * negative_slope)


@leaky_relu.gradient
def _d_leaky_relu(g: Tensor, _: Any, x: Tensor, negative_slope: float = 0.01) -> Any:
    return (_d_leaky(g, x, float(negative_slope)),)


leaky_relu.flat = True


@function(method=True, in_place=True)
@op()
def hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x limited to min_val .. max_val; the gradient at the limits is 0."""
    if not x.dtype.is_floating_point:
        if x.dtype.category != 1 or (x.dtype.name[0] == "u" and min_val < 0):
            raise TypeError(f"hardtanh: {describe(x)} does not hold the limits {min_val} .. {max_val}")
        min_val, max_val = int(min_val), int(max_val)
    return clamp(x, min_val, max_val)


def _inside(g: Any, x: Any, low: float, high: float) -> Any:
    """g between the limits, and at NaN; 0 on them and beyond."""
    y = limited(x, low, high)
    return g.where((y * 0.0 + (x > low) * (x < high)) != 0, 0.0)


_inside_limits = element_function(_inside, 2, 2)


@hardtanh.gradient
def _d_hardtanh(g: Tensor, _: Any, x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Any:
    return (_inside_limits(g, x, float(min_val), float(max_val)),)


hardtanh.flat = True


@function(method=True, in_place=True)
def logit(x: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)); with eps, x is limited to eps .. 1 - eps first."""
    if not x.dtype.is_floating_point:
        x = x.to(_dtype.Default.dtype)
    return _logit(x if eps is None else where(x < eps, eps, where(x > 1 - eps, 1 - eps, x)))


@op(vjp=lambda g, _, x: (where((x < 0).logical_or(x > 1), float("nan"), g / (x * (1 - x))),))
def _logit(x: Tensor) -> Tensor:
    return (x / (1 - x)).log()


@function()
def relu6(x: Tensor) -> Tensor:
    """min(max(x, 0), 6)."""
    return hardtanh(x, 0.0, 6.0)


_hardsigmoid_slope = element_function(lambda g, x: (g * (1 / 6)).where(x.abs() < 3.0, 0.0), 2)


@function()
@op(vjp=lambda g, _, x: (_hardsigmoid_slope(g, x),))
def hardsigmoid(x: Tensor) -> Tensor:
    """min(max(x / 6 + ½, 0), 1)."""
    return hardtanh(x + 3.0, 0.0, 6.0) / 6.0


_hardswish = element_function(lambda x: (x * limited(x + 3.0, 0.0, 6.0)) / 6.0, 1)


def _slope_of_hardswish(g: Any, x: Any) -> Any:
    """0 below -3, 1 above 3, and between a line; the slope at NaN is 1, as in torch."""
    beyond = x.maximum(-3.0) + 3.0  # 0 up to -3 alone
    return (g * (x * (1 / 3) + 0.5)).where(x < 3.0, g).where(beyond != 0, 0.0)


_hardswish_slope = element_function(_slope_of_hardswish, 2)


@function()
@op(vjp=lambda g, _, x: (_hardswish_slope(g, x),))
def hardswish(x: Tensor) -> Tensor:
    """x hardsigmoid(x) (Howard et al. 2019, arXiv 1905.02244)."""
    return _hardswish(x)


_celu_slope = element_function(lambda g, x, power: (g * power).where(x < 0.0, g), 3)


@function()
@op(vjp=lambda g, _, x, alpha=1.0: (_celu_slope(g, x, exp(minimum(x, 0.0) / alpha)),))
def celu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """max(0, x) + min(0, alpha (exp(x / alpha) - 1)) (Barron 2017, arXiv 1704.07483)."""
    if alpha == 0:
        raise ValueError("celu: alpha divides and must not be 0")
    return _elu_values(x, expm1(minimum(x, 0.0) / alpha), float(alpha))


_SELU_ALPHA, _SELU_SCALE = 1.6732632423543772, 1.0507009873554805


@function()
def selu(x: Tensor) -> Tensor:
    """Scaled elu that keeps mean and variance (Klambauer et al. 2017, arXiv 1706.02515)."""
    return elu(x, _SELU_ALPHA) * _SELU_SCALE


def _halves(x: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    d = normalize_dim(dim, x.ndim, "glu")
    half = x._shape[d] // 2
    return narrow(x, d, 0, half), narrow(x, d, half, half)


_glu_slope = element_function(lambda g, a, share: g * a * share * (1.0 - share), 3)


def _d_glu(g: Tensor, _: Any, x: Tensor, dim: int = -1) -> tuple[Tensor]:
    a, b = _halves(x, dim)
    share = b.sigmoid()
    return (cat([g * share, _glu_slope(g, a, share)], dim),)


@function()
@op(vjp=_d_glu)
def glu(x: Tensor, dim: int = -1) -> Tensor:
    """a sigmoid(b) for the halves a, b of a dim (Dauphin et al. 2016, arXiv 1612.08083)."""
    if x._shape[dim] % 2:
        raise ValueError(f"glu: dim {dim} of {describe(x)} is odd")
    a, b = _halves(x, dim)
    return a * b.sigmoid()


@function()
@op(vjp=lambda g, _, x: (g * (-x).sigmoid(),))
def logsigmoid(x: Tensor) -> Tensor:
    """log(sigmoid(x)), numerically stable."""
    return minimum(x, 0.0) - (-x.abs()).exp().log1p()


@function()
def softsign(x: Tensor) -> Tensor:
    """x / (1 + |x|)."""
    return x / (x.abs() + 1)


@function()
def tanhshrink(x: Tensor) -> Tensor:
    """x - tanh(x)."""
    return x - x.tanh()
