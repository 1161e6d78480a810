"""Factorisations: Cholesky, QR, LU, Householder reflectors; solutions with factors."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from ... import dtype as _dtype
from ...autocast import full_precision
from ...declare import function
from ...device import cpu
from ...element_types import CODES
from ...launch import KERNELS, capturing
from ...lazy import np
from ...native import IN_BROWSER
from ...numpy_arrays import tensor_of
from ...op import primitive, read_nothing
from ...return_types import printed_as
from ...shape import broadcast_shapes
from ...tensor import Tensor, empty_contiguous
from ...user_errors import describe
from ..create import eye
from ..diagonals import diag_embed
from ..stacking import cat
from ..view import expand
from .lapack import _checked, _lapack, _square, result_of
from .solve import solve_triangular
from .svd import _further_columns


def _d_cholesky(g: Tensor, y: Tensor, x: Tensor) -> Any:
    """Murray 2016, arXiv 1602.07527."""
    inner = (y.mH @ g).tril()
    inner = inner + inner.tril(-1).mH
    half = solve_triangular(y.mH, inner.mH, upper=True).mH
    return (solve_triangular(y.mH, half, upper=True) * 0.5,)  # L⁻ᴴ inner L⁻¹ / 2


@function(method=True)
@primitive(vjp=_d_cholesky, saves="output", autocast=full_precision)
def cholesky(x: Tensor) -> Tensor:
    """The lower triangle L of x = L Lᴴ for Hermitian, positive-definite x (..., N, N), else RuntimeError."""
    _square("cholesky", x)
    return result_of("cholesky", lambda a: np.linalg.cholesky(a), x)


cholesky.takes_complex = True
cholesky.by_name = lambda x, upper=False: cholesky(x).mH if upper else cholesky(x)


def _d_qr(g: Tensor, y: Tensor, x: Tensor) -> Any:
    """Walter and Lehmann 2018, "Algorithmic differentiation of linear algebra functions", for M >= N."""
    m, n = x._shape[-2:]
    q, r = y[..., :m, :], y[..., m:, :]
    g = g.contiguous()
    gq, gr = g[..., :m, :], g[..., m:, :].triu()
    whole = r @ gr.mH - gq.mH @ q
    lower = whole.tril(-1)
    diagonals = whole.tril() - lower
    hermitian = lower + lower.mH + (diagonals.real.to(x.dtype) if x.dtype.is_complex else diagonals)
    return (solve_triangular(r, (gq + q @ hermitian).mH, upper=True).mH,)


@primitive(vjp=_d_qr, saves="both", name="_qr")
def _qr(x: Tensor) -> Tensor:
    """Q (..., M, N) over R (..., N, N), for M >= N."""

    def compute(a: Any) -> Any:
        q, r = np.linalg.qr(a)
        return np.concatenate([q, r], -2)

    return result_of("qr", compute, x)


_qr.takes_complex = True
_qr.reads = read_nothing


@printed_as("linalg_qr")
class QR(NamedTuple):
    Q: Tensor
    R: Tensor


MODES = ("reduced", "complete", "r")


def linalg_qr(x: Tensor, mode: str = "reduced") -> QR:
    """x = Q R: orthonormal columns in Q, R upper triangular. x (..., M, N) → Q (..., M, K), R (..., K, N) with K the
    smaller of M and N; mode "complete": K is M, and the additional columns of Q have no gradient; "r": Q is empty.
    """
    if x.ndim < 2 or mode not in MODES:
        raise ValueError(f"qr: takes matrices (..., M, N) and mode {', '.join(MODES)}, got {describe(x)}, {mode!r}")
    m, n = x._shape[-2:]
    packed = _qr(x if m >= n else x[..., :m])
    q, r = packed[..., :m, :], packed[..., m:, :]
    if m < n:
        r = cat([r, q.mH @ x[..., m:]], -1)  # the further columns follow from Q
    if mode == "r":
        return QR(x.new_zeros(0), r)
    if mode == "complete" and m > n:
        return QR(cat([q, _further_columns(x)], -1), cat([r, r.new_zeros((*r.shape[:-2], m - n, n))], -2))
    return QR(q, r)


@function(method=True)
def qr(x: Tensor, some: bool | str = True) -> QR:
    """torch.qr: linalg.qr's mode "reduced", or "complete" unless `some`."""
    return linalg_qr(x, some if isinstance(some, str) else "reduced" if some else "complete")


@printed_as("linalg_cholesky_ex")
class WithInfo(NamedTuple):
    """A result, and int32 (...): 0 for success."""

    L: Tensor
    info: Tensor


def cholesky_ex(x: Tensor, *, upper: bool = False, check_errors: bool = False) -> WithInfo:
    """(cholesky, info): for a matrix without a factor the factor is NaN, and info the order of its first leading minor
    that is not positive-definite, unless `check_errors` raises.
    """
    _square("cholesky_ex", x)

    def factor(a: Tensor) -> Tensor:
        return cholesky(a).mH if upper else cholesky(a)

    return WithInfo(*_checked(factor, x._shape[:-2], check_errors, x, info=_failing_minor))


def _failing_minor(x: Tensor) -> int:
    """The order of the first leading minor of x (N, N) without a factor, where x has none. Minors of larger orders have
    none either, so it is found by halving.
    """
    x = x.detach()
    good, bad = 0, x._shape[-1]
    while bad - good > 1:
        order = (good + bad) // 2
        try:
            cholesky(x[:order, :order])
            good = order
        except RuntimeError:
            bad = order
    return bad


_PANEL = 32  # columns, after which the rest of the matrices changes by a product
_TOGETHER = 1 << 18  # elements of the matrices that are taken together, so that they lie in a processor's cache


def _eliminate(matrices: Any, exchanged: Any = None) -> None:
    """Gaussian elimination of (B, M, N) where they lie, a panel of columns after the other, as LAPACK's getrf. Rows are
    exchanged, and written to `exchanged` (B, min(M, N)), where that is given."""
    batch, m, n = matrices.shape
    together = max(1, _TOGETHER // max(m * n, 1))
    for first in range(0, batch, together):
        some = slice(first, first + together) if batch - first > 1 < together else first  # a single one without its dim
        a, exchanges = matrices[some], None if exchanged is None else exchanged[some]
        for start in range(0, min(m, n), _PANEL):
            end = min(start + _PANEL, m, n)
            _eliminate_panel(a, start, end, exchanges)
            if end < n:
                for k in range(start, end - 1):
                    a[..., k + 1 : end, end:] -= a[..., k + 1 : end, k, None] * a[..., k, None, end:]
                a[..., end:, end:] -= a[..., end:, start:end] @ a[..., start:end, end:]


def _eliminate_panel(a: Any, start: int, end: int, exchanged: Any) -> None:
    """The columns from `start` to `end` of a matrix, or of several."""
    every = np.arange(len(a))
    for k in range(start, end):
        if exchanged is not None:
            column = a[..., k:, k]
            # LAPACK's size of a complex number
            size = np.abs(column) if column.dtype.kind == "f" else np.abs(column.real) + np.abs(column.imag)
            exchanged[..., k] = best = k + size.argmax(-1)
            if a.ndim > 2:
                a[every, k], a[every, best] = a[every, best], a[every, k]
            elif best != k:
                a[[k, best]] = a[[best, k]]
        pivot, below = a[..., k, k, None], a[..., k + 1 :, k]
        if pivot.all():
            below /= pivot
        else:
            below[...] = np.where(pivot == 0, 0, below / np.where(pivot == 0, 1, pivot))
        a[..., k + 1 :, k + 1 : end] -= below[..., None] * a[..., k, None, k + 1 : end]


def _pivots(a: Any) -> tuple[Any, Any, Any]:
    """(L below and U above the diagonal, exchanged rows, from 0, the row of A in each row of L U) of (B, M, N) by
    Gaussian elimination with the largest element of each column as pivot.
    """
    batch, m, n = a.shape
    if a.dtype.kind == "f" and not IN_BROWSER:
        x = tensor_of(a, _dtype.float64 if a.itemsize == 8 else _dtype.float32).contiguous()
        y = empty_contiguous(a.shape, x.dtype, x.device)
        exchanges = empty_contiguous((batch, min(m, n)), _dtype.int32, x.device)
        order = empty_contiguous((batch, m), _dtype.int32, x.device)
        KERNELS["lu_factor"].launch(
            batch * m * n * min(m, n) >> 12, y, x, exchanges, order, CODES[x.dtype], batch, m, n, 0, n
        )
        return y.array(), exchanges.array().astype("int64"), order.array().astype("int64")
    a = a.copy()
    exchanged = np.zeros((batch, min(m, n)), np.int64)
    _eliminate(a, exchanged)
    return a, exchanged, _order(exchanged, m)


def _order(exchanged: Any, m: int) -> Any:
    """The row of A in each row of L U, (B, M), from the exchanges."""
    order = np.tile(np.arange(m, dtype=np.int64), (len(exchanged), 1))
    every = np.arange(len(exchanged))
    for k in range(exchanged.shape[1]):
        best = exchanged[:, k]
        order[every, k], order[every, best] = order[every, best].copy(), order[every, k].copy()
    return order


def _d_lu_square(g: Tensor, y: Tensor, x: Tensor) -> Any:
    """Walter and Lehmann 2018, "Algorithmic differentiation of linear algebra functions": of L and U in one matrix."""
    one = eye(x._shape[-1], dtype=x.dtype, device=x.device)
    lower, upper = y.tril(-1) + one, y.triu()
    inner = (lower.mT @ g.tril(-1)).tril(-1) + (g.triu() @ upper.mT).triu()
    left = solve_triangular(lower.mT, inner, upper=True, unitriangular=True)
    return (solve_triangular(upper.mT, left, upper=False, left=False),)


@primitive(vjp=_d_lu_square, saves="both", name="_lu_square")
def _lu_square(x: Tensor) -> Tensor:
    """L below the diagonal, U on and above it, of (..., N, N) whose rows are in the order of the pivots."""

    def compute(a: Any) -> Any:
        a = a.copy()
        _eliminate(a.reshape(prod(a.shape[:-2]), *a.shape[-2:]))
        return a

    return result_of("lu", compute, x)


def _permuted_factors(x: Tensor, order: Any) -> Tensor:
    """L and U in one matrix (..., M, N), differentiable: of the square at the top left, and the rest
    computed from it.
    """
    m, n = x._shape[-2:]
    k = min(m, n)
    index = tensor_of(order.reshape(*x._shape[:-2], m, 1), _dtype.int64).to(x.device)
    rows = x.gather(-2, expand(index, x._shape))
    packed = _lu_square(rows[..., :k, :k])
    if m == n:
        return packed
    if n > m:
        rest = solve_triangular(packed, rows[..., :, k:], upper=False, unitriangular=True)
        return cat([packed, rest], -1)
    zeros = packed.detach().diagonal(dim1=-2, dim2=-1) == 0  # (..., K), below which there is nothing but zeros
    upper = packed + diag_embed(zeros.to(packed.dtype)) if bool(zeros.any()) else packed
    return cat([packed, solve_triangular(upper, rows[..., k:, :], upper=True, left=False)], -2)


def _factorised(name: str, x: Tensor) -> tuple[Tensor, Any, Any]:
    """(L and U in one matrix, exchanges, order of rows)."""
    if x.ndim < 2:
        raise ValueError(f"{name}: takes matrices (..., M, N), got {describe(x)}")
    m, n = x._shape[-2:]
    if x.device is cpu and not x.requires_grad and type(x) is Tensor and not capturing():  # in one pass
        kept: list[Any] = []

        def compute(a: Any) -> Any:
            kept[:] = _pivots(a)
            return kept[0]

        packed, kind = _lapack(name, compute, x.reshape(prod(x._shape[:-2]), m, n))
        factors = tensor_of(packed.reshape(x._shape), kind)
        return factors, kept[1].reshape(*x._shape[:-2], min(m, n)), kept[2]
    exchanged = _exchanges_of_lu(x.detach().reshape(prod(x._shape[:-2]), m, n), name).cpu().array()
    order = _order(exchanged, m)
    return _permuted_factors(x, order), exchanged.reshape(*x._shape[:-2], min(m, n)), order


@primitive(vjp=None, name="_exchanges_of_lu")
def _exchanges_of_lu(x: Tensor, name: str) -> Tensor:
    """The row that each one is exchanged with, from 0, int32 (B, K), of (B, M, N); `name`: the op, for errors."""
    kept: list[Any] = []

    def compute(a: Any) -> Any:
        kept[:] = _pivots(a)
        return kept[0]

    _lapack(name, compute, x)
    return tensor_of(kept[1], _dtype.int32)


@printed_as("linalg_lu")
class LU(NamedTuple):
    """x = P L U."""

    P: Tensor
    L: Tensor
    U: Tensor


@printed_as("linalg_lu_factor")
class LUFactor(NamedTuple):
    """L and U in one matrix, and the exchanges of rows (int32, from 1), as in LAPACK."""

    LU: Tensor
    pivots: Tensor


def lu_factor(x: Tensor, *, pivot: bool = True) -> LUFactor:
    """(LU (..., M, N), pivots (..., K) int32) for lu_solve and lu_unpack."""
    if not pivot:
        raise NotImplementedError("lu_factor: rows are always exchanged, for accuracy; leave pivot out")
    packed, exchanged, _ = _factorised("lu_factor", x)
    return LUFactor(packed, tensor_of(exchanged + 1, _dtype.int32).to(x.device))


@printed_as("linalg_lu_factor_ex")
class LUFactorEx(NamedTuple):
    """LUFactor, and int32 (...): 0, or the first pivot, from 1, that is 0."""

    LU: Tensor
    pivots: Tensor
    info: Tensor


def lu_factor_ex(x: Tensor, *, pivot: bool = True, check_errors: bool = False) -> LUFactorEx:
    """lu_factor with what would keep lu_solve from solving; RuntimeError for that with `check_errors`."""
    packed, pivots = lu_factor(x, pivot=pivot)
    zero = packed.detach().diagonal(dim1=-2, dim2=-1) == 0  # (..., K)
    first = zero.to(_dtype.int32).argmax(-1) if zero._shape[-1] else zero.sum(-1)
    info = ((first + 1) * zero.any(-1)).to(_dtype.int32)
    if check_errors and bool(info.any()):
        raise RuntimeError(f"lu_factor_ex: a pivot of {describe(x)} is 0: the matrix has no inverse")
    return LUFactorEx(packed, pivots, info)


@function("lu", method=True)
def _packed_lu(A: Tensor, pivot: bool = True, get_infos: bool = False) -> LUFactor | LUFactorEx:
    """torch.lu: linalg.lu_factor, or with `get_infos` linalg.lu_factor_ex."""
    return lu_factor_ex(A, pivot=pivot) if get_infos else lu_factor(A, pivot=pivot)


def _unpacked(packed: Tensor, order: Any) -> LU:
    m, n = packed._shape[-2:]
    k = min(m, n)
    one = eye(m, k, dtype=packed.dtype, device=packed.device)
    places = np.zeros((len(order), m, m), bool)
    np.put_along_axis(places, order[:, None, :], True, 1)
    matrix = tensor_of(places.reshape(*packed._shape[:-2], m, m)).to(packed.device).to(packed.dtype)
    return LU(matrix, packed[..., :, :k].tril(-1) + one, packed[..., :k, :].triu())


def lu(x: Tensor, *, pivot: bool = True) -> LU:
    """x = P L U: a permutation (..., M, M), L (..., M, K) with ones on its diagonal, U (..., K, N)."""
    if not pivot:
        raise NotImplementedError("lu: rows are always exchanged, for accuracy; leave pivot out")
    packed, _, order = _factorised("lu", x)
    return _unpacked(packed, order)


@function()
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> LU:
    """(P, L, U) of the result of lu_factor; empty tensors for parts that are not requested."""
    m, n = LU_data._shape[-2:]
    if LU_pivots._shape != (*LU_data._shape[:-2], min(m, n)):
        raise ValueError(f"lu_unpack: pivots {describe(LU_pivots)} do not fit {describe(LU_data)}")
    found = _unpacked(LU_data, _order(_exchanges(LU_pivots), m))
    nothing = LU_data.new_zeros(0)
    return LU(found.P if unpack_pivots else nothing, *(found[1:] if unpack_data else (nothing, nothing)))


def _exchanges(pivots: Tensor) -> Any:
    found = pivots.cpu().array().reshape(prod(pivots._shape[:-1]), pivots._shape[-1]).astype("int64") - 1
    if found.size and found.min() < 0:
        raise ValueError(f"pivots count from 1, got {describe(pivots)} from {found.min() + 1}")
    return found


def linalg_lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """The solution of A x = B from lu_factor(A), or x A = B unless `left`; of Aᴴ if `adjoint`. B (..., N, K)."""
    _square("lu_solve", LU)
    if not left:
        return linalg_lu_solve(LU, pivots, B.mH, adjoint=not adjoint).mH
    n = LU._shape[-1]
    if B.ndim < 2 or B._shape[-2] != n or pivots._shape != LU._shape[:-1]:
        raise ValueError(f"lu_solve: {describe(LU)}, pivots {describe(pivots)} and {describe(B)} do not fit")
    lead = broadcast_shapes(LU._shape[:-2], B._shape[:-2], op="lu_solve")
    P, L, U = lu_unpack(LU, pivots)
    B = expand(B, (*lead, *B._shape[-2:]))
    if adjoint:
        inner = solve_triangular(U.mH, B, upper=False)
        return P @ solve_triangular(L.mH, inner, upper=True, unitriangular=True)
    return solve_triangular(U, solve_triangular(L, P.mT @ B, upper=False, unitriangular=True), upper=True)


def _reflectors(name: str, x: Tensor, tau: Tensor, any_width: bool = False) -> list[Tensor]:
    """The vectors (..., M, 1) below the diagonal of x, 1 on it; `any_width`: x may have more columns than rows."""
    m, n = x._shape[-2:] if x.ndim > 1 else (0, 0)
    if any_width and n > m:
        x, n = x[..., :m], m
    if x.ndim < 2 or m < n or tau._shape[:-1] != x._shape[:-2] or tau.ndim != x.ndim - 1 or tau._shape[-1] > n:
        raise ValueError(f"{name}: {describe(x)} (..., M, N) with M >= N and {describe(tau)} (..., K) do not fit")
    whole = x.tril(-1) + eye(m, n, dtype=x.dtype, device=x.device)
    return [whole[..., i : i + 1] for i in range(tau._shape[-1])]


def _reflected(y: Tensor, vectors: list[Tensor], tau: Tensor, forward: bool) -> Tensor:
    """(1 - tau v vᴴ) of each reflector times y (..., M, K), the first one first or last."""
    for i in range(len(vectors)) if forward else reversed(range(len(vectors))):
        v = vectors[i]
        y = y - tau[..., i : i + 1].unsqueeze(-1) * (v @ (v.mH @ y))
    return y


def householder_product(x: Tensor, tau: Tensor) -> Tensor:
    """The first N columns of the product of reflectors, as geqrf leaves them: x (..., M, N), tau (..., K)."""
    vectors = _reflectors("householder_product", x, tau)
    first = eye(x._shape[-2], x._shape[-1], dtype=x.dtype, device=x.device)
    return _reflected(expand(first, x._shape), vectors, tau, False)


@function(method=True)
def ormqr(x: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Q other, Qᴴ other, or with `left` False other Q, other Qᴴ, for the whole Q of the reflectors of geqrf."""
    vectors = _reflectors("ormqr", x, tau, any_width=True)
    if left:
        return _reflected(other, vectors, tau.conj() if transpose else tau, transpose)
    return _reflected(other.mH, vectors, tau if transpose else tau.conj(), not transpose).mH


@printed_as("geqrf")
class Geqrf(NamedTuple):
    """R on and above the diagonal, reflectors below it; and the factors of the reflectors."""

    a: Tensor
    tau: Tensor


@function(method=True)
def geqrf(x: Tensor) -> Geqrf:
    """QR in LAPACK's form, for householder_product and ormqr; without a gradient. x (..., M, N)."""
    if x.ndim < 2:
        raise ValueError(f"geqrf: takes matrices (..., M, N), got {describe(x)}")
    rows, k = x._shape[-2], min(x._shape[-2:])

    def compute(a: Any) -> Any:
        flat = a.reshape(prod(a.shape[:-2]), *a.shape[-2:])
        found = [np.linalg.qr(part, "raw") for part in flat]
        packed = [np.concatenate([h.T, np.resize(np.append(t, 0), (1, h.shape[0]))]) for h, t in found]
        shape = (*a.shape[:-2], rows + 1, a.shape[-1])
        return np.stack(packed).reshape(shape) if packed else np.zeros(shape, a.dtype)

    packed = result_of("geqrf", compute, x.detach())
    return Geqrf(packed[..., :rows, :].contiguous(), packed[..., rows, :k].contiguous())


orgqr = function("orgqr", method=True)(householder_product)


@function(method=True)
def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """torch.lu_solve: linalg.lu_solve with the right side first."""
    return linalg_lu_solve(LU_data, LU_pivots, b)
