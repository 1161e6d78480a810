"""Bessel functions of the first kind, of whole orders: modified ones, plain and scaled, and ordinary ones."""

from __future__ import annotations

from functools import cache, partial
from math import pi
from typing import Any

from ... import dtype as _dtype
from ...declare import function
from ...lazy import np
from ...numpy_arrays import array_of, tensor_of
from ...op import primitive
from ...tensor import Tensor
from .arithmetic import sign
from .builders import in_blocks
from .select import where
from .special import TERMS


def _d_bessel(g: Tensor, _: Any, x: Tensor, order: int) -> Any:
    return (g * (bessel(x, abs(order - 1)) + bessel(x, order + 1)) * 0.5, None)


@primitive(vjp=_d_bessel, name="_bessel")
def bessel(x: Tensor, order: int) -> Tensor:
    """I_order by its power series, whose terms all have one sign (NIST DLMF 10.25.2)."""
    kind = kind_of(x)
    with np.errstate(all="ignore"):
        return tensor_of(in_blocks(partial(_power_series, order=order), array_of(x, kind)), kind)


def _power_series(x: Any, order: int) -> Any:
    half = x / 2
    square = half * half
    term = np.ones_like(half)
    for k in range(1, order + 1):
        term = term * half / k
    total = term.copy()
    for k in range(1, TERMS):
        term *= square / (k * (k + order))
        total += term
        if not (np.abs(term) > np.abs(total) * 1e-17).any():
            break
    return np.where(np.isinf(half), np.inf, total)


@function(method=True, in_place=True)
def i0(x: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 0."""
    return bessel(x, 0)


def i1(x: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 1."""
    return bessel(x, 1)


def kind_of(x: Tensor) -> Any:
    """The dtype of a result: that of floats, the default one of whole numbers."""
    return x.dtype if x.dtype.is_floating_point else _dtype.Default.dtype


LARGE = 30.0  # from here on the asymptotic series have the precision of float64


def _d_scaled(g: Tensor, y: Tensor, x: Tensor, order: int) -> Any:
    slope = (_scaled(x, abs(order - 1)) + _scaled(x, order + 1)) * 0.5
    return g * (slope - sign(x) * y), None


@primitive(vjp=_d_scaled, saves="both", name="_scaled_bessel")
def _scaled(x: Tensor, order: int) -> Tensor:
    """exp(-|x|) I_order(x): by the power series, for large x by the asymptotic one (NIST DLMF 10.40.1)."""
    kind = kind_of(x)
    with np.errstate(all="ignore"):
        return tensor_of(in_blocks(partial(_scaled64, order=order), array_of(x, kind)), kind)


def _scaled64(given: Any, order: int) -> Any:
    size = np.abs(given)
    near = np.minimum(size, LARGE)
    half = near / 2
    square = half * half
    term = np.exp(-near)
    for k in range(1, order + 1):
        term = term * half / k
    total = term.copy()
    for k in range(1, TERMS):
        term *= square / (k * (k + order))
        total += term
        if not (term > total * 1e-17).any():
            break
    large = size > LARGE
    if large.any():
        far = size[large]
        part = np.ones_like(far)
        series = part.copy()
        for k in range(1, 31):
            part = part * -(4 * order * order - (2 * k - 1) ** 2) / (8 * k * far)
            series += part
        total = np.asarray(total)
        total[large] = series / np.sqrt(2 * pi * far)
    found = np.where(np.isinf(size), 0.0, np.where(np.isnan(size), np.nan, total))
    return np.copysign(found, given) if order % 2 else found


def i0e(x: Tensor) -> Tensor:
    """exp(-|x|) i0(x)."""
    return _scaled(x, 0)


def i1e(x: Tensor) -> Tensor:
    """exp(-|x|) i1(x)."""
    return _scaled(x, 1)


def _d_cylinder(g: Tensor, _: Any, x: Tensor, order: int) -> Any:
    if order == 0:
        return -g * cylinder(x, 1), None
    return g * (cylinder(x, order - 1) - cylinder(x, order + 1)) * 0.5, None


def _steps(largest: float, order: int) -> int:
    """Steps of the trapezoidal rule: its error is J of an order of twice as many, less `order` (NIST DLMF 10.12.3),
    which is below the precision of float64 this far above |x|."""
    return int((largest + 12 * largest ** (1 / 3) + 30 + order) / 2) + 1


@primitive(vjp=_d_cylinder, name="_cylinder_bessel")
def cylinder(x: Tensor, order: int) -> Tensor:
    """J_order: by Bessel's integral (NIST DLMF 10.9.2), for large x by Hankel's expansion (10.17.3); in float32 by
    polynomials near the integral.
    """
    kind = kind_of(x)
    with np.errstate(all="ignore"):
        found = partial(_cylinder64, order=order, precise=kind is _dtype.float64)
        return tensor_of(in_blocks(found, array_of(x, kind)), kind)


def _cylinder64(given: Any, order: int, precise: bool = True) -> Any:
    size = np.abs(given)
    near = np.nan_to_num(np.minimum(size, LARGE))
    found = _integral(near, order) if precise else _polynomial(near, order)
    small = size < 1
    if small.any():
        found = np.asarray(found)
        found[small] = _small_cylinder(size[small], order)
    if (size > LARGE).any():
        found = np.where(size > LARGE, hankel_wave(size, order), found)
    found = np.where(np.isinf(size), 0.0, np.where(np.isnan(size), np.nan, found))
    return np.where(given < 0, -found, found) if order % 2 else found


_LIMITS = (4.0, 8.0, 16.0, LARGE)


@cache
def _coefficients(order: int, limit: float) -> Any:
    """Of J_order(x), or J_order(x) / x of odd orders, in the Chebyshev polynomials of 2 (x / limit)^2 - 1. For order 0
    they are squares of J_k(limit / 2) (NIST DLMF 10.23.2), which are below 1e-17 from this k on."""
    count = int(limit / 2) + 24 + order
    turns = (np.arange(count) + 0.5) * pi / count
    x = limit * np.cos(turns / 2)  # where the polynomials are compared: limit * sqrt((1 + cos turns) / 2)
    values = _integral(x, order) / (x if order % 2 else 1.0)
    found = 2 / count * np.cos(np.outer(np.arange(count), turns)) @ values
    found[0] /= 2
    return found


def _polynomial(x: Any, order: int) -> Any:
    """J_order of numbers from 0 to LARGE, within 3e-14, by Clenshaw's recurrence."""
    limit = next(limit for limit in _LIMITS if x.max(initial=0.0) <= limit)
    double = 4 * (x / limit) ** 2 - 2
    last, before, spare = np.zeros_like(x), np.zeros_like(x), np.empty_like(x)
    coefficients = _coefficients(order, limit)
    for c in coefficients[:0:-1]:
        np.multiply(double, last, out=spare)
        spare -= before
        spare += c
        last, before, spare = spare, last, before
    found = 0.5 * double * last - before + coefficients[0]
    return found * x if order % 2 else found


def _integral(x: Any, order: int) -> Any:
    """J_order by Bessel's integral (NIST DLMF 10.9.2)."""
    steps = _steps(float(x.max(initial=0.0)), order)
    total = 0.5 * (1.0 + (-1.0) ** order) + np.zeros_like(x)
    for k in range(1, steps):
        angle = pi * k / steps
        total += np.cos(order * angle - x * np.sin(angle))
    return total / steps


def hankel_wave(x: Any, order: int, second: bool = False) -> Any:
    """J_order, or Y_order if `second`, of numbers above LARGE, by Hankel's expansion (NIST DLMF 10.17.3-4)."""
    far = np.maximum(x, LARGE)
    even, odd, part = np.zeros_like(far), np.zeros_like(far), np.ones_like(far)
    for k in range(31):
        even, odd = (even, odd + part * (-1) ** (k // 2)) if k % 2 else (even + part * (-1) ** (k // 2), odd)
        part = part * (4 * order * order - (2 * k + 1) ** 2) / (8 * (k + 1) * far)
    phase = far - order * pi / 2 - pi / 4
    cosine, sine = np.cos(phase), np.sin(phase)
    return np.sqrt(2 / (pi * far)) * (sine * even + cosine * odd if second else cosine * even - sine * odd)


def _small_cylinder(x: Any, order: int) -> Any:
    """J_order of numbers up to 1 by its power series (NIST DLMF 10.2.2), exact in the small."""
    half = x / 2
    term = np.ones_like(half)
    for k in range(1, order + 1):
        term = term * half / k
    total = term
    for k in range(1, 14):
        term = term * -(half * half) / (k * (k + order))
        total = total + term
    return total


def bessel_j0(x: Tensor) -> Tensor:
    """The Bessel function of the first kind of order 0."""
    return cylinder(x, 0)


def bessel_j1(x: Tensor) -> Tensor:
    """The Bessel function of the first kind of order 1."""
    return cylinder(x, 1)


def spherical_bessel_j0(x: Tensor) -> Tensor:
    """sin(x) / x, 1 at 0."""
    own = x if x.dtype.is_floating_point else x.to(_dtype.Default.dtype)
    away = where(own == 0, 1.0, own)
    return where(own == 0, 1.0, where(own.isinf(), 0.0, away.sin() / away)).to(own.dtype)
