"""Differences and integrals along a dim: diff, gradient, the trapezoidal rule."""

from __future__ import annotations

from typing import Any

from .. import dtype as _dtype
from ..declare import function
from ..dtype import bool_, complex_of, int64
from ..shape import normalize_dim
from ..tensor import Tensor
from ..user_errors import describe
from .stacking import cat
from .view import narrow, reshape


def _along(x: Tensor, at: Any, d: int, edge_order: int) -> Tensor:
    """The gradient along dim d; `at`: the distance of neighbours, or a tensor of coordinates (n,)."""
    n = x._shape[d]
    if n < edge_order + 1:
        raise RuntimeError(f"gradient: dim {d} of {describe(x)} has fewer than {edge_order + 1} elements")
    if isinstance(at, Tensor):
        if at._shape != (n,):
            raise ValueError(f"gradient: coordinates {describe(at)} do not fit dim {d} of {describe(x)}")
        gaps = (narrow(at, 0, 1, n - 1) - narrow(at, 0, 0, n - 1)).reshape(-1, *(1,) * (x.ndim - d - 1))
    else:
        if isinstance(at, complex):
            x = x.to(complex_of(x.dtype))
        gaps = x.new_full((n - 1,) + (1,) * (x.ndim - d - 1), at)
    rises = (narrow(x, d, 1, n - 1) - narrow(x, d, 0, n - 1)) / gaps
    dim = gaps.ndim - (x.ndim - d)  # the dim of `gaps` along d: 0

    def part(of: Tensor, start: int, count: int) -> Tensor:
        return narrow(of, d if of is rises else dim, start, count)

    left, right = part(gaps, 0, n - 2), part(gaps, 1, n - 2)
    if not isinstance(at, Tensor):  # without the middle, which may be infinite or NaN
        inner = (narrow(x, d, 2, n - 2) - narrow(x, d, 0, n - 2)) / (left + right) if n > 2 else narrow(rises, d, 0, 0)
    else:
        inner = (part(rises, 0, n - 2) * right + part(rises, 1, n - 2) * left) / (left + right)
    first, last = part(rises, 0, 1), part(rises, n - 2, 1)
    if edge_order == 2:  # the parabola through three points
        bent = (part(rises, 1, 1) - first) / (part(gaps, 0, 1) + part(gaps, 1, 1))
        first = first - bent * part(gaps, 0, 1)
        bent = (last - part(rises, n - 3, 1)) / (part(gaps, n - 2, 1) + part(gaps, n - 3, 1))
        last = last + bent * part(gaps, n - 2, 1)
    return cat([first, inner, last], d)


@function()
def gradient(x: Tensor, *, spacing: Any = None, dim: Any = None, edge_order: int = 1) -> tuple[Tensor, ...]:
    """Derivatives along dims (all by default), by central differences; `spacing` is one distance (1), or for each dim a
    distance or a tensor of coordinates. As torch.gradient.
    """
    given = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    dims = [normalize_dim(d, x.ndim, "gradient") for d in given]
    if len(set(dims)) < len(dims):
        raise ValueError(f"gradient: {dim} names a dim of {describe(x)} twice")
    if edge_order not in (1, 2):
        raise ValueError(f"gradient: edge_order is 1 or 2, not {edge_order}")
    spacing = 1 if spacing is None else spacing
    steps = [spacing] * len(dims) if isinstance(spacing, (int, float, complex)) else list(spacing)
    if len(steps) != len(dims):
        raise ValueError(f"gradient: {len(steps)} spacings for {len(dims)} dims of {describe(x)}")
    values = x if x.dtype.has_gradient else x.to(_dtype.float32)
    return tuple(_along(values, s, d, edge_order) for s, d in zip(steps, dims, strict=True))


@function(method=True)
def diff(x: Tensor, n: int = 1, dim: int = -1, prepend: Tensor | None = None, append: Tensor | None = None) -> Tensor:
    """Differences of neighbours along a dim, n times; x itself for n = 0."""
    if n < 0:
        raise ValueError(f"diff: n is not negative, got {n}")
    if n == 0:
        return x._row_major()
    parts = [t for t in (prepend, x, append) if t is not None]
    x = cat(parts, dim) if len(parts) > 1 else x
    for _ in range(n):
        size = x._shape[dim]
        if not size:
            break
        after, before = narrow(x, dim, 1, size - 1), narrow(x, dim, 0, size - 1)
        x = after.ne(before) if x.dtype is bool_ else after - before
    return x


def _pairs(y: Tensor, dim: int) -> Tensor:
    """The sums of neighbours along a dim."""
    size = y._shape[dim]
    y = y if y.dtype.is_floating_point or y.dtype.is_complex else y.to(int64)  # sums of bytes would wrap around
    return narrow(y, dim, min(size, 1), max(size - 1, 0)) + narrow(y, dim, 0, max(size - 1, 0))


@function(synonyms="trapz")
def trapezoid(y: Tensor, x: Tensor | None = None, dx: float = 1.0, dim: int = -1) -> Tensor:
    """The trapezoidal rule along a dim, for points x or steps dx."""
    if x is None:
        return _pairs(y, dim).sum(dim) * (dx * 0.5)
    means = _pairs(y, dim) * 0.5
    steps = diff(x, dim=-1 if x.ndim == 1 else dim)
    if x.ndim == 1 and y.ndim > 1:
        steps = reshape(steps, tuple(-1 if d == dim % y.ndim else 1 for d in range(y.ndim)))
    return (means * steps).sum(dim)


@function()
def cumulative_trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float = 1.0, dim: int = -1) -> Tensor:
    """The running trapezoidal rule along a dim."""
    means = _pairs(y, dim) * 0.5
    return (means * (dx if x is None else diff(x, dim=dim))).cumsum(dim)
