"""Airy's function."""

from __future__ import annotations

from math import gamma, pi, sqrt
from typing import Any

from ...lazy import np
from ...numpy_arrays import array_of, tensor_of
from ...op import primitive
from ...tensor import Tensor
from .bessel import kind_of

_NEAR = 2.0  # up to here the power series loses three digits at most


def _d_airy(g: Tensor, _: Any, x: Tensor, derivative: int) -> Any:
    return g * (_airy(x, 1) if derivative == 0 else x * _airy(x, 0)), None


@primitive(vjp=_d_airy)
def _airy(x: Tensor, derivative: int) -> Tensor:
    """Ai or Ai': near 0 by their power series (NIST DLMF 9.4.1-2), elsewhere by modified Bessel functions of the
    orders 1/3 and 2/3 (9.6.2-3), of imaginary arguments below 0."""
    kind = kind_of(x)
    given = array_of(x, kind)
    wide = given.astype(np.float64)
    with np.errstate(all="ignore"):
        size = np.maximum(np.abs(wide), _NEAR)
        size = np.where(np.isinf(size), 1.0, size)
        zeta, root = size**1.5 * (2 / 3), size**0.25
        order = 2 / 3 if derivative else 1 / 3
        right = np.exp(-zeta) * _factor(zeta, order).real / (2 * sqrt(pi))
        wave = np.exp(1j * (zeta - pi / 4)) * _factor(-1j * zeta, order) / sqrt(pi)
        far = (
            np.where(wide > 0, -right, wave.imag) * root if derivative else np.where(wide > 0, right, wave.real) / root
        )
        found = np.where(np.abs(wide) > _NEAR, far, _series(np.clip(wide, -_NEAR, _NEAR), derivative))
        limits = np.where(wide > 0, 0.0, np.nan if derivative else 0.0)
        found = np.where(np.isinf(wide), limits, np.where(np.isnan(wide), np.nan, found))
        return tensor_of(found.astype(given.dtype), kind)


def _factor(z: Any, order: float) -> Any:
    """K_order(z) exp(z) sqrt(2 z / pi), for z of at least 1 in size, not below 0: by the integral 10.32.8 of DLMF over
    s = exp(v - exp(-v)), where the trapezoidal rule converges exponentially."""
    z = np.asarray(z)  # the product of a complex number and one of NumPy's is Python's
    total = np.zeros(z.shape, np.complex128)
    step = 1 / 16
    for v in np.arange(-3.5, 5.0, step):
        s = np.exp(v - np.exp(-v))
        weight = np.exp(-s) * s ** (order + 0.5) * (1 + np.exp(-v)) * step
        total += weight * (1 + s / (2 * z)) ** (order - 0.5)
    return total / gamma(order + 0.5)


def _series(x: Any, derivative: int) -> Any:
    """Ai or Ai' of numbers near 0."""
    cube = x * x * x
    first, second = np.ones_like(x), x if not derivative else np.ones_like(x)
    if derivative:
        first = x * x / 2
    total, other = first.copy(), second.copy()
    for k in range(1, 14):
        n = 3 * k
        if derivative:
            first = first * cube / (n * (n + 2))
            second = second * cube / (n * (n - 2))
        else:
            first = first * cube / (n * (n - 1))
            second = second * cube / (n * (n + 1))
        total, other = total + first, other + second
    return total / (3 ** (2 / 3) * gamma(2 / 3)) - other / (3 ** (1 / 3) * gamma(1 / 3))


def airy_ai(x: Tensor) -> Tensor:
    """Airy's function Ai, a solution of y'' = x y: it falls fast above 0, and is a wave below."""
    return _airy(x, 0)
