"""Eigenvalues and eigenvectors."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...autocast import full_precision
from ...dtype import complex_of
from ...lazy import np
from ...op import primitive, read_nothing
from ...return_types import printed_as
from ...tensor import Tensor
from ..diagonals import diag_embed, diagonal
from .lapack import _square, finite_eigh, result_of
from .solve import solve
from .svd import largest_of, over_gaps, rank_limit, svdvals


def _d_eigh(g: Tensor, y: Tensor, x: Tensor, triangle: str) -> Any:
    """Giles 2008, "Collected matrix derivative results", 3.1."""
    values, vectors = y[..., 0, :], y[..., 1:, :]
    g = g.contiguous()
    g_values, g_vectors = g[..., 0, :], g[..., 1:, :]
    turned = vectors.mH @ g_vectors
    turned = turned - diag_embed(diagonal(turned, 0, -2, -1))
    inner = diag_embed(g_values) + over_gaps(turned, values)
    whole = vectors @ inner @ vectors.mH
    return ((whole + whole.mH) * 0.5,)


@primitive(vjp=_d_eigh, saves="both", name="_eigh", autocast=full_precision)
def _eigh(x: Tensor, triangle: Any) -> Tensor:
    """Eigenvalues as a row over eigenvectors as columns: (..., 1 + N, N)."""

    def compute(a: Any) -> Any:
        values, vectors = finite_eigh(a, triangle)
        return np.concatenate([values[..., None, :], vectors], -2)

    return result_of("eigh", compute, x)


_eigh.takes_complex = True
_eigh.reads = read_nothing


@printed_as("linalg_eigh")
class Eigen(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


def eigh(x: Tensor, UPLO: str = "L") -> Eigen:
    """(real eigenvalues ascending (..., N), eigenvectors as columns (..., N, N)) of Hermitian (symmetric) x; only one
    triangle is read. The gradient is that of the whole matrix; undefined for equal eigenvalues.
    """
    _square("eigh", x)
    if UPLO not in ("L", "U", "l", "u"):
        raise ValueError(f"eigh: UPLO is 'L' or 'U', not {UPLO!r}")
    packed = _eigh(x, UPLO.upper())
    values = packed[..., 0, :]
    return Eigen(values.real if x.dtype.is_complex else values, packed[..., 1:, :])


def eigvalsh(x: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of eigh."""
    return eigh(x, UPLO)[0]


def matrix_sqrth(x: Tensor) -> Tensor:
    """The square root of Hermitian (symmetric) matrices (..., N, N) without eigenvalues below 0, which count as 0. Only
    the lower triangle is read; the gradient is undefined for equal eigenvalues.
    """
    values, vectors = eigh(x)
    return (vectors * values.clamp(min=0).sqrt().unsqueeze(-2)) @ vectors.mH


@printed_as("linalg_eig")
class Eig(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


def _d_eig(g: Tensor, y: Tensor, x: Tensor) -> Any:
    """Boeddeker, Hanebrink, Drude, Heymann and Haeb-Umbach 2017, arXiv 1701.00392, 4.73; the vectors have length 1."""
    values, vectors = y[..., 0, :], y[..., 1:, :]
    g = g.contiguous()
    g_values, g_vectors = g[..., 0, :], g[..., 1:, :]
    turned = vectors.mH @ g_vectors
    longer = diagonal(turned, 0, -2, -1).real
    turned = turned - vectors.mH @ (vectors * longer.unsqueeze(-2))
    turned = turned - diag_embed(diagonal(turned, 0, -2, -1))
    inner = diag_embed(g_values) + over_gaps(turned, values.conj())
    found = solve(vectors.mH, inner @ vectors.mH)
    return (found if x.dtype.is_complex else found.real.to(x.dtype),)


@primitive(vjp=_d_eig, saves="both", name="_eig", autocast=full_precision)
def _eig(x: Tensor) -> Tensor:
    """Complex eigenvalues as a row over eigenvectors as columns: (..., 1 + N, N)."""

    def compute(a: Any) -> Any:
        values, vectors = np.linalg.eig(a)
        return np.concatenate([values[..., None, :], vectors], -2)

    return result_of("eig", compute, x, kind=complex_of)


_eig.takes_complex = True
_eig.reads = read_nothing


def eig(x: Tensor) -> Eig:
    """(eigenvalues (..., N), eigenvectors as columns (..., N, N)) of any square matrices: complex, in no order. The
    gradient of an eigenvector holds where its phase does not matter; there is none for equal eigenvalues.
    """
    _square("eig", x)
    packed = _eig(x)
    return Eig(packed[..., 0, :], packed[..., 1:, :])


def eigvals(x: Tensor) -> Tensor:
    """Complex eigenvalues of any square matrices (..., N, N) → (..., N)."""
    _square("eigvals", x)
    if x.requires_grad:
        return eig(x)[0]
    return result_of("eigvals", lambda a: np.linalg.eigvals(a), x, kind=complex_of)


def matrix_rank(
    x: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:  # fmt: skip
    """The number of singular values above atol (or tol) and above rtol (default max(M, N) ε) times the largest. With
    `hermitian` the absolute eigenvalues are counted, of which only the lower triangle is read.
    """
    s = eigvalsh(x.detach()).abs() if hermitian else svdvals(x.detach())
    return (s > rank_limit(x, largest_of(s), tol if atol is None else atol, rtol).unsqueeze(-1)).sum(-1)
