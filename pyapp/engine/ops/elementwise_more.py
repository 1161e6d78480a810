"""The rest of torch's elementwise list for real tensors."""

from __future__ import annotations

from math import log, pi, sqrt
from typing import Any

from .. import dtype as _dtype
from ..lazy import np
from ..op import describe, op, primitive
from ..tensor import Tensor
from .base import as_tensor, common_dtype
from .elementwise import _binary, _unary, abs, clamp, div, pow, sign, sub, where
from .special import _polygamma, _wide, exp2


def _erfc64(x: Any) -> Any:
    """1 - erf, by a continued fraction where it is small (NIST DLMF 7.9.2)."""
    from .special import _erf64

    large = np.maximum(np.abs(x), 2.0)
    fraction = np.zeros_like(x)
    for k in range(60, 0, -1):
        fraction = (k / 2) / (large + fraction)
    with np.errstate(all="ignore"):
        tail = np.exp(-large * large) / sqrt(pi) / (large + fraction)
    tail = np.where(np.isposinf(large), 0.0, tail)
    return np.where(x > 2, tail, 1 - _erf64(x))


erfc = _unary("erfc", _wide(_erfc64), lambda g, _, x: (g * (-2 / sqrt(pi)) * (-x * x).exp(),))
positive = _unary("positive", lambda x: +x, lambda g, _, x: (g,), out="same", saves="none")
deg2rad = _unary("deg2rad", lambda x: x * (pi / 180), lambda g, _, x: (g * (pi / 180),), saves="none")
rad2deg = _unary("rad2deg", lambda x: x * (180 / pi), lambda g, _, x: (g * (180 / pi),), saves="none")
isposinf = _unary("isposinf", lambda x: np.isposinf(x), None, out="bool")
isneginf = _unary("isneginf", lambda x: np.isneginf(x), None, out="bool")


def _sinc_slope(g: Tensor, y: Tensor, x: Tensor) -> Any:
    safe = where(x == 0, 1.0, x)
    return (g * where(x == 0, 0.0, ((x * pi).cos() - y) / safe),)


sinc = _unary("sinc", lambda x: np.sinc(x), _sinc_slope, saves="both")


def _d_copysign(g: Tensor, _: Any, a: Any, b: Any) -> Any:
    from .base import unbroadcast

    turned = where(copysign(a, b) == a, 1.0, -1.0) * where(a == 0, 0.0, 1.0)
    return unbroadcast(g * turned, a), unbroadcast(g * 0, b)


copysign = _binary("copysign", lambda: np.copysign, _d_copysign, out="float")
nextafter = _binary("nextafter", lambda: np.nextafter, None, out="float")
gcd = _binary("gcd", lambda: np.gcd, None)
lcm = _binary("lcm", lambda: np.lcm, None)


@primitive()
def heaviside(x: Tensor, values: Tensor) -> Tensor:
    """0 below zero, 1 above, `values` at zero; both of one dtype."""
    if not isinstance(values, Tensor) or x.dtype is not values.dtype:
        raise TypeError(f"heaviside: {describe(x)} and {describe(values)} differ in dtype")
    return _heaviside(x, values)


_heaviside = _binary("_heaviside", lambda: np.heaviside, None)


def fmax(a: Tensor, b: Tensor) -> Tensor:
    """The larger one; the other one where one is NaN. Of equals, the first has the gradient."""
    return where((a >= b).logical_or(b.isnan()), a, b)


def fmin(a: Tensor, b: Tensor) -> Tensor:
    """The smaller one; the other one where one is NaN. Of equals, the first has the gradient."""
    return where((a <= b).logical_or(b.isnan()), a, b)


def float_power(x: Tensor, exponent: Any) -> Tensor:
    """x ** exponent in float64."""
    return pow(
        as_tensor(x, exponent).to("float64"), exponent.to("float64") if isinstance(exponent, Tensor) else exponent
    )


def ldexp(x: Tensor, other: Tensor) -> Tensor:
    """x 2^other; integer powers count as of x's dtype where that is a float."""
    if not other.dtype.is_floating_point:
        other = other.to(x.dtype if x.dtype.is_floating_point else _dtype.Default.dtype)
    return x * exp2(other)


def logaddexp2(x: Tensor, other: Tensor) -> Tensor:
    """log2(2^x + 2^other), stable."""
    from .special import logaddexp

    kind = common_dtype(x, other)
    if not kind.is_floating_point:
        raise TypeError(f"logaddexp2: takes floating-point tensors, not {describe(x)} and {describe(other)}")
    return logaddexp(x.to(kind) * log(2), other.to(kind) * log(2)) / log(2)


def logit(x: Tensor, eps: float | None = None) -> Tensor:
    """log(x / (1 - x)); with eps, x is limited to eps .. 1 - eps first."""
    if not x.dtype.is_floating_point:
        x = x.to(_dtype.Default.dtype)
    return _logit(x if eps is None else clamp(x, eps, 1 - eps))


@op(vjp=lambda g, _, x: (where((x < 0).logical_or(x > 1), float("nan"), g / (x * (1 - x))),))
def _logit(x: Tensor) -> Tensor:
    return (x / (1 - x)).log()


def xlogy(x: Any, other: Any) -> Tensor:
    """x log(other), 0 where x is 0."""
    a, b = (as_tensor(v, x if isinstance(x, Tensor) else other) for v in (x, other))
    kind = common_dtype(a, b)
    kind = kind if kind.is_floating_point else _dtype.Default.dtype
    a, b = a.to(kind), b.to(kind)
    hidden = (a == 0).logical_and((b <= 0).logical_or(b.isinf()))  # where the logarithm would make 0 a NaN
    return a * where(hidden, 1.0, b).log()


def polygamma(n: int, x: Tensor) -> Tensor:
    """The n-th derivative of digamma; from the second on for x > 0."""
    if n < 0:
        raise ValueError(f"polygamma: order {n} is negative")
    return x.digamma() if n == 0 else x.trigamma() if n == 1 else _polygamma(x, n)


def isclose(a: Tensor, b: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> Tensor:
    """|a - b| <= atol + rtol |b|; infinities are close to themselves, NaN to itself with `equal_nan`."""
    if not (isinstance(a, Tensor) and isinstance(b, Tensor)):
        raise TypeError(f"isclose: takes two tensors, got {describe(a)} and {describe(b)}")
    if a.dtype is not b.dtype:
        raise TypeError(f"isclose: {describe(a)} and {describe(b)} differ in dtype")
    near = a == b
    if not a.dtype.is_floating_point:
        a, b = a.to("float64"), b.to("float64")
    near = near.logical_or(((a - b).abs() <= b.abs() * rtol + atol).logical_and((a - b).isfinite()))
    return near.logical_or(a.isnan().logical_and(b.isnan())) if equal_nan else near


def allclose(a: Tensor, b: Tensor, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> bool:
    """Whether every element isclose."""
    return bool(isclose(a, b, rtol, atol, equal_nan).all())


def equal(a: Tensor, b: Tensor) -> bool:
    """Whether shapes and all elements are equal."""
    return a.shape == b.shape and bool((a == b).all())


def frexp(x: Tensor) -> tuple[Tensor, Tensor]:
    """(mantissa in [½, 1), exponent (int32)): x = mantissa 2^exponent."""
    from .base import array_of, tensor_of

    mantissa, exponent = np.frexp(array_of(x))
    return tensor_of(mantissa, x.dtype), tensor_of(exponent, _dtype.int32)


def _alias(name: str, of: Any) -> Any:
    def function(*args: Any, **kwargs: Any) -> Tensor:
        return of(*args, **kwargs)

    function.__name__ = name
    function.__doc__ = f"The same as {of.__name__}."
    return function


def clip(x: Tensor, min: Any = None, max: Any = None) -> Tensor:
    """The same as clamp."""
    return clamp(x, min, max)


def clamp_min(x: Tensor, min: Any) -> Tensor:
    """clamp from below."""
    return clamp(x, min)


def clamp_max(x: Tensor, max: Any) -> Tensor:
    """clamp from above."""
    return clamp(x, None, max)


sgn = _alias("sgn", sign)
absolute = _alias("absolute", abs)
true_divide = _alias("true_divide", div)


def square(x: Tensor) -> Tensor:
    """x²; of bools in int64."""
    return x * x if x.dtype is not _dtype.bool_ else x.to("int64")


def rsub(x: Tensor, other: Any, alpha: float = 1) -> Tensor:
    """other - alpha x."""
    return sub(as_tensor(other, x), x if alpha == 1 else x * alpha)


def dist(a: Tensor, b: Tensor, p: float = 2) -> Tensor:
    """The p-norm of a - b."""
    return (a - b).norm(p)


for _function in (
    fmax, fmin, float_power, ldexp, logit, xlogy, isclose, allclose, equal, clip, clamp_min, clamp_max, sgn, absolute,
    dist, frexp, square, logaddexp2, positive, true_divide,
):  # fmt: skip
    setattr(Tensor, _function.__name__, _function)
Tensor.polygamma = lambda x, n: polygamma(n, x)  # type: ignore[attr-defined]
