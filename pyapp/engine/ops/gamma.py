"""The last of torch's elementwise list: Bessel's I, incomplete gamma functions, differences along dims."""

from __future__ import annotations

from math import log, pi
from typing import Any

from .. import dtype as _dtype
from ..lazy import np
from ..op import describe, primitive
from ..shape import normalize_dim
from ..tensor import Tensor
from .base import array_of, computed, tensor_of, unbroadcast
from .elementwise import _binary
from .special import _lgamma64, lgamma
from .view import cat, narrow

_TERMS = 2000  # of the series below; for arguments whose result is finite far fewer matter


def _d_bessel(g: Tensor, _: Any, x: Tensor, order: int) -> Any:
    return (g * (_bessel(x, abs(order - 1)) + _bessel(x, order + 1)) * 0.5, None)


@primitive(vjp=_d_bessel, method=False)
def _bessel(x: Tensor, order: int) -> Tensor:
    """I_order by its power series, whose terms all have one sign (NIST DLMF 10.25.2)."""
    computed("i0")
    kind = x.dtype if x.dtype.is_floating_point else _dtype.Default.dtype
    with np.errstate(all="ignore"):
        half = array_of(x, kind).astype(np.float64) / 2
        term = np.ones_like(half)
        for k in range(1, order + 1):
            term = term * half / k
        total = term.copy()
        for k in range(1, _TERMS):
            term = term * (half * half / (k * (k + order)))
            total += term
            if not (np.abs(term) > np.abs(total) * 1e-17).any():
                break
        total = np.where(np.isinf(half), np.inf, total)
        return tensor_of(total.astype(array_of(x, kind).dtype), kind)


def i0(x: Tensor) -> Tensor:
    """The modified Bessel function of the first kind of order 0."""
    return _bessel(x, 0)


def _below(a: Any, x: Any) -> Any:
    """P(a, x) by its series, for x < a + 1 (NIST DLMF 8.11.4)."""
    term = total = 1 / a
    for n in range(1, _TERMS):
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
    for n in range(1, _TERMS):
        step = -n * (n - a)
        b = b + 2
        d = 1 / (step * d + b)
        c = b + step / c
        h = h * (d * c)
        if not (np.abs(d * c - 1) > 1e-16).any():
            break
    return h * np.exp(a * np.log(x) - x - _lgamma64(a))


def _incomplete(a: Any, x: Any, upper: bool) -> Any:
    """P(a, x), or Q(a, x), in float64; NaN outside a >= 0, x >= 0."""
    a, x = np.broadcast_arrays(a.astype(np.float64), x.astype(np.float64))
    inside = (a > 0) & (x > 0) & np.isfinite(a) & np.isfinite(x)
    low = x < a + 1
    safe_a, safe_x = np.where(inside, a, 1.0), np.where(inside, x, 1.0)
    p = _below(np.where(low, safe_a, 1.0), np.where(low, safe_x, 0.5))
    q = _above(np.where(low, 1.0, safe_a), np.where(low, 4.0, safe_x))
    found = np.where(low, 1 - p if upper else p, q if upper else 1 - q)
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


igamma = _binary("igamma", _in_float64(False), _slope(1.0), out="float")
igammac = _binary("igammac", _in_float64(True), _slope(-1.0), out="float")


def mvlgamma(x: Tensor, p: int) -> Tensor:
    """log of the multivariate gamma function of dimension p."""
    if p < 1:
        raise ValueError(f"mvlgamma: the dimension is 1 or more, not {p}")
    total: Any = p * (p - 1) / 4 * log(pi)
    for j in range(p):
        total = lgamma(x - j / 2) + total
    return total


def isreal(x: Tensor) -> Tensor:
    """True everywhere: pyapp's tensors are real."""
    return x.new_ones(x.shape, dtype=_dtype.bool_)


# -- differences


def _along(x: Tensor, at: Any, d: int, edge_order: int) -> Tensor:
    """The gradient along dim d; `at`: the distance of neighbours, or a tensor of coordinates (n,)."""
    n = x.shape[d]
    if n < edge_order + 1:
        raise RuntimeError(f"gradient: dim {d} of {describe(x)} has fewer than {edge_order + 1} elements")
    if isinstance(at, Tensor):
        if at.shape != (n,):
            raise ValueError(f"gradient: coordinates {describe(at)} do not fit dim {d} of {describe(x)}")
        gaps = (narrow(at, 0, 1, n - 1) - narrow(at, 0, 0, n - 1)).reshape(-1, *(1,) * (x.ndim - d - 1))
    else:
        gaps = x.new_full((n - 1,) + (1,) * (x.ndim - d - 1), float(at))
    rises = (narrow(x, d, 1, n - 1) - narrow(x, d, 0, n - 1)) / gaps
    dim = gaps.ndim - (x.ndim - d)  # of the gaps: 0

    def part(of: Tensor, start: int, count: int) -> Tensor:
        return narrow(of, d if of is rises else dim, start, count)

    left, right = part(gaps, 0, n - 2), part(gaps, 1, n - 2)
    inner = (part(rises, 0, n - 2) * right + part(rises, 1, n - 2) * left) / (left + right)
    first, last = part(rises, 0, 1), part(rises, n - 2, 1)
    if edge_order == 2:  # the parabola through three points
        bent = (part(rises, 1, 1) - first) / (part(gaps, 0, 1) + part(gaps, 1, 1))
        first = first - bent * part(gaps, 0, 1)
        bent = (last - part(rises, n - 3, 1)) / (part(gaps, n - 2, 1) + part(gaps, n - 3, 1))
        last = last + bent * part(gaps, n - 2, 1)
    return cat([first, inner, last], d)


def gradient(x: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> list[Tensor]:
    """Derivatives along dims (all by default), by central differences; `spacing` is one distance (1), or for each dim a
    distance or a tensor of coordinates. As torch.gradient."""
    given = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    dims = [normalize_dim(d, x.ndim, "gradient") for d in given]
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order is 1 or 2, not {edge_order}")
    spacing = 1 if spacing is None else spacing
    steps = [spacing] * len(dims) if isinstance(spacing, (int, float)) else list(spacing)
    if len(steps) != len(dims):
        raise ValueError(f"gradient: {len(steps)} spacings for {len(dims)} dims of {describe(x)}")
    values = x if x.dtype.is_floating_point else x.to(_dtype.float32)
    return [_along(values, s, d, edge_order) for s, d in zip(steps, dims, strict=True)]


for _function in (i0, igamma, igammac, isreal, mvlgamma):
    setattr(Tensor, _function.__name__, _function)
