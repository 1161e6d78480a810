"""Bessel functions of the second kind, of the orders 0 and 1: ordinary ones, modified ones, plain and scaled."""

from __future__ import annotations

from math import pi
from typing import Any

from ...lazy import np
from ...numpy_arrays import array_of, tensor_of
from ...op import primitive
from ...tensor import Tensor
from .bessel import LARGE, bessel, cylinder, hankel_wave, kind_of

_EULER = 0.57721566490153286061
_NODES = 96  # of the trapezoidal rule, beyond which the terms up to _TERMS are exact
_TERMS = 40  # of Neumann's series, which vanish from J_80 on for arguments up to LARGE


def _d_second(g: Tensor, y: Tensor, x: Tensor, order: int) -> Any:
    return (g * -_second(x, 1) if order == 0 else g * (_second(x, 0) - y / x)), None


@primitive(vjp=_d_second, saves="both", name="_bessel_second_kind")
def _second(x: Tensor, order: int) -> Tensor:
    """Y_order: by Neumann's series of J_2k, whose integrals are taken together (NIST DLMF 10.8.3; its derivative if
    order is 1), for large x by Hankel's expansion (10.17.4)."""
    kind = kind_of(x)
    given = array_of(x, kind)
    wide = given.astype(np.float64)
    with np.errstate(all="ignore"):
        near = np.clip(wide, 0.0, LARGE)
        total = np.zeros_like(near)
        for j in range(_NODES):
            angle = pi * j / _NODES
            weight = sum((-1) ** (k + 1) * np.cos(2 * k * angle) / k for k in range(1, _TERMS + 1))
            sine = np.sin(angle)
            total += weight * (np.cos(near * sine) if order == 0 else sine * np.sin(near * sine))
        log = np.log(near / 2) + _EULER
        first = cylinder(tensor_of(near), 0).numpy()
        if order == 0:
            found = 2 / pi * log * first + 4 / pi * total / _NODES
        else:
            found = 2 / pi * (log * cylinder(tensor_of(near), 1).numpy() - first / near) + 4 / pi * total / _NODES
        found = np.where(wide == 0, -np.inf, np.where(wide > LARGE, hankel_wave(wide, order, second=True), found))
        found = np.where(np.isposinf(wide), 0.0, np.where((wide < 0) | np.isnan(wide), np.nan, found))
        return tensor_of(found.astype(given.dtype), kind)


def bessel_y0(x: Tensor) -> Tensor:
    """The Bessel function of the second kind of order 0: -inf at 0, NaN below."""
    return _second(x, 0)


def bessel_y1(x: Tensor) -> Tensor:
    """The Bessel function of the second kind of order 1: -inf at 0, NaN below."""
    return _second(x, 1)


def _d_modified(g: Tensor, y: Tensor, x: Tensor, order: int, scaled: bool) -> Any:
    slope = -_modified(x, 1, scaled) if order == 0 else -_modified(x, 0, scaled) - y / x
    return g * (slope + y if scaled else slope), None, None


@primitive(vjp=_d_modified, saves="both", name="_modified_bessel_second_kind")
def _modified(x: Tensor, order: int, scaled: bool) -> Tensor:
    """K_order, times exp(x) if `scaled`: up to 2 by its series (NIST DLMF 10.31.1-2), then by the integral 10.32.9."""
    kind = kind_of(x)
    given = array_of(x, kind)
    wide = given.astype(np.float64)
    with np.errstate(all="ignore"):
        small = np.clip(wide, 0.0, 2.0)
        log, square = np.log(small / 2) + _EULER, small * small / 4
        term, harmonic, total = np.ones_like(small), 0.0, np.zeros_like(small)
        for k in range(20):
            more = 2 * harmonic + 1 / (k + 1) if order else harmonic
            total += term * more
            term = term * square / ((k + 1) * (k + 1 + order))
            harmonic += 1 / (k + 1)
        whole = bessel(tensor_of(small), order).numpy()
        series = 1 / small + log * whole - small / 4 * total if order else total - log * whole
        near = series * np.exp(small) if scaled else series
        large = np.maximum(wide, 2.0)
        step = np.minimum(0.25, np.sqrt(0.5 / large))  # so narrow is exp(-x (cosh t - 1)) around 0
        integral = np.full_like(large, 0.5)
        for j in range(1, 21):
            rise = 2 * np.sinh(j * step / 2) ** 2  # cosh(t) - 1
            integral += np.exp(-large * rise) * (1 + rise if order else 1.0)
        integral *= step if scaled else step * np.exp(-large)
        found = np.where(wide == 0, np.inf, np.where(wide > 2, integral, near))
        found = np.where(np.isposinf(wide), 0.0, np.where((wide < 0) | np.isnan(wide), np.nan, found))
        return tensor_of(found.astype(given.dtype), kind)


def modified_bessel_k0(x: Tensor) -> Tensor:
    """The modified Bessel function of the second kind of order 0: inf at 0, NaN below."""
    return _modified(x, 0, False)


def modified_bessel_k1(x: Tensor) -> Tensor:
    """The modified Bessel function of the second kind of order 1: inf at 0, NaN below."""
    return _modified(x, 1, False)


def scaled_modified_bessel_k0(x: Tensor) -> Tensor:
    """exp(x) modified_bessel_k0(x)."""
    return _modified(x, 0, True)


def scaled_modified_bessel_k1(x: Tensor) -> Tensor:
    """exp(x) modified_bessel_k1(x)."""
    return _modified(x, 1, True)
