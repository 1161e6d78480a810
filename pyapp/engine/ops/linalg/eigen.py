"""Eigenvalues and eigenvectors."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...autocast import full_precision
from ...lazy import np
from ...numpy_arrays import tensor_of
from ...op import primitive
from ...return_types import printed_as
from ...tensor import Tensor
from ..diagonals import diag_embed, diagonal
from .lapack import _lapack, _square
from .svd import over_gaps


def _d_eigh(g: Tensor, y: Tensor, x: Tensor, triangle: str) -> Any:
    """Giles 2008, "Collected matrix derivative results", 3.1."""
    values, vectors = y[..., 0, :], y[..., 1:, :]
    g = g.contiguous()
    g_values, g_vectors = g[..., 0, :], g[..., 1:, :]
    turned = vectors.mT @ g_vectors
    turned = turned - diag_embed(diagonal(turned, 0, -2, -1))
    inner = diag_embed(g_values) + over_gaps(turned, values)
    whole = vectors @ inner @ vectors.mT
    return ((whole + whole.mT) * 0.5,)


@primitive(vjp=_d_eigh, saves="both", name="_eigh", autocast=full_precision)
def _eigh(x: Tensor, triangle: Any) -> Tensor:
    """Eigenvalues as a row over eigenvectors as columns: (..., 1 + N, N)."""

    def compute(a: Any) -> Any:
        values, vectors = np.linalg.eigh(a, triangle)
        return np.concatenate([values[..., None, :], vectors], -2)

    return tensor_of(*_lapack("eigh", compute, x))


@printed_as("linalg_eigh")
class Eigen(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


def eigh(x: Tensor, UPLO: str = "L") -> Eigen:
    """(eigenvalues ascending (..., N), eigenvectors as columns (..., N, N)) of symmetric x; only one triangle is read.
    The gradient is that of the whole symmetric matrix; undefined for equal eigenvalues.
    """
    _square("eigh", x)
    if UPLO not in ("L", "U"):
        raise ValueError(f"eigh: UPLO is 'L' or 'U', not {UPLO!r}")
    packed = _eigh(x, UPLO)
    return Eigen(packed[..., 0, :], packed[..., 1:, :])


def eigvalsh(x: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of eigh."""
    return eigh(x, UPLO)[0]


@printed_as("linalg_eig")
class Eig(NamedTuple):
    """Complex numbers are pairs in a last dim of two."""

    eigenvalues: Tensor
    eigenvectors: Tensor


def _pairs(name: str, compute: Any, x: Tensor) -> Tensor:
    _square(name, x)
    if x.requires_grad:
        x = x.detach()  # as documented: no gradient

    def separate(a: Any) -> Any:
        found = compute(a)
        return np.stack([found.real, found.imag], -1)

    return tensor_of(*_lapack(name, separate, x))


def eigvals(x: Tensor) -> Tensor:
    """Eigenvalues of any square matrices (..., N, N) → pairs of real and imaginary parts (..., N, 2); no gradient."""
    return _pairs("eigvals", lambda a: np.linalg.eigvals(a), x)


def eig(x: Tensor) -> Eig:
    """(eigenvalues (..., N, 2), eigenvectors as columns (..., N, N, 2)), pairs of real and imaginary parts; no
    gradient.
    """

    def compute(a: Any) -> Any:
        values, vectors = np.linalg.eig(a)
        return np.concatenate([values[..., None, :], vectors], -2)

    packed = _pairs("eig", compute, x)
    return Eig(packed[..., 0, :, :], packed[..., 1:, :, :])
