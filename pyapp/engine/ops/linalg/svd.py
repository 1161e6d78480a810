"""Singular values and vectors; the rank of a matrix."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...autocast import full_precision
from ...declare import function
from ...lazy import np
from ...op import primitive, read_nothing
from ...return_types import printed_as
from ...tensor import Tensor
from ...user_errors import describe
from ..diagonals import diag_embed, diagonal
from ..elementwise.compare import maximum
from ..elementwise.select import where
from ..stacking import cat
from .lapack import finite_svd, part_of, result_of


def _parts(packed: Tensor, m: int, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """U (..., M, K), S (..., K), V (..., N, K) of their packed form (..., M + 1 + N, K)."""
    values = packed[..., m, :]
    return packed[..., :m, :], values.real if values.dtype.is_complex else values, packed[..., m + 1 :, :]


def over_gaps(skew: Tensor, values: Tensor) -> Tensor:
    """skew[i, j] / (values[j] - values[i]); 0 where both are 0, as on the diagonal and for unused vectors."""
    gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
    unused = (skew == 0) & (gaps == 0)
    return where(unused, 0.0, skew) / where(unused, 1.0, gaps)


def _d_svd(g: Tensor, y: Tensor, x: Tensor) -> Any:
    """Townsend 2016, "Differentiating the singular value decomposition"; undefined for equal singular values."""
    m, n = x._shape[-2:]
    u, s, v = _parts(y, m, n)
    gu, gs, gv = _parts(g.contiguous(), m, n)
    squares = s * s
    row, column = s.unsqueeze(-2), s.unsqueeze(-1)
    skew_u, skew_v = u.mH @ gu, v.mH @ gv
    turn_u, turn_v = (over_gaps(_off_diagonal(skew - skew.mH), squares) for skew in (skew_u, skew_v))
    core = turn_u * row + column * turn_v + diag_embed(gs)
    if x.dtype.is_complex:  # the phases of a pair of vectors turn together
        core = core + diag_embed(diagonal(skew_u, 0, -2, -1).imag / s * 1j)
    whole = u @ core @ v.mH
    if m > s._shape[-1]:
        whole = whole + ((gu - u @ skew_u) / row) @ v.mH
    if n > s._shape[-1]:
        whole = whole + (u / row) @ (gv - v @ skew_v).mH
    return (whole,)


def _off_diagonal(x: Tensor) -> Tensor:
    """x with zeros on the diagonal, where differences of real numbers have them anyway."""
    return x - diag_embed(diagonal(x, 0, -2, -1)) if x.dtype.is_complex else x


@primitive(vjp=_d_svd, saves="both", name="_svd", autocast=full_precision)
def _svd(x: Tensor) -> Tensor:
    def compute(a: Any) -> Any:
        u, s, vh = finite_svd(a, full_matrices=False)
        return np.concatenate([u, s[..., None, :], np.conj(np.swapaxes(vh, -1, -2))], -2)

    return result_of("svd", compute, x)


_svd.takes_complex = True
_svd.reads = read_nothing


@printed_as("svd")
class SVD(NamedTuple):
    """x = U diag(S) Vᴴ."""

    U: Tensor
    S: Tensor
    V: Tensor


@function(method=True)
def svd(x: Tensor, some: bool = True, compute_uv: bool = True) -> SVD:
    """x = U diag(S) Vᴴ, as torch.svd: x (..., M, N) → U (..., M, K), S (..., K), V (..., N, K); U and V square unless
    `some`, zeros unless `compute_uv`. The additional columns of square ones get no gradient.
    """
    if x.ndim < 2:
        raise ValueError(f"svd: takes matrices (..., M, N), got {describe(x)}")
    if not compute_uv:
        m, n = x._shape[-2:]
        return SVD(x.new_zeros((*x._shape[:-2], m, m)), svdvals(x), x.new_zeros((*x._shape[:-2], n, n)))
    u, s, v = _parts(_svd(x), *x._shape[-2:])
    return SVD(u, s, v) if some else SVD(_completed(u), s, _completed(v))


def _completed(basis: Tensor) -> Tensor:
    """Orthonormal columns (..., M, K), completed by further ones to (..., M, M); these have no gradient."""
    m, k = basis._shape[-2:]
    if m == k:
        return basis

    return cat([basis, _further_columns(basis.detach())], -1)


def _no_gradient(*_: Any) -> Any:
    raise RuntimeError("qr: the additional columns of Q in mode 'complete' have no gradient; use mode 'reduced'")


@primitive(vjp=_no_gradient, saves="none", name="_further_columns")
def _further_columns(x: Tensor) -> Tensor:
    """Orthonormal columns (..., M, M - N) that are orthogonal to those of x (..., M, N), M >= N."""
    return result_of("qr", lambda a: np.linalg.qr(a, "complete")[0][..., a.shape[-1] :], x)


def _d_svdvals(g: Tensor, _: Tensor, x: Tensor) -> Any:
    u, _, v = svd(x)
    return ((u * g.unsqueeze(-2)) @ v.mH,)


@primitive(vjp=_d_svdvals, name="_svdvals", autocast=full_precision)
def _svdvals(x: Tensor) -> Tensor:
    return result_of("svdvals", lambda a: finite_svd(a, compute_uv=False), x, kind=part_of)


def svdvals(x: Tensor) -> Tensor:
    """Singular values (..., min(M, N)), descending."""
    if x.ndim < 2:
        raise ValueError(f"svdvals: takes matrices (..., M, N), got {describe(x)}")
    return _svdvals(x)


@printed_as("linalg_svd")
class LinalgSVD(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


def linalg_svd(x: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> LinalgSVD:
    """(U, S, Vᴴ), as torch.linalg.svd: U (..., M, M), S (..., K), Vᴴ (..., N, N), or K columns and rows of them unless
    `full_matrices`; columns and rows beyond K get no gradient.
    """
    u, s, v = svd(x, not full_matrices)
    return LinalgSVD(u, s, v.mH)


@printed_as("linalg_polar")
class Polar(NamedTuple):
    U: Tensor
    H: Tensor


def linalg_polar(x: Tensor) -> Polar:
    """x = U H, as torch.linalg.polar: x (..., M, N) with M >= N → U (..., M, N) of orthonormal columns, and H
    (..., N, N) Hermitian without eigenvalues below 0. The gradient is undefined for equal singular values.
    """
    if x.ndim < 2 or x._shape[-2] < x._shape[-1]:
        raise ValueError(f"polar: takes matrices (..., M, N) with M >= N, got {describe(x)}")
    u, s, v = svd(x)
    return Polar(u @ v.mH, (v * s.unsqueeze(-2)) @ v.mH)


def rank_limit(x: Tensor, largest: Tensor, atol: Any, rtol: Any) -> Tensor:
    """The limit (...) up to which singular values count as zero: the larger of atol and rtol times the largest. The
    default of rtol is max(M, N) ε, or 0 if only atol is given.
    """
    if rtol is None:
        eps = float(np.finfo(largest.dtype.numpy_name).eps)
        rtol = max(x._shape[-2:]) * eps if atol is None else 0.0
        if isinstance(atol, Tensor):
            rtol = where(atol > 0, 0.0, max(x._shape[-2:]) * eps)
    limit = largest * rtol
    return limit if atol is None else maximum(limit, atol if isinstance(atol, Tensor) else limit.new_full((), atol))


def largest_of(values: Tensor) -> Tensor:
    return values.amax(-1) if values._shape[-1] else values.sum(-1)
