"""The incomplete gamma functions, and the multivariate one."""

from __future__ import annotations

import functools
from math import log, pi, sqrt
from operator import index
from typing import Any

from ... import dtype as _dtype
from ...declare import function
from ...lazy import np
from ...numpy_arrays import tensor_of
from ...operands import unbroadcast
from ...tensor import Tensor
from ...user_errors import describe
from .builders import binary
from .special import TERMS, _erfc64, _lgamma64, lgamma


def _below(a: Any, x: Any) -> Any:
    """P(a, x) by its series, for x < a + 1 (NIST DLMF 8.11.4)."""
    term = total = 1 / a
    for n in range(1, TERMS):
        term = term * (x / (a + n))
        total = total + term
        if not (term > total * 1e-17).any():
            break
    return total * np.exp(a * np.log(x) - x - _lgamma64(a))


def _above(a: Any, x: Any) -> Any:
    """Q(a, x) by its continued fraction after Lentz, for x >= a + 1 (NIST DLMF 8.9.2)."""
    b = x + 1 - a
    c, d = np.full_like(x, 1e300), 1 / b
    h = d
    for n in range(1, TERMS):
        step = -n * (n - a)
        b = b + 2
        d = 1 / (step * d + b)
        c = b + step / c
        h = h * (d * c)
        if not (np.abs(d * c - 1) > 1e-16).any():
            break
    return h * np.exp(a * np.log(x) - x - _lgamma64(a))


_MANY = 1e4  # from this first argument on, three terms of the expansion below have the precision of float64


@functools.cache
def temme_terms() -> tuple[list[float], ...]:
    """The coefficients of η^n in c_0, c_1 and c_2 of the uniform expansion for a large first argument (NIST DLMF 8.12.9
    and 8.12.12)."""
    count = 24
    alpha = [0.0, 1.0]
    for n in range(2, count + 7):
        alpha.append((alpha[n - 1] - sum(j * alpha[j] * alpha[n - j + 1] for j in range(2, n))) / (n + 1))
    first = [-1 / 3] + [(n + 2) * alpha[n + 2] for n in range(1, count + 4)]
    terms = [first]
    for stirling in (-1 / 12, 1 / 288):
        before = terms[-1]
        terms.append([stirling * first[n] + (n + 2) * before[n + 2] for n in range(len(before) - 2)])
    return tuple(term[:count] for term in terms)


def _uniform(a: Any, x: Any, upper: bool) -> Any:
    """P(a, x), or Q(a, x), for large a: Temme's uniform expansion (NIST DLMF 8.12.3, 8.12.4, 8.12.7)."""
    near = (x - a) / a  # λ - 1
    tail = np.zeros_like(near)  # (near - log(1 + near)) / near², by its series where the difference would cancel
    for n in range(14, 1, -1):
        tail = 1 / n - near * tail
    square = np.where(np.abs(near) < 0.02, near * near * tail, near - np.log1p(near))  # η² / 2
    eta = np.copysign(np.sqrt(2 * square), near)
    small = np.clip(eta, -1.0, 1.0)  # beyond, the exponential is 0
    c = [np.polynomial.polynomial.polyval(small, term) for term in temme_terms()]
    rest = np.exp(-a * square) / (sqrt(2 * pi) * np.sqrt(a)) * (c[0] + (c[1] + c[2] / a) / a)
    side = 1.0 if upper else -1.0
    return 0.5 * _erfc64(side * eta * np.sqrt(a / 2)) + side * rest


def _incomplete(a: Any, x: Any, upper: bool) -> Any:
    """P(a, x), or Q(a, x), in float64; NaN outside a >= 0, x >= 0."""
    a, x = np.broadcast_arrays(a.astype(np.float64), x.astype(np.float64))
    inside = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    low = x < a + 1
    safe_a, safe_x = np.where(inside, a, 1.0), np.where(inside, x, 1.0)
    large = safe_a >= _MANY
    p = _below(np.where(low & ~large, safe_a, 1.0), np.where(low & ~large, safe_x, 0.5))
    q = _above(np.where(low | large, 1.0, safe_a), np.where(low | large, 4.0, safe_x))
    found = np.where(low, 1 - p if upper else p, q if upper else 1 - q)
    if large.any():
        with np.errstate(all="ignore"):
            found = np.where(large, _uniform(np.where(large, safe_a, _MANY), safe_x, upper), found)
    none, whole = (1.0, 0.0) if upper else (0.0, 1.0)
    found = np.where(inside, found, np.where((x == 0) | np.isinf(a), none, whole))
    both = ((a == 0) & (x == 0)) | (np.isinf(a) & np.isinf(x))
    return np.where(both | (a < 0) | (x < 0) | np.isnan(a) | np.isnan(x), np.nan, found)


def _slope(sign: float) -> Any:
    def vjp(g: Tensor, _: Any, a: Tensor, x: Tensor) -> Any:
        if a.requires_grad:
            raise RuntimeError(f"igamma: there is no gradient for its first argument, {describe(a)} (nor in torch)")
        return None, unbroadcast(g * sign * ((a - 1) * x.log() - x - lgamma(a)).exp(), x)

    return vjp


def _in_float64(upper: bool) -> Any:
    return lambda: lambda a, x: _incomplete(a, x, upper).astype(np.result_type(a, x))


igamma = binary("igamma", _in_float64(False), _slope(1.0), out="float")
igammac = binary("igammac", _in_float64(True), _slope(-1.0), out="float")


@function(method=True, in_place=True)
def mvlgamma(x: Tensor, p: int) -> Tensor:
    """log of the multivariate gamma function of dimension p."""
    p = index(p)
    if not 1 <= p <= _LARGEST_DIMENSION:
        raise ValueError(f"mvlgamma: the dimension is 1 .. {_LARGEST_DIMENSION:,}, not {p}")
    if not x.dtype.is_floating_point:
        x = x.to(_dtype.Default.dtype)
    total: Any = p * (p - 1) / 4 * log(pi)
    step = max(1, TERMS_AT_ONCE // max(x.numel(), 1))
    for first in range(0, p, step):
        halves = tensor_of(np.arange(first, min(first + step, p)) / 2, x.dtype).to(x.device)
        total = lgamma(x.unsqueeze(-1) - halves).sum(-1) + total
    return total


_LARGEST_DIMENSION = 1 << 20
TERMS_AT_ONCE = 1 << 16
