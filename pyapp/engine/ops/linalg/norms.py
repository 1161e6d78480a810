"""Norms of vectors and matrices, condition numbers."""

from __future__ import annotations

from typing import Any

from ....errors import LinAlgError
from ...declare import function
from ...shape import normalize_dim
from ...tensor import Tensor
from ...user_errors import describe
from ..elementwise.select import where
from ..stacking import stack
from .lapack import _square
from .solve import inverse
from .svd import svdvals


def cond(A: Tensor, p: Any = None) -> Tensor:
    """The condition number of matrices (..., M, N) → (...). For p None, 2 or -2 it is a ratio of singular values, for
    the other norms of matrix_norm it is |A| |A⁻¹| of square matrices; infinite if there is no inverse.
    """
    if A.ndim < 2:
        raise ValueError(f"cond: takes matrices (..., M, N), got {describe(A)}")
    by_values = p in (None, 2, -2)
    if not by_values:
        _square("cond", A)
    if not A.numel():
        return A.abs().new_zeros(A._shape[:-2])
    if by_values:
        s = svdvals(A)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    if p == "nuc":
        s = svdvals(A)
        return s.sum(-1) * s.reciprocal().sum(-1)
    other = _norm_of_inverse(A, p)
    return where(other.isinf(), other, matrix_norm(A, p) * other)


def _norm_of_inverse(x: Tensor, p: Any) -> Tensor:
    try:
        return matrix_norm(inverse(x), p)
    except LinAlgError:  # at least one of them is singular
        if x.ndim == 2:
            return x.new_full((), float("inf"))
        return stack([_norm_of_inverse(part, p) for part in x])


def vector_norm(x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """The p-norm over dims (all of them by default). With a `dtype`, x is converted to it first."""
    return x.norm(ord, dim, keepdim, dtype)


def matrix_norm(
    x: Tensor, ord: Any = "fro", dim: tuple[int, int] = (-2, -1), keepdim: bool = False, *, dtype: Any = None
) -> Tensor:
    """ord: "fro", "nuc", ±inf, ±1 or ±2 (singular values). With a `dtype`, x is converted to it first."""
    x = x if dtype is None else x.to(dtype)
    a, b = (normalize_dim(d, x.ndim, "matrix_norm") for d in dim)
    if x.ndim < 2 or a == b:
        raise ValueError(f"matrix_norm: takes matrices and two dims, got {describe(x)} and {dim}")
    if ord == "fro":
        return x.norm(2, (a, b), keepdim)
    if ord in ("nuc", 2, -2):
        moved = x.movedim((a, b), (-2, -1))
        s = svdvals(moved)
        y = s.sum(-1) if ord == "nuc" or not s._shape[-1] and ord == 2 else s.amax(-1) if ord == 2 else s.amin(-1)
        return y.unsqueeze(min(a, b)).unsqueeze(max(a, b)) if keepdim else y
    if ord not in (1, -1, float("inf"), float("-inf")):
        raise ValueError(f"matrix_norm: unknown ord {ord!r}")
    along, rest = (a, b) if abs(ord) == 1 else (b, a)
    sums = x.abs().sum(along, True)
    if not x._shape[rest] and ord > 0:
        y = sums.sum(rest, True)  # the largest of no sums is 0
        return y if keepdim else y.squeeze(max(a, b)).squeeze(min(a, b))
    y = sums.amax(rest, True) if ord > 0 else sums.amin(rest, True)
    return y if keepdim else y.squeeze(max(a, b)).squeeze(min(a, b))


def linalg_norm(x: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """torch.linalg.norm: of a matrix (or two dims) matrix_norm, of a vector (or one dim) vector_norm; without `ord` the
    2-norm of all elements.
    """
    x = x if dtype is None else x.to(dtype)
    dims = tuple(range(x.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if ord is None and (dim is None or len(dims) == 1):
        return vector_norm(x, 2, dims, keepdim)
    if len(dims) == 2:
        return matrix_norm(x, "fro" if ord is None else ord, (dims[0], dims[1]), keepdim)
    if len(dims) > 2 or isinstance(ord, str):
        raise ValueError(f"norm: ord {ord!r} takes a vector, a matrix or two dims, not {describe(x)} over {dims}")
    return vector_norm(x, ord, dims, keepdim)


@function()
def nuclear_norm(x: Tensor, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The sum of a matrix' singular values; of the matrices in two dims."""
    if isinstance(dim, bool):  # torch also takes keepdim second
        dim, keepdim = None, dim
    return matrix_norm(x, "nuc", (-2, -1) if dim is None else tuple(dim), keepdim)
