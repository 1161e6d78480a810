"""Special functions: the error function, the gamma function and its derivatives, the zeta function."""

from __future__ import annotations

import functools
from math import erf as _math_erf
from math import exp as _math_exp
from math import factorial, log, pi, sqrt
from math import log as _math_log
from typing import Any

from ... import dtype as _dtype
from ...declare import function, method
from ...lazy import np
from ...numpy_arrays import array_of, tensor_of
from ...op import primitive
from ...operands import unbroadcast
from ...tensor import Tensor
from .builders import binary, in_float64, unary
from .exponential import exp


@functools.cache
def _erf_table() -> Any:
    """Taylor coefficients of erf around k / 16, k = 0 .. 96: row k holds those of d**0 .. d**11."""
    rows = []
    for k in range(97):
        a = k / 16
        slope = [2 / sqrt(pi) * _math_exp(-a * a)]  # of f = erf', with f' = -2 x f
        slope.append(-2 * a * slope[0])
        for n in range(1, 10):
            slope.append(-2 * (a * slope[n] + slope[n - 1]) / (n + 1))
        rows.append([_math_erf(a), *(c / (n + 1) for n, c in enumerate(slope))])
    return np.array(rows)


def _erf64(x: Any) -> Any:
    """erf in float64: Taylor series around the nearest point of the table, at most 1/32 away; beyond 6 it is 1."""
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


def ndtri64(p: Any) -> Any:
    """Where the normal distribution's mass is p; in the tails by Newton's steps on the logarithm of the mass, from the
    first terms of its asymptotic series (NIST DLMF 7.17.3).
    """
    p = np.asarray(p)
    low = np.minimum(p, 1 - p)
    tail = (low > 0) & (low < 0.02)
    found = np.asarray(sqrt(2) * _erfinv64(2 * p - 1))
    if tail.any():
        q = low[tail]
        t = np.sqrt(-2 * np.log(q))
        z = (np.log(t) + 0.5 * log(2 * pi)) / t - t
        for _ in range(5):
            mass = 0.5 * _erfc64(z * -sqrt(0.5))
            z = z - (np.log(mass) - np.log(q)) * mass * sqrt(2 * pi) * np.exp(0.5 * z * z)
        found[tail] = np.where(p[tail] < 0.5, z, -z)
    return np.where((p < 0) | (p > 1), np.nan, found)


erf = unary("erf", in_float64(_erf64), lambda g, _, x: (g * (2 / sqrt(pi)) * exp(-x * x),))
erfinv = unary("erfinv", in_float64(_erfinv64), lambda g, _, x: (g * (sqrt(pi) / 2) * exp(x.erfinv() ** 2),))
lgamma = unary("lgamma", in_float64(_lgamma64), lambda g, _, x: (g * x.digamma(),))
digamma = unary("digamma", in_float64(_digamma64), lambda g, _, x: (g * x.trigamma(),))
trigamma = unary("trigamma", in_float64(_trigamma64), lambda g, _, x: _d_polygamma(g, _, x, 1), in_place=False)


def _d_polygamma(g: Tensor, _: Any, x: Tensor, n: int) -> Any:
    return (g * _polygamma(x, n + 1),)


@primitive(vjp=_d_polygamma, name="_polygamma")
def _polygamma(x: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma for n >= 1; below 0 by reflection (NIST DLMF 5.15.6)."""
    z = array_of(x, _dtype.float64 if x.dtype.is_floating_point else None).astype("float64")
    with np.errstate(all="ignore"):
        found = _polygamma_positive(np.where(z > 0, z, 1 - z), n)
        fraction = z - np.rint(z)
        mirrored = (-1) ** n * found - pi ** (n + 1) * np.polynomial.polynomial.polyval(
            1 / np.tan(pi * fraction), cotangent_derivative(n)
        )
        pole = np.where((fraction == 0) | np.isneginf(z), (-1) ** (n + 1) * np.inf, mirrored)
        found = np.where(z > 0, found, np.where(np.isnan(z), np.nan, pole))
    return tensor_of(found, x.dtype if x.dtype.is_floating_point else _dtype.float32)


@functools.cache
def cotangent_derivative(n: int) -> Any:
    """The n-th derivative of the cotangent as a polynomial in it, c: the first one is -(1 + c²). (n + 2,) float64."""
    terms = [0, 1]
    for _ in range(n):
        slope = [k * term for k, term in enumerate(terms)][1:]
        terms = [-(low + high) for low, high in zip([*slope, 0, 0], [0, 0, *slope], strict=True)]
    return np.array(terms, dtype=np.float64)


def _polygamma_positive(z: Any, n: int) -> Any:
    """± n! Σ 1 / (z + k)^(n + 1) for z > 0 (NIST DLMF 25.11.12)."""
    return (-1) ** (n + 1) * factorial(n) * _zeta64(n + 1.0, z)


def _zeta64(s: Any, z: Any) -> Any:
    """Σ 1 / (z + k)^s for s > 1 and z > 0, the tail by Euler and Maclaurin (NIST DLMF 25.11.43)."""
    total = np.zeros_like(z)
    for _ in range(_SHIFT):
        total, z = total + z**-s, z + 1
    total = total + z ** (1 - s) / (s - 1) + 0.5 * z**-s
    rising = s
    for k, bernoulli in enumerate(_BERNOULLI):
        total = total + bernoulli / factorial(2 * k + 2) * rising * z ** -(s + 2.0 * k + 1)
        rising = rising * (s + 2 * k + 1) * (s + 2 * k + 2)
    return total


def _hurwitz64(s: Any, q: Any) -> Any:
    """Hurwitz' zeta function as torch has it: for q <= 0 the terms below 0 are added, which whole s alone allow."""
    s, q = np.broadcast_arrays(s, q)
    below = np.where((q <= 0) & (s == np.floor(s)) & (q > -_MOST_BELOW), np.floor(-q) + 1, 0.0)
    with np.errstate(all="ignore"):
        found = np.where(q + below > 0, _zeta64(s, np.where(q + below > 0, q + below, 1.0)), np.nan)
        for k in range(int(below.max(initial=0))):
            found = found + np.where(k < below, (q + k) ** -s, 0.0)
    found = np.where((q <= 0) & (q == np.floor(q)), np.inf, found)
    return np.where(s == 1, np.inf, np.where(s < 1, np.nan, found))


def _hurwitz(s: Any, q: Any) -> Any:
    return _hurwitz64(s.astype(np.float64), q.astype(np.float64)).astype(np.result_type(s, q))


_MOST_BELOW = 10000  # terms of the zeta function below 0; beyond, NaN


def _d_zeta(g: Tensor, _: Any, s: Any, q: Any) -> Any:
    if isinstance(s, Tensor) and s.requires_grad:
        raise NotImplementedError("zeta has no gradient in its first argument: detach() it")
    return None, unbroadcast(-g * s * zeta(s + 1, q), q)


zeta = binary("_zeta", lambda: _hurwitz, _d_zeta, out="float")


_HIGHEST_ORDER = 100  # beyond, factorials and polynomials leave the range of float64


def _erfc64(x: Any) -> Any:
    """1 - erf, by a continued fraction where it is small (NIST DLMF 7.9.2)."""
    large = np.maximum(np.abs(x), 2.0)
    fraction = np.zeros_like(x)
    for k in range(60, 0, -1):
        fraction = (k / 2) / (large + fraction)
    with np.errstate(all="ignore"):
        tail = np.exp(-large * large) / sqrt(pi) / (large + fraction)
    tail = np.where(np.isposinf(large), 0.0, tail)
    return np.where(x > 2, tail, 1 - _erf64(x))


def _erfcx64(x: Any) -> Any:
    """exp(x²) erfc(x), by the continued fraction of erfc where x is large."""
    large = np.maximum(x, 2.0)
    fraction = np.zeros_like(x)
    for k in range(60, 0, -1):
        fraction = (k / 2) / (large + fraction)
    with np.errstate(all="ignore"):
        small = np.exp(np.minimum(x, 2.0) ** 2) * _erfc64(np.minimum(x, 2.0))
        return np.where(x > 2, 1 / sqrt(pi) / (large + fraction), small)


erfcx = unary("_erfcx", in_float64(_erfcx64), lambda g, y, x: (g * (x * y * 2 - 2 / sqrt(pi)),), saves="both")
ndtri = unary("_ndtri", in_float64(ndtri64), lambda g, y, x: (g * sqrt(2 * pi) * exp(y * y * 0.5),), saves="output")
erfc = unary("erfc", in_float64(_erfc64), lambda g, _, x: (g * (-2 / sqrt(pi)) * (-x * x).exp(),))


@function()
def polygamma(n: int, x: Tensor) -> Tensor:
    """The n-th derivative of digamma, n up to 100."""
    if not 0 <= n <= _HIGHEST_ORDER:
        raise ValueError(f"polygamma: order {n} is not in 0 .. {_HIGHEST_ORDER}")
    return x.digamma() if n == 0 else x.trigamma() if n == 1 else _polygamma(x, n)


TERMS = 2000  # terms of power series; arguments with a finite result need far fewer


@method("polygamma", in_place=True)
def _polygamma_of(x: Tensor, n: int) -> Tensor:
    """The n-th derivative of digamma."""
    return polygamma(n, x)
