"""Exponentials and logarithms."""

from __future__ import annotations

from math import log as _math_log
from typing import Any, NamedTuple

from ... import dtype as _dtype
from ...declare import function
from ...lazy import np
from ...numpy_arrays import array_of, tensor_of
from ...op import op, primitive
from ...operands import as_tensor, common_dtype
from ...return_types import printed_as
from ...tensor import Tensor
from ...user_errors import describe
from .builders import binary, unary, vjp_of_slopes
from .select import where

exp = unary("exp", lambda x: np.exp(x), lambda g, y, x: (g * y,), saves="output", of_complex=True)
log = unary("log", lambda x: np.log(x), lambda g, _, x: (g / x,), of_complex=True)
log1p = unary("log1p", lambda x: np.log1p(x), lambda g, _, x: (g / (x + 1),), of_complex=True)
_LN2 = _math_log(2.0)
_LN10 = _math_log(10.0)
expm1 = unary("expm1", lambda x: np.expm1(x), lambda g, y, x: (g * (y + 1),), saves="output", of_complex=True)
exp2 = unary("exp2", lambda x: np.exp2(x), lambda g, y, x: (g * y * _LN2,), saves="output", of_complex=True)
log2 = unary("log2", lambda x: np.log2(x), lambda g, _, x: (g / (x * _LN2),), of_complex=True)
log10 = unary("log10", lambda x: np.log10(x), lambda g, _, x: (g / (x * _LN10),), of_complex=True)


def _logaddexp(a: Any, b: Any) -> Any:
    """NumPy's logaddexp; of complex numbers, where it has none, from the one with the larger real part."""
    if a.dtype.kind != "c":
        return np.logaddexp(a, b)
    first = np.isnan(a.real) | (a.real < b.real)
    low, high = np.where(first, a, b), np.where(first, b, a)
    y = high + np.log1p(np.exp(low - high))
    equal = ~np.isfinite(low.real) & (low.real == high.real)  # both infinite, where the difference is NaN
    y = np.where(equal, np.where(low.real < 0, low, np.log(np.exp(low) + np.exp(high))), y)
    return np.where(np.isnan(a) | np.isnan(b), complex(np.nan, np.nan), y).astype(a.dtype)


logaddexp = binary(
    "logaddexp",
    lambda: _logaddexp,
    vjp_of_slopes(lambda y, a, b: 1 / (exp(b - a) + 1), lambda y, a, b: 1 / (exp(a - b) + 1)),
    out="inexact",
    of_complex=True,
)


@function(method=True, in_place=True)
def ldexp(x: Tensor, other: Tensor) -> Tensor:
    """x 2^other; integer powers are converted to x's dtype if that is a float."""
    if not other.dtype.has_gradient:
        other = other.to(x.dtype if x.dtype.is_floating_point else _dtype.Default.dtype)
    return _ldexp(x, other)


@op(name="ldexp")
def _ldexp(x: Tensor, other: Tensor) -> Tensor:
    return x * exp2(other)


@function(method=True)
def logaddexp2(x: Tensor, other: Tensor) -> Tensor:
    """log2(2^x + 2^other), numerically stable."""
    kind = common_dtype(x, other)
    if not kind.is_floating_point:
        raise TypeError(f"logaddexp2: takes floating-point tensors, not {describe(x)} and {describe(other)}")
    finer = _dtype.float32 if kind.itemsize < 4 else kind  # so that short floats are rounded once
    return (logaddexp(x.to(finer) * _LN2, other.to(finer) * _LN2) / _LN2).to(kind)


@function(method=True, in_place=True)
def xlogy(x: Any, other: Any) -> Tensor:
    """x log(other), 0 where x is 0."""
    a, b = (as_tensor(v, x if isinstance(x, Tensor) else other) for v in (x, other))
    kind = common_dtype(a, b)
    kind = kind if kind.is_floating_point else _dtype.Default.dtype
    return _xlogy(a.to(kind), b.to(kind))


@op(name="xlogy")
def _xlogy(a: Tensor, b: Tensor) -> Tensor:
    hidden = (a == 0).logical_and((b <= 0).logical_or(b.isinf()))  # else the logarithm would turn 0 into NaN
    return a * where(hidden, 1.0, b).log()


@printed_as("frexp")
class Frexp(NamedTuple):
    """The result of frexp."""

    mantissa: Tensor
    exponent: Tensor


def _d_mantissa(g: Tensor, _: Any, x: Tensor) -> tuple[Tensor]:
    return (g / exp2(frexp(x).exponent.to(g.dtype)),)


@primitive(vjp=_d_mantissa, name="_mantissa")
def _mantissa(x: Tensor) -> Tensor:
    return tensor_of(np.frexp(array_of(x))[0], x.dtype)


@primitive(name="_exponent")
def _exponent(x: Tensor) -> Tensor:
    return tensor_of(np.frexp(array_of(x))[1], _dtype.int32)


@function(method=True)
def frexp(x: Tensor) -> Frexp:
    """(mantissa in [½, 1), exponent (int32)): x = mantissa 2^exponent, of floating-point tensors."""
    if not x.dtype.is_floating_point:
        raise TypeError(f"frexp: takes floating-point tensors, not {describe(x)}")
    return Frexp(_mantissa(x), _exponent(x))
