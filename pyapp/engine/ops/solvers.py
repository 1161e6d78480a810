"""Linear algebra by parts: what solves with a factor that is there already, LU, reflectors, whole bases, tensors."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from .. import dtype as _dtype
from ..lazy import np
from ..op import describe, primitive
from ..shape import broadcast_shapes, normalize_dim
from ..tensor import Tensor
from .base import tensor_of
from .create import eye
from .linalg import _lapack, _square, cholesky, inverse, solve, solve_triangular
from .rearrange import diagonal
from .view import cat, expand, reshape


def cholesky_solve(x: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """The solution of A y = x, (..., N, K), from the Cholesky factor L (..., N, N) of A: L Lᵀ, or Lᵀ L if `upper`."""
    _square("cholesky_solve", L)
    if x.ndim < 2 or x.shape[-2] != L.shape[-1]:
        raise ValueError(f"cholesky_solve: {describe(x)} does not fit the factor {describe(L)}")
    lower = L.mT if upper else L
    return solve_triangular(lower.mT, solve_triangular(lower, x, upper=False), upper=True)


def cholesky_inverse(x: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A from its Cholesky factor x (..., N, N)."""
    _square("cholesky_inverse", x)
    one = expand(eye(x.shape[-1], dtype=x.dtype), x.shape)
    return cholesky_solve(one, x, upper)


class WithInfo(NamedTuple):
    """A result, and int32 (...): 0 where it is one."""

    L: Tensor
    info: Tensor


class InverseInfo(NamedTuple):
    inverse: Tensor
    info: Tensor


class SolutionInfo(NamedTuple):
    result: Tensor
    info: Tensor


def _checked(function: Any, shape: tuple[int, ...], check_errors: bool, *args: Any) -> tuple[Tensor, Tensor]:
    """The result of a factorisation, and where it failed: 1; there it is NaN."""
    try:
        return function(*args), args[0].new_zeros(shape, dtype=_dtype.int32)
    except RuntimeError as error:
        if check_errors or isinstance(error, (TypeError, ValueError)):
            raise
    parts, infos = [], []
    if not shape:
        other = args[-1]
        return other.new_full(other.shape, float("nan")), args[0].new_full((), 1, dtype=_dtype.int32)
    for row in zip(*(a.unbind(0) for a in args), strict=True):
        part, info = _checked(function, shape[1:], False, *row)
        parts.append(part.unsqueeze(0))
        infos.append(info.unsqueeze(0))
    return cat(parts), cat(infos)


def cholesky_ex(x: Tensor, *, upper: bool = False, check_errors: bool = False) -> WithInfo:
    """(cholesky, info): where a matrix has none, info is not 0 and the factor NaN, unless `check_errors` raises."""
    _square("cholesky_ex", x)
    return WithInfo(*_checked(lambda a: cholesky(a).mT if upper else cholesky(a), x.shape[:-2], check_errors, x))


def inv_ex(x: Tensor, *, check_errors: bool = False) -> InverseInfo:
    """(inverse, info): where a matrix has none, info is not 0 and the inverse NaN, unless `check_errors` raises."""
    _square("inv_ex", x)
    return InverseInfo(*_checked(inverse, x.shape[:-2], check_errors, x))


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> SolutionInfo:
    """(solution, info) of A x = B, or x A = B unless `left`."""
    _square("solve_ex", A)
    if not left:
        found, info = solve_ex(A.mT, B.mT, check_errors=check_errors)
        return SolutionInfo(found.mT, info)
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and B.shape == A.shape[:-1])
    other = B.unsqueeze(-1) if vector else B
    lead = broadcast_shapes(A.shape[:-2], other.shape[:-2], op="solve_ex")
    A, other = expand(A, (*lead, *A.shape[-2:])), expand(other, (*lead, *other.shape[-2:]))
    found, info = _checked(solve, lead, check_errors, A, other)
    return SolutionInfo(found.squeeze(-1) if vector else found, info)


# -- LU


def _pivots(a: Any) -> tuple[Any, Any]:
    """(L below and U above the diagonal, rows that were exchanged, from 0) of (B, M, N) by Gauss's elimination with the
    largest of each column as pivot."""
    a = a.copy()
    batch, m, n = a.shape
    every, exchanged = np.arange(batch), np.zeros((batch, min(m, n)), np.int64)
    for k in range(min(m, n)):
        best = k + np.abs(a[:, k:, k]).argmax(-1)
        exchanged[:, k] = best
        a[every, k], a[every, best] = a[every, best].copy(), a[every, k].copy()
        pivot = a[:, k, k][:, None]
        a[:, k + 1 :, k] = np.where(pivot == 0, a[:, k + 1 :, k], a[:, k + 1 :, k] / np.where(pivot == 0, 1, pivot))
        a[:, k + 1 :, k + 1 :] -= a[:, k + 1 :, k, None] * a[:, k, None, k + 1 :]
    return a, exchanged


def _order(exchanged: Any, m: int) -> Any:
    """Which row of A stands in each row of L U, (B, M), from the exchanges."""
    order = np.tile(np.arange(m, dtype=np.int64), (len(exchanged), 1))
    every = np.arange(len(exchanged))
    for k in range(exchanged.shape[1]):
        best = exchanged[:, k]
        order[every, k], order[every, best] = order[every, best].copy(), order[every, k].copy()
    return order


def _d_lu_square(g: Tensor, y: Tensor, x: Tensor) -> Any:
    """Walter and Lehmann 2018, "Algorithmic differentiation of linear algebra functions": of L and U in one matrix."""
    one = eye(x.shape[-1], dtype=x.dtype)
    lower, upper = y.tril(-1) + one, y.triu()
    inner = (lower.mT @ g.tril(-1)).tril(-1) + (g.triu() @ upper.mT).triu()
    left = solve_triangular(lower.mT, inner, upper=True, unitriangular=True)
    return (solve_triangular(upper.mT, left, upper=False, left=False),)


@primitive(vjp=_d_lu_square, saves="both", name="_lu_square", method=False)
def _lu_square(x: Tensor) -> Tensor:
    """L below the diagonal, U on and above it, of (..., N, N) whose rows are in the order of the pivots."""

    def compute(a: Any) -> Any:
        a = a.copy()
        for k in range(a.shape[-1]):
            pivot = a[..., k, k][..., None]
            a[..., k + 1 :, k] = np.where(pivot == 0, 0, a[..., k + 1 :, k] / np.where(pivot == 0, 1, pivot))
            a[..., k + 1 :, k + 1 :] -= a[..., k + 1 :, k, None] * a[..., k, None, k + 1 :]
        return a

    return tensor_of(*_lapack("lu", compute, x))


def _permuted_factors(x: Tensor, order: Any) -> Tensor:
    """L and U in one matrix (..., M, N), differentiable: of the square at the top left, and what follows from it."""
    m, n = x.shape[-2:]
    k = min(m, n)
    index = tensor_of(order.reshape(*x.shape[:-2], m, 1), _dtype.int64)
    rows = x.gather(-2, expand(index, x.shape))
    packed = _lu_square(rows[..., :k, :k])
    if m == n:
        return packed
    if n > m:
        rest = solve_triangular(packed, rows[..., :, k:], upper=False, unitriangular=True)
        return cat([packed, rest], -1)
    return cat([packed, solve_triangular(packed, rows[..., k:, :], upper=True, left=False)], -2)


def _factorised(name: str, x: Tensor) -> tuple[Tensor, Any, Any]:
    """(L and U in one matrix, exchanges, order of rows)."""
    if x.ndim < 2:
        raise ValueError(f"{name}: takes matrices (..., M, N), got {describe(x)}")
    m, n = x.shape[-2:]
    (_, exchanged), _ = _two(name, x.detach().reshape(prod(x.shape[:-2]), m, n))
    order = _order(exchanged, m)
    return _permuted_factors(x, order), exchanged.reshape(*x.shape[:-2], min(m, n)), order


def _two(name: str, x: Tensor) -> Any:
    """_lapack of what returns two arrays."""
    kept: list[Any] = []

    def compute(a: Any) -> Any:
        kept[:] = _pivots(a)
        return kept[0]

    _, kind = _lapack(name, compute, x)
    return kept, kind


class LU(NamedTuple):
    """x = P L U."""

    P: Tensor
    L: Tensor
    U: Tensor


class LUFactor(NamedTuple):
    """L and U in one matrix, and the exchanges of rows (int32, from 1), as LAPACK has them."""

    LU: Tensor
    pivots: Tensor


def lu_factor(x: Tensor, *, pivot: bool = True) -> LUFactor:
    """(LU (..., M, N), pivots (..., K) int32) for lu_solve and lu_unpack."""
    if not pivot:
        raise NotImplementedError("lu_factor: only with pivots")
    packed, exchanged, _ = _factorised("lu_factor", x)
    return LUFactor(packed, tensor_of(exchanged + 1, _dtype.int32))


def _unpacked(packed: Tensor, order: Any) -> LU:
    m, n = packed.shape[-2:]
    k = min(m, n)
    one = eye(m, k, dtype=packed.dtype)
    places = np.zeros((len(order), m, m), bool)
    np.put_along_axis(places, order[:, None, :], True, 1)
    matrix = tensor_of(places.reshape(*packed.shape[:-2], m, m)).to(packed.dtype)
    return LU(matrix, packed[..., :, :k].tril(-1) + one, packed[..., :k, :].triu())


def lu(x: Tensor, *, pivot: bool = True) -> LU:
    """x = P L U: a permutation (..., M, M), L (..., M, K) with ones on its diagonal, U (..., K, N)."""
    if not pivot:
        raise NotImplementedError("lu: only with pivots")
    packed, _, order = _factorised("lu", x)
    return _unpacked(packed, order)


def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> LU:
    """(P, L, U) of what lu_factor gave; empty tensors for what is not wanted."""
    m, n = LU_data.shape[-2:]
    if LU_pivots.shape != (*LU_data.shape[:-2], min(m, n)):
        raise ValueError(f"lu_unpack: pivots {describe(LU_pivots)} do not fit {describe(LU_data)}")
    found = _unpacked(LU_data, _order(_exchanges(LU_pivots), m))
    nothing = LU_data.new_zeros(0)
    return LU(found.P if unpack_pivots else nothing, *(found[1:] if unpack_data else (nothing, nothing)))


def _exchanges(pivots: Tensor) -> Any:
    found = pivots.array().reshape(prod(pivots.shape[:-1]), pivots.shape[-1]).astype("int64") - 1
    if found.size and found.min() < 0:
        raise ValueError(f"pivots count from 1, got {describe(pivots)} from {found.min() + 1}")
    return found


def linalg_lu_solve(LU: Tensor, pivots: Tensor, B: Tensor, *, left: bool = True, adjoint: bool = False) -> Tensor:
    """The solution of A x = B from lu_factor(A), or x A = B unless `left`; of Aᵀ if `adjoint`. B (..., N, K)."""
    _square("lu_solve", LU)
    if not left:
        return linalg_lu_solve(LU, pivots, B.mT, adjoint=not adjoint).mT
    n = LU.shape[-1]
    if B.ndim < 2 or B.shape[-2] != n or pivots.shape != LU.shape[:-1]:
        raise ValueError(f"lu_solve: {describe(LU)}, pivots {describe(pivots)} and {describe(B)} do not fit")
    lead = broadcast_shapes(LU.shape[:-2], B.shape[:-2], op="lu_solve")
    P, L, U = lu_unpack(LU, pivots)
    B = expand(B, (*lead, *B.shape[-2:]))
    if adjoint:
        inner = solve_triangular(U.mT, B, upper=False)
        return P @ solve_triangular(L.mT, inner, upper=True, unitriangular=True)
    return solve_triangular(U, solve_triangular(L, P.mT @ B, upper=False, unitriangular=True), upper=True)


# -- reflectors


def _reflectors(name: str, x: Tensor, tau: Tensor) -> list[Tensor]:
    """The vectors (..., M, 1) below the diagonal of x, 1 on it."""
    m, n = x.shape[-2:] if x.ndim > 1 else (0, 0)
    if x.ndim < 2 or m < n or tau.shape[:-1] != x.shape[:-2] or tau.ndim != x.ndim - 1 or tau.shape[-1] > n:
        raise ValueError(f"{name}: {describe(x)} (..., M, N) with M >= N and {describe(tau)} (..., K) do not fit")
    whole = x.tril(-1) + eye(m, n, dtype=x.dtype)
    return [whole[..., i : i + 1] for i in range(tau.shape[-1])]


def _reflected(y: Tensor, vectors: list[Tensor], tau: Tensor, forward: bool) -> Tensor:
    """(1 - tau v vᵀ) of each reflector times y (..., M, K), the first one first or last."""
    for i in range(len(vectors)) if forward else reversed(range(len(vectors))):
        v = vectors[i]
        y = y - tau[..., i : i + 1].unsqueeze(-1) * (v @ (v.mT @ y))
    return y


def householder_product(x: Tensor, tau: Tensor) -> Tensor:
    """The first N columns of the product of reflectors, as geqrf leaves them: x (..., M, N), tau (..., K)."""
    vectors = _reflectors("householder_product", x, tau)
    return _reflected(expand(eye(x.shape[-2], x.shape[-1], dtype=x.dtype), x.shape), vectors, tau, False)


def ormqr(x: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False) -> Tensor:
    """Q other, Qᵀ other, or with `left` False other Q, other Qᵀ, for the whole Q of the reflectors of geqrf."""
    vectors = _reflectors("ormqr", x, tau)
    if left:
        return _reflected(other, vectors, tau, transpose)
    return _reflected(other.mT, vectors, tau, not transpose).mT


class Geqrf(NamedTuple):
    """R on and above the diagonal, reflectors below it; and their factors."""

    a: Tensor
    tau: Tensor


def geqrf(x: Tensor) -> Geqrf:
    """QR as LAPACK leaves it, for householder_product and ormqr; without a gradient. x (..., M, N)."""
    if x.ndim < 2:
        raise ValueError(f"geqrf: takes matrices (..., M, N), got {describe(x)}")
    rows, k = x.shape[-2], min(x.shape[-2:])

    def compute(a: Any) -> Any:
        flat = a.reshape(prod(a.shape[:-2]), *a.shape[-2:])
        found = [np.linalg.qr(part, "raw") for part in flat]
        packed = [np.concatenate([h.T, np.resize(np.append(t, 0), (1, h.shape[0]))]) for h, t in found]
        return np.stack(packed).reshape(*a.shape[:-2], rows + 1, a.shape[-1]) if packed else a

    packed = tensor_of(*_lapack("geqrf", compute, x.detach()))
    return Geqrf(packed[..., :rows, :].contiguous(), packed[..., rows, :k].contiguous())


# -- tensors


def tensorinv(x: Tensor, ind: int = 2) -> Tensor:
    """The inverse of x as a map from its dims after `ind` to those before, as torch.linalg.tensorinv."""
    if ind < 1 or prod(x.shape[:ind]) != prod(x.shape[ind:]):
        raise ValueError(f"tensorinv: {describe(x)} has not as many elements before dim {ind} as behind it")
    size = prod(x.shape[:ind])
    return reshape(inverse(reshape(x, (size, size))), (*x.shape[ind:], *x.shape[:ind]))


def tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Tensor:
    """x with tensordot(A, x, x.ndim) = B; `dims` of A are moved to its end first."""
    if dims is not None:
        moved = [normalize_dim(d, A.ndim, "tensorsolve") for d in dims]
        A = A.permute(*(d for d in range(A.ndim) if d not in moved), *moved)
    shape = A.shape[B.ndim :]
    if prod(shape) != B.numel() or prod(A.shape[: B.ndim]) != B.numel():
        raise ValueError(f"tensorsolve: {describe(A)} and {describe(B)} do not fit")
    return reshape(solve(reshape(A, (B.numel(), B.numel())), reshape(B, -1)), shape)


def vecdot(x: Tensor, y: Tensor, *, dim: int = -1) -> Tensor:
    """Σ x y along a dim; broadcast."""
    return (x * y).sum(dim)


def linalg_diagonal(A: Tensor, *, offset: int = 0, dim1: int = -2, dim2: int = -1) -> Tensor:
    """diagonal of the last two dims."""
    return diagonal(A, offset, dim1, dim2)


def linalg_vander(x: Tensor, *, N: int | None = None) -> Tensor:
    """Powers 0 .. N - 1 of x (..., K) → (..., K, N); N is K unless given."""
    count = x.shape[-1] if N is None else N
    if not x.ndim or count < 2:
        raise ValueError(f"vander: takes vectors and N > 1, got {describe(x)} and {count}")
    powers = expand(x.unsqueeze(-1), (*x.shape, count - 1)).cumprod(-1)
    return cat([x.new_ones((*x.shape, 1)), powers], -1)


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
    gradient."""

    def compute(a: Any) -> Any:
        values, vectors = np.linalg.eig(a)
        return np.concatenate([values[..., None, :], vectors], -2)

    packed = _pairs("eig", compute, x)
    return Eig(packed[..., 0, :, :], packed[..., 1:, :, :])


orgqr = householder_product


def lu_solve(b: Tensor, LU_data: Tensor, LU_pivots: Tensor) -> Tensor:
    """torch.lu_solve: linalg's with the right side first."""
    return linalg_lu_solve(LU_data, LU_pivots, b)


METHODS = {
    "cholesky_solve": cholesky_solve, "cholesky_inverse": cholesky_inverse, "geqrf": geqrf, "orgqr": orgqr,
    "ormqr": ormqr, "lu_solve": lu_solve,
}  # fmt: skip
for _name, _function in METHODS.items():
    setattr(Tensor, _name, _function)
