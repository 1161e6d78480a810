"""Inverses, linear systems, least squares, pseudo-inverses."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from ...autocast import full_precision
from ...autograd import STATE
from ...declare import function
from ...device import cpu
from ...launch import capturing
from ...lazy import np
from ...numpy_arrays import array_of, tensor_of
from ...op import op, primitive
from ...operands import same_device
from ...return_types import printed_as
from ...shape import broadcast_shapes, normalize_dim
from ...tensor import Tensor
from ...user_errors import describe
from ..create import eye
from ..elementwise.select import where
from ..view import expand, reshape
from .lapack import _checked, _square, result_of
from .products import _sum_to
from .svd import largest_of, rank_limit, svd


@function(method=True)
@primitive(vjp=lambda g, y, x: (-(y.mT @ g @ y.mT),), saves="output", autocast=full_precision)
def inverse(x: Tensor) -> Tensor:
    """The inverse of (..., N, N). RuntimeError if it is singular."""
    _square("inverse", x)
    return result_of("inverse", lambda a: np.linalg.inv(a), x)


def _d_solve(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Any:
    grad_b = solve(a.mT, g)
    grad_a = -(grad_b @ y.mT)
    return _sum_to(grad_a, a._shape), _sum_to(grad_b, b._shape)


@primitive(vjp=_d_solve, saves="both", name="_solve")
def _solve(a: Tensor, b: Tensor) -> Tensor:
    return result_of("solve", lambda m, n: np.linalg.solve(m, n), a, b)


@function(arguments="A B")
def solve(a: Tensor, b: Tensor, *, left: bool = True) -> Tensor:
    """x of a x = b, as torch.linalg.solve: a (..., N, N), b (N,) or (..., N, K); x of x a = b unless `left`.
    LinAlgError if a is singular.
    """
    _square("solve", a)
    if not left:
        return solve(a.mT, b) if b.ndim == 1 else solve(a.mT, b.mT).mT
    same_device("solve", a, b)
    vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b._shape == a._shape[:-1])
    if b._shape[-1 if vector else -2] != a._shape[-1]:
        raise ValueError(f"solve: {describe(a)} does not fit {describe(b)}")
    if vector:
        return _solve(a, b.unsqueeze(-1)).squeeze(-1)
    broadcast_shapes(a._shape[:-2], b._shape[:-2], op="solve")
    return _solve(a, b)


def _d_solve_triangular(g: Tensor, y: Tensor, a: Tensor, b: Tensor, upper: bool, unit: bool) -> Any:
    grad_b = _solve_triangular(a.mT, g, not upper, unit)
    grad_a = -(grad_b @ y.mT)
    grad_a = grad_a.triu(int(unit)) if upper else grad_a.tril(-int(unit))
    return _sum_to(grad_a, a._shape), _sum_to(grad_b, b._shape)


@op(vjp=_d_solve_triangular, saves="both", name="_solve_triangular")
def _solve_triangular(a: Tensor, b: Tensor, upper: bool, unit: bool) -> Tensor:
    """x of a x = b: of a (..., N, N) one triangle is read, b (..., N, K); `unit`: the diagonal of a counts as 1."""
    if unit:
        a = (a.triu(1) if upper else a.tril(-1)) + eye(a._shape[-1], dtype=a.dtype, device=a.device)
    else:
        a = a.triu() if upper else a.tril()
    return _solve(a, b)


_BLOCK = 32  # rows that LAPACK solves at once


@_solve_triangular.kernel("cpu")
def _by_blocks(a: Tensor, b: Tensor, upper: bool, unit: bool) -> Any:
    """By substitution of blocks: NumPy has no function that knows of triangles. Of rows, where the diagonal has a 0: it
    divides like other numbers, as in torch.
    """
    if capturing() or a.dtype is not b.dtype or not a.dtype.has_gradient or a.dtype.itemsize < 4:
        return NotImplemented
    size = a._shape[-1]
    matrix, rest = a.array(), b.array()
    singular = not unit and not matrix.diagonal(0, -2, -1).all()
    if size <= _BLOCK and not singular:
        return NotImplemented
    rows = 1 if singular else _BLOCK
    x = np.empty((*np.broadcast_shapes(a._shape[:-2], b._shape[:-2]), *b._shape[-2:]), rest.dtype)
    starts = range(0, size, rows)
    for first in reversed(starts) if upper else starts:
        last = min(first + rows, size)
        known = slice(last, size) if upper else slice(0, first)
        block = (np.triu if upper else np.tril)(matrix[..., first:last, first:last])
        if unit:
            block[..., range(last - first), range(last - first)] = 1
        with np.errstate(all="ignore"):
            right = rest[..., first:last, :] - matrix[..., first:last, known] @ x[..., known, :]
            if singular:
                x[..., first:last, :] = right / block
                continue
        try:
            x[..., first:last, :] = np.linalg.solve(block, right)
        except np.linalg.LinAlgError:
            return NotImplemented  # the definition decides
    return tensor_of(x, b.dtype)


@function(arguments="A B")
def solve_triangular(a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """x of a x = b (left) or x a = b, as torch.linalg.solve_triangular; only one triangle of a is read. Where its
    diagonal has a 0, infinities and NaN.
    """
    _square("solve_triangular", a)
    side = -2 if left else -1
    if b.ndim < 2 or b._shape[side] != a._shape[-1]:
        raise ValueError(f"solve_triangular: {describe(a)} does not fit {describe(b)}")
    same_device("solve_triangular", a, b)
    broadcast_shapes(a._shape[:-2], b._shape[:-2], op="solve_triangular")
    if left:
        return _solve_triangular(a, b, upper, unitriangular)
    return _solve_triangular(a.mT, b.mT, not upper, unitriangular).mT


@printed_as("triangular_solve")
class TriangularSolve(NamedTuple):
    """The solution, and a copy of the matrices."""

    solution: Tensor
    cloned_coefficient: Tensor


@function(method=True)
def triangular_solve(
    b: Tensor, A: Tensor, upper: bool = True, transpose: bool = False, unitriangular: bool = False
) -> TriangularSolve:
    """(x, a copy of A) of A x = b, or with `transpose` of Aᵀ x = b: b (..., N, K) and A (..., N, N), of which one
    triangle is read. torch's older form of linalg.solve_triangular.
    """
    if b.ndim < 2 or A.ndim < 2:
        raise ValueError(f"triangular_solve: takes matrices, not {describe(b)} and {describe(A)}")
    a, above = (A.mT, not upper) if transpose else (A, upper)
    x = solve_triangular(a, b, upper=above, unitriangular=unitriangular)
    return TriangularSolve(x, A.expand(*x._shape[:-2], *A._shape[-2:])._row_major())


def _d_pinv(g: Tensor, y: Tensor, x: Tensor, *_: Any) -> Any:
    """Golub and Pereyra 1973, "The differentiation of pseudo-inverses", 4.12; equal singular values do not matter."""
    left = g.mH - x @ (y @ g.mH)  # (I - x y) gᴴ
    right = g.mH - (g.mH @ y) @ x  # gᴴ (I - y x)
    return (left @ y @ y.mH + y.mH @ (y @ right) - y.mH @ g @ y.mH,)


@op(vjp=_d_pinv, saves="both", name="_pinv", autocast=full_precision)
def _pinv(x: Tensor, parts: tuple[Tensor, Tensor, Tensor], limit: Tensor) -> Tensor:
    """From U (..., M, K), S (..., K) and V (..., N, K) of x; limit (...): singular values up to it count as zero."""
    u, s, v = parts
    kept = s > limit.unsqueeze(-1)
    inverses = where(kept, where(kept, s, 1.0).reciprocal(), 0.0)
    return (v * inverses.unsqueeze(-2)) @ u.mH


_pinv.takes_complex = True


@function(method=True)
def pinv(
    x: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:  # fmt: skip
    """The Moore-Penrose inverse (..., N, M), through the singular values above atol and rtol (or rcond) times the
    largest; by default max(M, N) ε times.
    """
    if x.ndim < 2:
        raise ValueError(f"pinv: takes matrices (..., M, N), got {describe(x)}")
    if hermitian:
        _square("pinv", x)
    if not x.dtype.has_gradient:
        raise TypeError(f"pinv: takes floating-point or complex matrices, not {describe(x)}")
    of = x.detach()
    if hermitian:  # as torch, which reads the lower triangle and the real parts of the diagonal
        lower = of.tril(-1)
        diagonal = of.diagonal(0, -2, -1)
        of = lower + lower.mH + (diagonal.real if of.dtype.is_complex else diagonal).diag_embed()
    parts = svd(of)
    return _pinv(x, parts, rank_limit(x, largest_of(parts.S), atol, rcond if rtol is None else rtol).to(x.dtype.part))


@function(method=True)
def pinverse(x: Tensor, rcond: float = 1e-15) -> Tensor:
    """pinv with torch.pinverse's limit."""
    return pinv(x, rcond)


@printed_as("linalg_lstsq")
class LeastSquares(NamedTuple):
    """The result of lstsq; fields that the driver does not compute are empty."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def _of_full_rank(A: Tensor, B: Tensor, rcond: float | None) -> tuple[Any, Any] | None:
    """(solution (..., N, K), sums of squared residuals (..., K)), as arrays, through one QR of [A | B], whose upper
    rows are R and Qᴴ B. None unless it is certain that no singular value of A is below the limit: the smallest one is
    at least 1 / |R⁻¹|, the largest at most |R| (Frobenius' norms)."""
    (m, n), kind = A._shape[-2:], A.dtype
    if m < n or not n or A.device is not cpu or B.device is not cpu or not kind.has_gradient or kind.itemsize < 4:
        return None
    a, b = array_of(A), array_of(B)
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    both = np.concatenate([np.broadcast_to(x, lead + x.shape[-2:]) for x in (a, b)], -1)
    limit = max(m, n) * np.finfo(both.dtype).eps if rcond is None else rcond
    try:
        with np.errstate(all="ignore"):
            found: Any = np.linalg.qr(both, "r")  # (..., min(M, N + K), N + K)
            upper, right = found[..., :n, :n], found[..., :n, n:]
            turned_back = np.linalg.inv(upper)
            bound = np.linalg.norm(upper, axis=(-2, -1)) * np.linalg.norm(turned_back, axis=(-2, -1))
            if not (bound * limit < 0.5).all():  # NaN, too
                return None
            return np.linalg.solve(upper, right), np.square(np.abs(found[..., n:, n:])).sum(-2)
    except np.linalg.LinAlgError:
        return None


def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares:
    """x with the least |A x - B|, as torch.linalg.lstsq. A (..., M, N), B (..., M, K) → (..., N, K); or B (..., M).

    Singular values up to rcond (default max(M, N) ε) times the largest count as zero; of several solutions it is the
    shortest. LAPACK's drivers differ only in the returned fields: "gelsy" (the default), "gelsd" and "gelss" return the
    rank (...), the latter two the singular values; "gelsd", "gelss" and "gels" return the sums of squared residuals,
    (..., K), if M > N and A has full rank.
    """
    vector = A.ndim > B.ndim and B._shape == A._shape[:-1]
    other = B.unsqueeze(-1) if vector else B
    if A.ndim < 2 or other.ndim != A.ndim or other._shape[-2] != A._shape[-2] or A.dtype is not B.dtype:
        raise ValueError(f"lstsq: takes A (..., M, N) and B (..., M, K) of one dtype, got {describe(A)}, {describe(B)}")
    if driver is not None and driver not in DRIVERS:
        raise ValueError(f"lstsq: driver is one of {', '.join(DRIVERS)}, not {driver!r}")
    m, n = A._shape[-2:]
    broadcast_shapes(A._shape[:-2], other._shape[:-2], op="lstsq")
    driver, nothing = driver or "gelsy", A.new_zeros(0, dtype=A.dtype.part)
    if driver in ("gels", "gelsy") and not (STATE.enabled and (A.requires_grad or B.requires_grad)):
        known = _of_full_rank(A, other, rcond)
        if known is not None:
            solution, squares = (tensor_of(x, kind) for x, kind in zip(known, (A.dtype, A.dtype.part), strict=True))
            ranks = nothing.to("int64") if driver == "gels" else A.new_full(A._shape[:-2], n, dtype="int64")
            return LeastSquares(
                solution.squeeze(-1) if vector else solution,
                squares if driver == "gels" and m > n else nothing,
                ranks,
                nothing,
            )
    parts = svd(A.detach())
    limit = rank_limit(A, largest_of(parts.S), None, rcond)
    solution = _pinv(A, parts, limit.to(A.dtype.part)) @ other
    rank = (parts.S > limit.unsqueeze(-1)).sum(-1)
    full_rank = driver == "gels" or (driver != "gelsy" and bool((rank == n).all()))
    return LeastSquares(
        solution.squeeze(-1) if vector else solution,
        (A @ solution - other).abs().square().sum(-2) if full_rank and m > n else nothing,
        nothing.to("int64") if driver == "gels" else rank,
        parts.S if driver in ("gelsd", "gelss") else nothing,
    )


def _d_cholesky_solve(g: Tensor, y: Tensor, x: Tensor, L: Tensor, upper: bool) -> Any:
    """As torch: of the matrix A, through all entries of L, also through those that are not read."""
    grad_x = _cholesky_solve(g, L, upper)
    outer = grad_x @ y.mH  # (..., N, N)
    both = outer + outer.mH
    return (
        _sum_to(grad_x, x._shape) if x.requires_grad else None,
        _sum_to(-(L @ both if upper else both @ L), L._shape) if L.requires_grad else None,
    )


@op(vjp=_d_cholesky_solve, saves="both", name="_cholesky_solve", autocast=full_precision)
def _cholesky_solve(x: Tensor, L: Tensor, upper: bool) -> Tensor:
    lower = L.mH if upper else L
    return solve_triangular(lower.mH, solve_triangular(lower, x, upper=False), upper=True)


_cholesky_solve.takes_complex = True


@function(method=True)
def cholesky_solve(x: Tensor, L: Tensor, upper: bool = False) -> Tensor:
    """The solution of A y = x, (..., N, K), from the Cholesky factor L (..., N, N) of A: L Lᴴ, or Lᴴ L if `upper`."""
    _square("cholesky_solve", L)
    if x.ndim < 2 or x._shape[-2] != L._shape[-1]:
        raise ValueError(f"cholesky_solve: {describe(x)} does not fit the factor {describe(L)}")
    return _cholesky_solve(x, L, upper)


@function(method=True)
def cholesky_inverse(x: Tensor, upper: bool = False) -> Tensor:
    """The inverse of A from its Cholesky factor x (..., N, N)."""
    _square("cholesky_inverse", x)
    one = expand(eye(x._shape[-1], dtype=x.dtype, device=x.device), x._shape)
    return cholesky_solve(one, x, upper)


@printed_as("linalg_inv_ex")
class InverseInfo(NamedTuple):
    inverse: Tensor
    info: Tensor


@printed_as("linalg_solve_ex")
class SolutionInfo(NamedTuple):
    result: Tensor
    info: Tensor


def inv_ex(x: Tensor, *, check_errors: bool = False) -> InverseInfo:
    """(inverse, info): for a matrix without an inverse info is not 0 and the inverse NaN, unless
    `check_errors` raises.
    """
    _square("inv_ex", x)
    return InverseInfo(*_checked(inverse, x._shape[:-2], check_errors, x))


def solve_ex(A: Tensor, B: Tensor, *, left: bool = True, check_errors: bool = False) -> SolutionInfo:
    """(solution, info) of A x = B, or x A = B unless `left`."""
    _square("solve_ex", A)
    if not left:
        found, info = solve_ex(A.mT, B.mT, check_errors=check_errors)
        return SolutionInfo(found.mT, info)
    vector = B.ndim == 1 or (B.ndim == A.ndim - 1 and B._shape == A._shape[:-1])
    other = B.unsqueeze(-1) if vector else B
    lead = broadcast_shapes(A._shape[:-2], other._shape[:-2], op="solve_ex")
    A, other = expand(A, (*lead, *A._shape[-2:])), expand(other, (*lead, *other._shape[-2:]))
    found, info = _checked(solve, lead, check_errors, A, other)
    return SolutionInfo(found.squeeze(-1) if vector else found, info)


def tensorinv(x: Tensor, ind: int = 2) -> Tensor:
    """The inverse of x as a map from its dims after `ind` to those before, as torch.linalg.tensorinv."""
    if ind < 1 or prod(x._shape[:ind]) != prod(x._shape[ind:]):
        raise ValueError(f"tensorinv: {describe(x)} has not as many elements before dim {ind} as after it")
    size = prod(x._shape[:ind])
    return reshape(inverse(reshape(x, (size, size))), (*x._shape[ind:], *x._shape[:ind]))


def tensorsolve(A: Tensor, B: Tensor, dims: Any = None) -> Tensor:
    """x with tensordot(A, x, x.ndim) = B; `dims` of A are moved to its end first."""
    if dims is not None:
        moved = [normalize_dim(d, A.ndim, "tensorsolve") for d in dims]
        A = A.permute(*(d for d in range(A.ndim) if d not in moved), *moved)
    shape = A._shape[B.ndim :]
    if prod(shape) != B.numel() or prod(A._shape[: B.ndim]) != B.numel():
        raise ValueError(f"tensorsolve: {describe(A)} and {describe(B)} do not fit")
    return reshape(solve(reshape(A, (B.numel(), B.numel())), reshape(B, -1)), shape)
