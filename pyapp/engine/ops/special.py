"""More elementwise ops: special functions, trigonometry, activations, integer arithmetic."""

from __future__ import annotations

import functools
from math import erf as _math_erf
from math import exp as _math_exp
from math import factorial, pi, sqrt
from math import log as _math_log
from typing import Any

from ...errors import UnsupportedTypeError
from .. import dtype as _dtype
from ..lazy import np
from ..op import Op, describe, op, primitive
from ..tensor import Tensor
from .base import array_of, common_dtype, computed, tensor_of, unbroadcast
from .elementwise import _binary, _unary, exp, log1p, minimum, tanh, where

_LN2 = _math_log(2.0)
_LN10 = _math_log(10.0)


def _wide(function: Any) -> Any:
    """Computes in float64, so that float32 results are right to the last bits."""
    return lambda x: function(x.astype(np.float64)).astype(x.dtype)


@functools.cache
def _erf_table() -> Any:
    """Taylor coefficients of erf around k / 16, k = 0 .. 96: row k holds those of d**0 .. d**11."""
    rows = []
    for k in range(97):
        a = k / 16
        slope = [2 / sqrt(pi) * _math_exp(-a * a)]  # of erf', which obeys f' = -2 x f
        slope.append(-2 * a * slope[0])
        for n in range(1, 10):
            slope.append(-2 * (a * slope[n] + slope[n - 1]) / (n + 1))
        rows.append([_math_erf(a), *(c / (n + 1) for n, c in enumerate(slope))])
    return np.array(rows)


def _erf64(x: Any) -> Any:
    """erf in float64: a step of at most 1/32 from the nearest tabled point; beyond 6 it is 1."""
    size = np.minimum(np.abs(x), 6.0)
    nearest = np.rint(np.nan_to_num(size) * 16).astype(np.int64)
    step = size - nearest / 16
    rows = _erf_table()[nearest]
    value = rows[..., -1]
    for n in range(rows.shape[-1] - 2, -1, -1):
        value = value * step + rows[..., n]
    return np.copysign(value, x)


def _erfinv64(y: Any) -> Any:
    """Winitzki's approximation, then Halley's steps on erf. Outside (-1, 1): ±inf at ±1, else NaN."""
    inside = np.where(np.abs(y) < 1, y, 0.0)
    tail = np.log1p(-inside * inside)
    centre = 2 / (pi * 0.147) + tail / 2
    x = np.copysign(np.sqrt(np.maximum(np.sqrt(centre * centre - tail / 0.147) - centre, 0)), inside)
    for _ in range(3):
        error = (_erf64(x) - inside) / (2 / sqrt(pi) * np.exp(-x * x))
        x = x - error / (1 + x * error)
    return np.where(np.abs(y) < 1, x, np.where(np.abs(y) == 1, np.copysign(np.inf, y), np.nan))


# Bernoulli numbers B2, B4, ... of Stirling's series (NIST DLMF 5.11.1).
_BERNOULLI = (1 / 6, -1 / 30, 1 / 42, -1 / 30, 5 / 66, -691 / 2730, 7 / 6, -3617 / 510)
_SHIFT = 10


def _lgamma_positive(x: Any) -> Any:
    small = x < _SHIFT
    product = np.ones_like(x)
    for k in range(_SHIFT):
        product = product * np.where(small, x + k, 1.0)
    z = np.where(small, x + _SHIFT, x)
    series = np.zeros_like(x)
    for n in range(len(_BERNOULLI), 0, -1):
        series = series / (z * z) + _BERNOULLI[n - 1] / (2 * n * (2 * n - 1))
    value = (z - 0.5) * np.log(z) - z + 0.5 * _math_log(2 * pi) + series / z - np.log(product)
    return np.where(np.isposinf(x), np.inf, value)


def _lgamma64(x: Any) -> Any:
    """log|gamma(x)|: Stirling's series after a shift to x >= 10; negative x by reflection (DLMF 5.5.3)."""
    mirrored = np.where(x < 0.5, 1 - x, x)
    value = _lgamma_positive(mirrored)
    fraction = np.where(np.isfinite(x), x - np.rint(x), 0.0)
    reflected = _math_log(pi) - np.log(np.abs(np.sin(pi * fraction))) - value
    return np.where(np.isneginf(x), np.inf, np.where(x < 0.5, reflected, value))


def _digamma64(x: Any) -> Any:
    """Derivative of lgamma (DLMF 5.11.2, 5.5.4)."""
    z = np.where(x < 0.5, 1 - x, x)
    value = np.zeros_like(x)
    for _ in range(_SHIFT):
        value = value - np.where(z < _SHIFT, 1 / z, 0.0)
        z = np.where(z < _SHIFT, z + 1, z)
    series = np.zeros_like(x)
    for n in range(len(_BERNOULLI), 0, -1):
        series = (series + _BERNOULLI[n - 1] / (2 * n)) / (z * z)
    value = value + np.log(z) - 0.5 / z - series
    fraction = x - np.rint(x)
    reflected = np.where((fraction == 0) & (x < 0), np.nan, value - pi / np.tan(pi * fraction))
    return np.where(x == 0, np.copysign(np.inf, -x), np.where(x < 0.5, reflected, value))


def _trigamma64(x: Any) -> Any:
    """Derivative of digamma (DLMF 5.15.8, 5.15.6)."""
    z = np.where(x < 0.5, 1 - x, x)
    value = np.zeros_like(x)
    for _ in range(_SHIFT):
        value = value + np.where(z < _SHIFT, 1 / (z * z), 0.0)
        z = np.where(z < _SHIFT, z + 1, z)
    series = np.zeros_like(x)
    for n in range(len(_BERNOULLI), 0, -1):
        series = (series + _BERNOULLI[n - 1]) / (z * z)
    value = value + 1 / z + 0.5 / (z * z) + series / z
    return np.where(x < 0.5, (pi / np.sin(pi * (x - np.rint(x)))) ** 2 - value, value)


erf = _unary("erf", _wide(_erf64), lambda g, _, x: (g * (2 / sqrt(pi)) * exp(-x * x),))
erfinv = _unary("erfinv", _wide(_erfinv64), lambda g, y, x: (g * (sqrt(pi) / 2) * exp(y * y),), saves="output")
lgamma = _unary("lgamma", _wide(_lgamma64), lambda g, _, x: (g * x.digamma(),))
digamma = _unary("digamma", _wide(_digamma64), lambda g, _, x: (g * x.trigamma(),))
trigamma = _unary("trigamma", _wide(_trigamma64), lambda g, _, x: _d_polygamma(g, _, x, 1))


def _d_polygamma(g: Tensor, _: Any, x: Tensor, n: int) -> Any:
    return (g * _polygamma(x, n + 1),)


@primitive(vjp=_d_polygamma, name="_polygamma", method=False)
def _polygamma(x: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma for n >= 1 and x > 0: ± n! Σ 1 / (x + k)^(n + 1), the tail by Euler and Maclaurin
    (NIST DLMF 25.11.43); NaN for other x.
    """
    computed("polygamma")
    z = array_of(x, _dtype.float64 if x.dtype.is_floating_point else None).astype("float64")
    z = np.where(z > 0, z, np.nan)
    total = np.zeros_like(z)
    for _ in range(_SHIFT):
        total, z = total + z ** -(n + 1.0), z + 1
    total += z**-n / n + 0.5 * z ** -(n + 1.0)
    rising = float(n + 1)
    for k, bernoulli in enumerate(_BERNOULLI):
        total += bernoulli / factorial(2 * k + 2) * rising * z ** -(n + 2.0 * k + 2)
        rising *= (n + 2 * k + 2) * (n + 2 * k + 3)
    return tensor_of((-1) ** (n + 1) * factorial(n) * total, x.dtype if x.dtype.is_floating_point else _dtype.float32)


expm1 = _unary("expm1", lambda x: np.expm1(x), lambda g, y, x: (g * (y + 1),), saves="output")
exp2 = _unary("exp2", lambda x: np.exp2(x), lambda g, y, x: (g * y * _LN2,), saves="output")
log2 = _unary("log2", lambda x: np.log2(x), lambda g, _, x: (g / (x * _LN2),))
log10 = _unary("log10", lambda x: np.log10(x), lambda g, _, x: (g / (x * _LN10),))
tan = _unary("tan", lambda x: np.tan(x), lambda g, y, x: (g * (1 + y * y),), saves="output")
asin = _unary("asin", lambda x: np.arcsin(x), lambda g, _, x: (g * (1 - x * x).rsqrt(),))
acos = _unary("acos", lambda x: np.arccos(x), lambda g, _, x: (-g * (1 - x * x).rsqrt(),))
atan = _unary("atan", lambda x: np.arctan(x), lambda g, _, x: (g / (1 + x * x),))
sinh = _unary("sinh", lambda x: np.sinh(x), lambda g, _, x: (g * x.cosh(),))
cosh = _unary("cosh", lambda x: np.cosh(x), lambda g, _, x: (g * x.sinh(),))
asinh = _unary("asinh", lambda x: np.arcsinh(x), lambda g, _, x: (g * (x * x + 1).rsqrt(),))
acosh = _unary("acosh", lambda x: np.arccosh(x), lambda g, _, x: (g * (x * x - 1).rsqrt(),))
atanh = _unary("atanh", lambda x: np.arctanh(x), lambda g, _, x: (g / (1 - x * x),))
trunc = _unary(
    "trunc", lambda x: np.trunc(x).astype(x.dtype), lambda g, _, x: (g * 0,), out="same", saves="none"
)  # fmt: skip
frac = _unary("frac", lambda x: x - np.trunc(x), lambda g, _, x: (g,), out="same", saves="none")
signbit = _unary("signbit", lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0, None, out="bool")


def _pair(da: Any, db: Any) -> Any:
    """The vjp of a binary op from the two slopes, each a function of (y, a, b)."""

    def vjp(g: Tensor, y: Any, a: Any, b: Any) -> Any:
        return (
            unbroadcast(g * da(y, a, b), a) if a.requires_grad else None,
            unbroadcast(g * db(y, a, b), b) if isinstance(b, Tensor) and b.requires_grad else None,
        )

    return vjp


fmod = _binary("fmod", lambda: np.fmod, _pair(lambda y, a, b: 1, lambda y, a, b: -trunc(a / b)))


def _over_square(a: Tensor, b: Any) -> Tensor:
    """1 / (a² + b²); 0 where both are."""
    square = a * a + b * b
    return where(square == 0, 0.0, square.reciprocal())


atan2 = _binary(
    "atan2",
    lambda: np.arctan2,
    _pair(lambda y, a, b: b * _over_square(a, b), lambda y, a, b: -a * _over_square(a, b)),
    out="float",
)
hypot = _binary("hypot", lambda: np.hypot, _pair(lambda y, a, b: a / y, lambda y, a, b: b / y), saves="both")
logaddexp = _binary(
    "logaddexp",
    lambda: np.logaddexp,
    _pair(lambda y, a, b: exp(a - y), lambda y, a, b: exp(b - y)),
    saves="both",
)
logical_xor = _binary("logical_xor", lambda: np.logical_xor, None, out="bool")


def _shift(name: str, function: Any) -> Op:
    made = _binary(name, function, None)
    compute = made.kernels["cpu"]

    def checked(a: Tensor, b: Any) -> Tensor:
        if common_dtype(a, b).category != 1:
            raise UnsupportedTypeError(f"{name}: takes integers, not {describe(a)} and {describe(b)}")
        return compute(a, b)

    made.kernels["cpu"] = checked
    return made


bitwise_left_shift = _shift("bitwise_left_shift", lambda: np.left_shift)
bitwise_right_shift = _shift("bitwise_right_shift", lambda: np.right_shift)
for _name, _op in (("__lshift__", bitwise_left_shift), ("__rshift__", bitwise_right_shift)):
    setattr(Tensor, _name, lambda self, other, _op=_op: _op(self, other))
    setattr(Tensor, _name.replace("__", "__r", 1), lambda self, other, _op=_op: _op(other, self))


@op(method=True)
def gelu(x: Tensor, approximate: str = "none") -> Tensor:
    """x times the normal distribution's cdf (Hendrycks & Gimpel 2016, arXiv 1606.08415), exact or by "tanh"."""
    if approximate == "none":
        return x * 0.5 * (1 + erf(x * sqrt(0.5)))
    if approximate != "tanh":
        raise ValueError(f"gelu: approximate is 'none' or 'tanh', not {approximate!r}")
    return x * 0.5 * (1 + tanh((x + x * x * x * 0.044715) * sqrt(2 / pi)))


@op(method=True)
def softplus(x: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """log(1 + exp(beta x)) / beta; x itself where beta x > threshold."""
    scaled = x * beta
    return where(scaled > threshold, x, log1p(exp(minimum(scaled, threshold))) / beta)


@op(method=True)
def mish(x: Tensor) -> Tensor:
    """x tanh(softplus(x)) (Misra 2019, arXiv 1908.08681)."""
    return x * tanh(softplus(x))


@op(method=True)
def elu(x: Tensor, alpha: float = 1.0) -> Tensor:
    """x, or alpha (exp(x) - 1) below zero (Clevert et al. 2015, arXiv 1511.07289)."""
    return where(x > 0, x, expm1(where(x > 0, 0.0, x)) * alpha)  # minimum would halve the slope at 0


@op(method=True)
def leaky_relu(x: Tensor, negative_slope: float = 0.01) -> Tensor:
    """x, or negative_slope x below zero."""
    return where(x > 0, x, x * negative_slope)


@op(method=True)
def hardtanh(x: Tensor, min_val: float = -1.0, max_val: float = 1.0) -> Tensor:
    """x limited to min_val .. max_val; the gradient at the limits is 0."""
    if not x.dtype.is_floating_point:
        if x.dtype.category != 1 or (x.dtype.name[0] == "u" and min_val < 0):
            raise TypeError(f"hardtanh: {describe(x)} does not hold the limits {min_val} .. {max_val}")
        min_val, max_val = int(min_val), int(max_val)
    return where(x <= min_val, min_val, where(x >= max_val, max_val, x))


def lerp(x: Tensor, end: Tensor, weight: Any) -> Tensor:
    """x + weight (end - x)."""
    return x + (end - x) * weight


def addcmul(x: Tensor, tensor1: Tensor, tensor2: Tensor, value: float = 1) -> Tensor:
    """x + value tensor1 tensor2."""
    return x + tensor1 * tensor2 * value


def addcdiv(x: Tensor, tensor1: Tensor, tensor2: Tensor, value: float = 1) -> Tensor:
    """x + value tensor1 / tensor2. TypeError where both are integers."""
    if not (tensor1.dtype.is_floating_point or tensor2.dtype.is_floating_point):
        raise TypeError(f"addcdiv: divides floating-point tensors, not {describe(tensor1)} by {describe(tensor2)}")
    return x + tensor1 / tensor2 * value


@primitive(vjp=lambda g, _, x, *rest: (where(x.isfinite(), g, 0.0),))
def nan_to_num(x: Tensor, nan: float = 0.0, posinf: float | None = None, neginf: float | None = None) -> Tensor:
    """NaN becomes `nan`; infinities the largest and smallest numbers of the dtype unless given."""
    computed("nan_to_num")
    if not x.dtype.is_floating_point:
        return x.clone()
    array = array_of(x)
    largest = _BFLOAT16_MAX if x.dtype is _dtype.bfloat16 else float(np.finfo(array.dtype).max)
    high, low = largest if posinf is None else posinf, -largest if neginf is None else neginf
    return tensor_of(np.nan_to_num(array, nan=nan, posinf=high, neginf=low), x.dtype)


_BFLOAT16_MAX = (2 - 2**-7) * 2.0**127

for _function in (lerp, addcmul, addcdiv):
    setattr(Tensor, _function.__name__, _function)
