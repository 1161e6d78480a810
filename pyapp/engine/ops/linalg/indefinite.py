"""Factorisation of symmetric and Hermitian matrices that need not be positive-definite: Bunch and Kaufman 1977, "Some
stable methods for calculating inertia and solving symmetric linear systems", with the pivots that LAPACK has.
"""

from __future__ import annotations

from math import prod, sqrt
from typing import Any, NamedTuple

from ...lazy import np
from ...numpy_arrays import array_of, tensor_of
from ...return_types import printed_as
from ...shape import broadcast_shapes
from ...tensor import Tensor
from ...user_errors import describe
from .lapack import _lapack, _square

_GROWTH = (1 + sqrt(17)) / 8  # where a block of two rows is the better pivot


@printed_as("linalg_ldl_factor")
class LDLFactor(NamedTuple):
    """L below the diagonal and the blocks of D on it; pivots of LAPACK (from 1; two equal negative ones: a block)."""

    LD: Tensor
    pivots: Tensor


@printed_as("linalg_ldl_factor_ex")
class LDLFactorEx(NamedTuple):
    """LDLFactor, and int32 (...): 0, or the first block of D, from 1, that is 0."""

    LD: Tensor
    pivots: Tensor
    info: Tensor


def _sizes(a: Any) -> Any:
    """Absolute values, of complex numbers those of the parts together, as in LAPACK."""
    return abs(a.real) + abs(a.imag) if np.iscomplexobj(a) else abs(a)


def _pivot(a: Any, k: int) -> tuple[int, int]:
    """(the row that comes to the pivot's place, the rows of the pivot) at step k of the trailing matrix."""
    below = _sizes(a[k + 1 :, k])
    size, largest = _sizes(a[k, k]), below.max(initial=0.0)
    if size >= _GROWTH * largest:
        return k, 1
    row = k + 1 + int(below.argmax())
    others = _sizes(a[row, k:])
    others[row - k] = 0.0
    widest = others.max()
    if size * widest >= _GROWTH * largest * largest:
        return k, 1
    return (row, 1) if _sizes(a[row, row]) >= _GROWTH * widest else (row, 2)


def _factorise(a: Any, hermitian: bool) -> tuple[Any, int]:
    """The pivots of one matrix, whose lower triangle becomes the factors, and the first that is 0, from 1."""
    n = len(a)
    other = np.conj if hermitian else np.asarray
    a[:] = np.tril(a) + other(np.tril(a, -1).T)
    if hermitian:
        a[np.arange(n), np.arange(n)] = a.diagonal().real
    pivots, info, k = np.zeros(n, np.int32), 0, 0
    while k < n:
        row, count = _pivot(a, k)
        last = k + count - 1  # the row that is exchanged
        if row != last:
            a[[last, row], k:] = a[[row, last], k:]
            a[k:, [last, row]] = a[k:, [row, last]]
        end = k + count
        block, column = a[k:end, k:end], a[end:, k:end].copy()
        if count == 1 and block[0, 0] == 0:  # and all below
            info = info or k + 1
        else:
            a[end:, k:end] = np.linalg.solve(block.T, column.T).T
            a[end:, end:] -= a[end:, k:end] @ other(column.T)
        pivots[k:end] = row + 1 if count == 1 else -(row + 1)
        k = end
    a[:] = np.tril(a)
    return pivots, info


def _solve(ld: Any, pivots: Any, b: Any, hermitian: bool) -> Any:
    """x of one system, with the factors."""
    n, k = len(ld), 0
    other = np.conj if hermitian else np.asarray
    starts = []
    while k < n:  # P L, then D
        count = 1 if pivots[k] > 0 else 2
        end, row = k + count, abs(pivots[k]) - 1
        b[[end - 1, row]] = b[[row, end - 1]]
        b[end:] -= ld[end:, k:end] @ b[k:end]
        block = ld[k:end, k:end].copy()
        if count == 2:
            block[0, 1] = other(block[1, 0])
        b[k:end] = np.linalg.solve(block, b[k:end])
        starts.append((k, end, row))
        k = end
    for k, end, row in reversed(starts):  # the transposes
        b[k:end] -= other(ld[end:, k:end]).T @ b[end:]
        b[[end - 1, row]] = b[[row, end - 1]]
    return b


def ldl_factor_ex(x: Tensor, *, hermitian: bool = False, check_errors: bool = False) -> LDLFactorEx:
    """ldl_factor with what would keep ldl_solve from solving; RuntimeError for that with `check_errors`."""
    _square("ldl_factor", x)
    found: list[Any] = []

    def compute(a: Any) -> Any:
        packed = np.array(a).reshape(prod(a.shape[:-2]), *a.shape[-2:])
        found.extend(_factorise(one, hermitian) for one in packed)
        return packed.reshape(a.shape)

    packed, kind = _lapack("ldl_factor", compute, x.detach())
    pivots = np.array([p for p, _ in found], np.int32).reshape(x._shape[:-1])
    info = tensor_of(np.array([i for _, i in found], np.int32).reshape(x._shape[:-2])).to(x.device)
    if check_errors and bool(info.any()):
        raise RuntimeError(f"ldl_factor: a block of {describe(x)} is 0: the matrix has no inverse")
    return LDLFactorEx(tensor_of(packed, kind).to(x.device), tensor_of(pivots).to(x.device), info)


def ldl_factor(x: Tensor, *, hermitian: bool = False) -> LDLFactor:
    """x = P L D Lᵀ Pᵀ (Lᴴ if `hermitian`) of symmetric x (..., N, N), whose lower triangle is read: (LD, pivots) for
    ldl_solve. RuntimeError where a block of D is 0. Without gradients.
    """
    packed, pivots, _ = ldl_factor_ex(x, hermitian=hermitian, check_errors=True)
    return LDLFactor(packed, pivots)


def ldl_solve(LD: Tensor, pivots: Tensor, B: Tensor, *, hermitian: bool = False) -> Tensor:
    """x (..., N, K) with A x = B, from ldl_factor(A). Without gradients."""
    _square("ldl_solve", LD)
    n = LD._shape[-1]
    if B.ndim < 2 or B._shape[-2] != n or pivots._shape != LD._shape[:-1] or pivots.dtype.category != 1:
        raise ValueError(
            f"ldl_solve: {describe(LD)}, the pivots {describe(pivots)} and {describe(B)} are not (..., N, N), (..., N) "
            "and (..., N, K)"
        )
    if LD.dtype is not B.dtype:
        raise TypeError(f"ldl_solve: {describe(LD)} and {describe(B)} differ in dtype")
    order = array_of(pivots).astype(np.int64)
    if order.size and (not order.all() or abs(order).max() > n):
        raise ValueError(f"ldl_solve: the pivots are rows from 1 to {n}")
    batch = broadcast_shapes(LD._shape[:-2], B._shape[:-2], op="ldl_solve")

    def compute(ld: Any, b: Any) -> Any:
        count = prod(batch)
        wide = np.array(np.broadcast_to(b, (*batch, *b.shape[-2:]))).reshape(count, *b.shape[-2:])
        factors = np.broadcast_to(ld, (*batch, n, n)).reshape(count, n, n)
        orders = np.broadcast_to(order, (*batch, n)).reshape(count, n)
        for at, one in enumerate(wide):
            _solve(factors[at], orders[at], one, hermitian)
        return wide.reshape(*batch, *b.shape[-2:])

    found, kind = _lapack("ldl_solve", compute, LD.detach(), B.detach())
    return tensor_of(found, kind).to(B.device)
