"""keras.ops.linalg: matrices, their factors, and derivatives of functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyapp

from ..engine import Tensor
from .arguments import as_floats, as_tensor
from .structures import flatten, map_structure

__all__ = [
    "cholesky", "cholesky_inverse", "det", "eig", "eigh", "inv", "jvp", "lstsq", "lu_factor", "matrix_rank", "norm",
    "polar", "qr", "solve", "solve_triangular", "svd", "view_as_complex",
]  # fmt: skip


def inv(x: Any) -> Tensor:
    """The inverse of matrices (..., N, N). An error for one that has none."""
    return pyapp.linalg.inv(as_floats(x))


def det(x: Any) -> Tensor:
    """The determinant of matrices: (..., N, N) → (...)."""
    return pyapp.linalg.det(as_floats(x))


def cholesky(x: Any, upper: bool = False) -> Tensor:
    """L with x = L Lᵀ, or U = Lᵀ."""
    return pyapp.linalg.cholesky(as_floats(x), upper=upper)


def cholesky_inverse(x: Any, upper: bool = False) -> Tensor:
    """The inverse of L Lᵀ, or of Uᵀ U for an upper triangle."""
    return pyapp.cholesky_inverse(as_floats(x), upper)


def solve(a: Any, b: Any) -> Tensor:
    """x with a x = b: a (..., N, N), b (..., N) or (..., N, K)."""
    return pyapp.linalg.solve(as_floats(a), as_floats(b))


def solve_triangular(a: Any, b: Any, lower: bool = False) -> Tensor:
    """x with a x = b, of which only one triangle of a is used."""
    matrix, right = as_floats(a), as_floats(b)
    vector = right.ndim == matrix.ndim - 1
    found = pyapp.linalg.solve_triangular(matrix, right.unsqueeze(-1) if vector else right, upper=not lower)
    return found.squeeze(-1) if vector else found


def svd(x: Any, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """(U, s, V transposed), or s alone."""
    values = as_floats(x)
    return pyapp.linalg.svd(values, full_matrices=full_matrices) if compute_uv else pyapp.linalg.svdvals(values)


def eigh(x: Any) -> Any:
    """Eigenvalues and eigenvectors of symmetric matrices."""
    return pyapp.linalg.eigh(as_floats(x))


def qr(x: Any, mode: str = "reduced") -> Any:
    """An orthogonal matrix and an upper triangle; `complete` gives a square one."""
    if mode not in ("reduced", "complete"):
        raise ValueError(f"qr: mode is reduced or complete, not {mode!r:.40}")
    return pyapp.linalg.qr(as_floats(x), mode)


def lu_factor(x: Any) -> Any:
    """Both triangles in one matrix, and the row with which each was exchanged, int32 from 0."""
    factors, rows = pyapp.linalg.lu_factor(as_floats(x))
    return factors, rows - 1


def lstsq(a: Any, b: Any, rcond: Any = None) -> Tensor:
    """x for which the squares of a x - b are least. Singular values below rcond times the largest count as 0."""
    matrix, right = as_floats(a), as_floats(b)
    vector = right.ndim == matrix.ndim - 1
    found = pyapp.linalg.pinv(matrix, rtol=rcond) @ (right.unsqueeze(-1) if vector else right)
    return found.squeeze(-1) if vector else found


def matrix_rank(x: Any, tol: Any = None) -> Tensor:
    """How many singular values are above `tol`, int32."""
    return pyapp.linalg.matrix_rank(as_floats(x), tol).to("int32")


def norm(x: Any, ord: Any = None, axis: Any = None, keepdims: bool = False) -> Tensor:
    """The norm of vectors, or of matrices for two axes."""
    return pyapp.linalg.norm(as_floats(x), ord, tuple(axis) if isinstance(axis, list) else axis, keepdims)


def jvp(fun: Callable[..., Any], primals: Any, tangents: Any, has_aux: bool = False) -> Any:
    """(fun(*primals), its derivative in the direction of the tangents), and what else fun returns with `has_aux`."""
    places = map_structure(as_tensor, list(primals))
    ways = [as_tensor(t).to(p.dtype) for p, t in zip(flatten(places), flatten(list(tangents)), strict=True)]
    way = iter(ways)
    return pyapp.func.jvp(fun, tuple(places), tuple(map_structure(lambda _: next(way), places)), has_aux=has_aux)


def eig(x: Any) -> tuple[Tensor, Tensor]:
    """(eigenvalues (…, N), eigenvectors as columns (…, N, N)) of square matrices, complex."""
    values, vectors = pyapp.linalg.eig(as_tensor(x))
    return values, vectors


def polar(abs_: Any, angle: Any) -> Tensor:
    """abs (cos angle + i sin angle), complex."""
    return pyapp.polar(as_tensor(abs_), as_tensor(angle))


def view_as_complex(x: Any) -> Tensor:
    """Pairs (…, 2) as complex numbers (…)."""
    return pyapp.view_as_complex(as_tensor(x))
