"""Approximations of low rank by random projections (Halko, Martinsson and Tropp 2009, https://arxiv.org/abs/0909.4061)."""

from __future__ import annotations

from ...declare import function
from ...tensor import Tensor
from ...user_errors import describe
from ..random import randn
from .factor import linalg_qr
from .svd import SVD, linalg_svd


def _range(x: Tensor, rank: int, iterations: int) -> Tensor:
    """An orthonormal basis (..., M, rank) of what x (..., M, N) mostly maps to (algorithm 4.4)."""
    basis = linalg_qr(x @ randn(x._shape[-1], rank, dtype=x.dtype, device=x.device))[0]
    for _ in range(iterations):
        basis = linalg_qr(x.mT @ basis)[0]
        basis = linalg_qr(x @ basis)[0]
    return basis


@function()
def svd_lowrank(A: Tensor, q: int | None = 6, niter: int | None = 2, M: Tensor | None = None) -> SVD:
    """The largest `q` singular values of A - M (..., M, N) and their vectors, approximately, by `niter` rounds of a
    power iteration: U (..., M, q), S (..., q), V (..., N, q).
    """
    rank, rounds = 6 if q is None else q, 2 if niter is None else niter
    if A.ndim < 2 or not 0 <= rank <= min(A._shape[-2:]) or rounds < 0:
        raise ValueError(f"svd_lowrank: q {rank} and niter {rounds} do not fit {describe(A)}")
    x = A if M is None else A - M
    wide = x._shape[-2] < x._shape[-1]
    x = x.mT if wide else x
    basis = _range(x, rank, rounds)
    u, s, vh = linalg_svd(basis.mT @ x, False)
    u, v = basis @ u, vh.mT
    return SVD(v, s, u) if wide else SVD(u, s, v)


@function()
def pca_lowrank(A: Tensor, q: int | None = None, center: bool = True, niter: int = 2) -> SVD:
    """Principal components of the rows of A (..., M, N): svd_lowrank of A without the means of its columns, for
    q = min(6, M, N) by default. The columns of V (..., N, q) are the directions.
    """
    if A.ndim < 2:
        raise ValueError(f"pca_lowrank: takes matrices (..., M, N), got {describe(A)}")
    rank = min(6, *A._shape[-2:]) if q is None else q
    if not 0 <= rank <= min(A._shape[-2:]) or niter < 0:
        raise ValueError(f"pca_lowrank: q {rank} and niter {niter} do not fit {describe(A)}")
    return svd_lowrank(A - A.mean(-2, True) if center else A, rank, niter)
