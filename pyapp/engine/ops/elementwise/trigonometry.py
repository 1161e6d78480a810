"""Trigonometric and hyperbolic functions."""

from __future__ import annotations

from math import pi
from typing import Any

from ...declare import function
from ...lazy import np
from ...op import op
from ...tensor import Tensor
from ..element_updates import element_function
from .builders import binary, unary, vjp_of_slopes
from .select import where

sin = unary("sin", lambda x: np.sin(x), lambda g, _, x: (g * x.cos(),), of_complex=True)
cos = unary("cos", lambda x: np.cos(x), lambda g, _, x: (-g * x.sin(),), of_complex=True)
_d_tanh = element_function(lambda g, y: g * (1.0 - y * y), 2)
tanh = unary("tanh", lambda x: np.tanh(x), lambda g, y, x: (_d_tanh(g, y),), saves="output", of_complex=True)
tan = unary("tan", lambda x: np.tan(x), lambda g, y, x: (g * (1 + y * y),), saves="output", of_complex=True)
asin = unary(
    "asin", lambda x: np.arcsin(x), lambda g, _, x: (g * (1 - x * x).rsqrt(),), synonyms="arcsin", of_complex=True
)
acos = unary(
    "acos", lambda x: np.arccos(x), lambda g, _, x: (-g * (1 - x * x).rsqrt(),), synonyms="arccos", of_complex=True
)
atan = unary("atan", lambda x: np.arctan(x), lambda g, _, x: (g / (1 + x * x),), synonyms="arctan", of_complex=True)
sinh = unary("sinh", lambda x: np.sinh(x), lambda g, _, x: (g * x.cosh(),), of_complex=True)
cosh = unary("cosh", lambda x: np.cosh(x), lambda g, _, x: (g * x.sinh(),), of_complex=True)
asinh = unary(
    "asinh", lambda x: np.arcsinh(x), lambda g, _, x: (g * (x * x + 1).rsqrt(),), synonyms="arcsinh", of_complex=True
)


def _d_acosh(g: Tensor, _: Any, x: Tensor) -> tuple[Tensor]:
    """Of complex numbers the two roots have their own branches."""
    return (g * ((x - 1).rsqrt() * (x + 1).rsqrt() if x.dtype.is_complex else (x * x - 1).rsqrt()),)


acosh = unary("acosh", lambda x: np.arccosh(x), _d_acosh, synonyms="arccosh", of_complex=True)
atanh = unary("atanh", lambda x: np.arctanh(x), lambda g, _, x: (g / (1 - x * x),), synonyms="arctanh", of_complex=True)


def _over_square(a: Tensor, b: Any) -> Tensor:
    """1 / (a² + b²); 0 where both are 0."""
    square = a * a + b * b
    return where(square == 0, 0.0, square.reciprocal())


atan2 = binary(
    "atan2",
    lambda: np.arctan2,
    vjp_of_slopes(lambda y, a, b: b * _over_square(a, b), lambda y, a, b: -a * _over_square(a, b)),
    out="float",
    synonyms="arctan2",
)
hypot = binary(
    "hypot", lambda: np.hypot, vjp_of_slopes(lambda y, a, b: a / y, lambda y, a, b: b / y), out="float", saves="both"
)


@function(method=True, in_place=True)
@op(vjp=lambda g, _, x: (g * (pi / 180),), saves="none")
def deg2rad(x: Tensor) -> Tensor:
    """Degrees in radians."""
    return x * (pi / 180)


@function(method=True, in_place=True)
@op(vjp=lambda g, _, x: (g * (180 / pi),), saves="none")
def rad2deg(x: Tensor) -> Tensor:
    """Radians in degrees."""
    return x * (180 / pi)


def _sinc_slope(g: Tensor, _: Any, x: Tensor) -> Any:
    safe = where(x == 0, 1.0, x)
    return (g * where(x == 0, 0.0, ((x * pi).cos() - sinc(x)) / safe),)


sinc = unary("sinc", lambda x: np.sinc(x), _sinc_slope, of_complex=True)
