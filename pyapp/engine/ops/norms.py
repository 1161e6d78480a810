"""Norms of vectors along dims; renorm."""

from __future__ import annotations

from math import inf
from typing import Any

from ..autocast import in_full_precision_on_cards
from ..declare import function
from ..dtype import float32
from ..op import op
from ..operands import is_half
from ..shape import normalize_dim
from ..tensor import Tensor
from ..user_errors import describe
from .element_updates import element_function
from .elementwise.select import where
from .linalg.norms import matrix_norm
from .reduce import _spread, found_extreme, sum


@function(method=True, in_place=True)
@in_full_precision_on_cards
def renorm(x: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """x with the slices along `dim` whose p-norm is above `maxnorm` scaled down to `maxnorm`."""
    if not x.dtype.has_gradient or x.ndim < 2 or p <= 0 or maxnorm < 0:
        raise ValueError(
            f"renorm: takes floats of 2 dims and more, p above 0 and maxnorm of at least 0, got {describe(x)}, {p}, "
            f"{maxnorm}"
        )
    kept = normalize_dim(dim, x.ndim, "renorm")
    wide = x.contiguous() if x.dtype.itemsize >= 4 else x.to(float32).contiguous()  # so is the result, as in torch
    sizes = wide.norm(p, [d for d in range(x.ndim) if d != kept], True)
    factors = where(sizes > maxnorm, maxnorm / (sizes + 1e-7), 1.0)  # torch's guard against 0
    return (wide * factors).to(x.dtype)


@op()
def sum_squares(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """Sums of squares over dims, or over all: floats."""
    return sum(x * x, dim, keepdim)


# g / norm, and 0 where the norm is. There nothing divides by it, of which the second gradient would be NaN.
_share_of_norm = element_function(lambda g, norm: (g / norm.where(norm != 0, 1.0)).where(norm != 0, 0.0), 2)


def _d_norm(g: Tensor, y: Tensor, x: Tensor, dim: Any = None, keepdim: bool = False) -> Any:
    return (x * _spread(_share_of_norm(g, y), x, dim, keepdim),)


@op(vjp=_d_norm, saves="both")
def _euclidean(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    if is_half(x):
        return _euclidean(x.to(float32), dim, keepdim).to(x.dtype)
    return sum_squares(x, dim, keepdim).sqrt()


def _d_p_norm(g: Tensor, y: Tensor, x: Tensor, p: float, dim: Any = None, keepdim: bool = False) -> Any:
    whole = _spread(y, x, dim, keepdim)
    zero = whole == 0
    size = where(x == 0, 1.0, x.abs())  # 0, which has no sign, has an infinite power, or its gradient has
    share = x.sign() * (size / where(zero, 1.0, whole)) ** (p - 1)
    return (share * where(zero, 0.0, _spread(g, x, dim, keepdim)),)


@op(vjp=_d_p_norm, saves="both")
def _p_norm(x: Tensor, p: float, dim: Any = None, keepdim: bool = False) -> Tensor:
    if is_half(x):
        return _p_norm(x.to(float32), p, dim, keepdim).to(x.dtype)
    return sum(x.abs() ** p, dim, keepdim) ** (1 / p)


@op(vjp=lambda g, _, x, dim, keepdim: (x.new_zeros(x._shape),))
def _count_nonzero(x: Tensor, dim: Any, keepdim: bool) -> Tensor:
    """How many elements are not 0, in x's dtype; with a gradient of 0, as in torch."""
    return sum(x != 0, dim, keepdim).to(x.dtype)


@function(method=True)
@in_full_precision_on_cards
def norm(x: Tensor, p: Any = "fro", dim: Any = None, keepdim: bool = False, dtype: Any = None) -> Tensor:
    """The p-norm of the elements over dims: (Σ |x|^p)^(1/p); p may be "fro" or None (2), inf, -inf or 0 (how many).
    With a `dtype`, x is converted to it first.
    """
    x = x if dtype is None else x.to(dtype)
    if p == "nuc":
        return matrix_norm(x, "nuc", (-2, -1) if dim is None else dim, keepdim)
    if x.dtype.is_complex:
        x = x.abs()
    if not x.dtype.is_floating_point:
        raise TypeError(f"norm: takes floating-point and complex tensors, not {describe(x)}")
    if p is None or p in ("fro", 2):
        return _euclidean(x, dim, keepdim)
    if isinstance(p, str):
        raise ValueError(f"norm: p is a number, 'fro' or 'nuc', not {p!r}")
    if p in (inf, -inf):
        return found_extreme(x.abs(), p > 0, dim, keepdim)
    if p == 0:
        return _count_nonzero(x, dim, keepdim)
    if p == 1:
        return sum(x.abs(), dim, keepdim)
    return _p_norm(x, p, dim, keepdim)


@function()
def frobenius_norm(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The root of the sum of squares."""
    return x.norm(2, dim, keepdim)
