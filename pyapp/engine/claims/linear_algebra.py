"""Factors of matrices and linear systems by kernels: on CUDA (native/cuda/linear_algebra.cu), and on the CPU of small
matrices (native/linear_algebra.c), for which LAPACK's calls, one for each matrix, cost more than what they compute."""

from __future__ import annotations

from math import prod
from typing import Any

from .. import dtype as _dtype
from ..device import cpu
from ..element_types import CODES
from ..launch import KERNELS, capturing
from ..native import IN_BROWSER
from ..op import claims
from ..operands import common_dtype, dense
from ..ops.create import arange, eye, tensor
from ..ops.diagonals import diag_embed
from ..ops.dtype_limits import finfo
from ..ops.elementwise.select import where
from ..ops.linalg.lapack import _square
from ..ops.linalg.matrix_functions import PADE_LIMIT, pade
from ..ops.padding import pad
from ..ops.stacking import cat, stack
from ..ops.view import expand
from ..shape import broadcast_shapes
from ..tensor import Tensor, empty_contiguous

FACTORS = ("cholesky", "eigh", "lu_factor", "qr", "solve_triangular", "svd")
_CHOLESKY, _EIGH, _LU, _QR, _SOLVE, _SVD = (KERNELS[name] for name in FACTORS)
MOST_ROWS = 512  # of linear_algebra.cu: rows of a panel, or pairs of rows, in shared memory
PANEL = 64  # of the same: columns that one launch of lu_factor takes of a larger matrix
SOLVED_ROWS = 256  # of a larger triangular system: what one launch solves
JACOBI_BLOCK = 32  # rows of a block of a larger symmetric matrix: two blocks fit shared memory
SWEEPS = 40  # at most, as in linear_algebra.cu


# On a CPU NumPy's LAPACK computes all others: of larger matrices on several threads.
HOST_ROWS = 256  # of matrices that the kernels factor in less time
HOST_EIGH_ROWS = 64  # the same of eigenvalues: what native/linear_algebra.c takes
HOST_SVD_ROWS = 16  # of singular values
SOLVED_ON_HOST = 512  # rows and columns of a triangular system, which NumPy takes for any other
HOST_WORK = 1 << 10  # elements of a batch from which several launches take less time
HOST_INVERTED, HOST_SOLVED = 64, 160  # rows of one matrix, the same
ANY_ROWS = 1 << 40


def _taken(*tensors: Tensor, rows: int = HOST_ROWS) -> bool:
    """Whether the device has these kernels, and they take such matrices; on a CPU those of up to `rows` rows."""
    device = tensors[0].device
    # A Graph on the CPU has none of them: what a replay raises, the functions that return `info` could not tell. The
    # libraries of browsers have none.
    if IN_BROWSER or device is cpu and (capturing() or any(n > rows for x in tensors for n in x._shape[-2:])):
        return False
    return _CHOLESKY.name in device.backend.kernels and all(
        x.dtype.is_floating_point and not x.dtype.is_storage_only for x in tensors
    )


def _by_lapack(x: Tensor, rows: int) -> bool:
    """Whether LAPACK takes less time on the CPU than several launches: of one matrix of less than `rows` rows, or of a
    small batch."""
    single = prod(x._shape[:-2]) == 1
    return x.device is cpu and (x._shape[-1] < rows if single else x.numel() < HOST_WORK)


def _wide(x: Tensor) -> Tensor:
    """Matrices (B, M, N), dense, in float32 or float64."""
    x = x.detach()
    if x.dtype is not _dtype.float64:
        x = x.to(_dtype.float32)
    return dense(x.reshape(prod(x._shape[:-2]), *x._shape[-2:]))


def _settle(x: Tensor) -> None:
    """Raises now what the kernels have found, as torch does; a Graph raises it one call later."""
    if not capturing():
        x.device.backend.synchronize()


def _lower(x: Tensor) -> Tensor:
    """The factor L of (B, N, N). Of matrices of more than MOST_ROWS rows by blocks of so many, from left to right."""
    batch, n, _ = x._shape
    y = empty_contiguous(x._shape, x.dtype, x.device)
    if n <= MOST_ROWS:
        _CHOLESKY.launch(batch * n**3 >> 12, y, x, CODES[x.dtype], batch, n)
        return y
    rest = x
    y.zero_()
    for start in range(0, n, MOST_ROWS):
        end = min(start + MOST_ROWS, n)
        size = end - start
        corner = _lower(dense(rest[:, :size, :size]))
        y[:, start:end, start:end] = corner
        if end < n:
            below = _solved(corner, dense(rest[:, size:, :size].mT), False, REFUSED)  # (B, size, n - end)
            y[:, end:, start:end] = below.mT
            rest = rest[:, size:, size:] - below.mT @ below
    return y


def _factored(x: Tensor, exchanged: bool = True) -> tuple[Tensor, Any, Any]:
    """(L and U in one matrix, exchanges (B, K), order of rows (B, M)) of (B, M, N). A block of threads has a matrix; of
    one with more than MOST_ROWS rows or columns it has PANEL columns, and the rest is of all blocks, one panel after
    the other (as LAPACK's getrf).
    """
    batch, m, n = x._shape
    small = max(m, n) <= MOST_ROWS
    y = empty_contiguous(x._shape, x.dtype, x.device) if small else x._row_major()
    exchanges = empty_contiguous((batch, min(m, n)), _dtype.int32, x.device) if exchanged else None
    order = empty_contiguous((batch, m), _dtype.int32, x.device) if exchanged else None
    width = max(n if small else PANEL, 1)
    for begin in range(0, max(min(m, n), 1), width):
        end = min(begin + width, n)
        work = batch * (m - begin) * (n - begin) * width >> 12
        _LU.launch(work, y, x if small else None, exchanges, order, CODES[x.dtype], batch, m, n, begin, end)
    return y, exchanges, order


REFUSED, UNIT, DIVIDED = range(3)  # a 0 on the diagonal: KERNEL_SINGULAR, or read as 1 like all, or a divisor


def _solved(a: Tensor, b: Tensor, upper: bool, diagonal: int, order: Tensor | None = None) -> Tensor:
    """x of a x = b for triangles of a (B, N, N), or (1, N, N) for all, with any strides; b (B, N, K), dense. A block of
    threads has a triangle and 32 columns of b; of more than MOST_ROWS rows it has SOLVED_ROWS at a time, and all
    blocks take their products from the rows that are left.
    """
    batch, n, columns = b._shape
    y = empty_contiguous(b._shape, b.dtype, b.device)
    rows = SOLVED_ROWS if n > MOST_ROWS else max(n, 1)
    starts = range(0, max(n, 1), rows)
    for begin in reversed(starts) if upper else starts:
        end = min(begin + rows, n)
        left = begin if upper else n - end
        _SOLVE.launch(
            batch * columns * (end - begin) * (end - begin + 2 * left) >> 11, y, a, b, order, CODES[b.dtype], batch, n,
            columns, int(upper), diagonal, a.strides[0] if a._shape[0] > 1 else 0, *a.strides[1:], begin, end,
        )  # fmt: skip
    return y


def _solved_by_lu(a: Tensor, b: Tensor) -> Tensor:
    """x of a x = b: a (B, N, N), or (1, N, N) for all; b (B, N, K), dense."""
    packed, _, order = _factored(a)
    order = dense(expand(order, (b._shape[0], b._shape[1])))
    y = _solved(packed, _solved(packed, b, False, UNIT, order), True, REFUSED)
    _settle(y)
    return y


@claims("cholesky")
def _cholesky(x: Tensor) -> Any:
    if not _taken(x):
        return NotImplemented
    _square("cholesky", x)
    y = _lower(_wide(x))
    _settle(y)
    return y.reshape(x._shape).to(x.dtype)


def _fits(name: str, x: Tensor, rows: int = HOST_ROWS) -> bool:
    """Whether square matrices are taken; ValueError for others."""
    if not _taken(x, rows=rows):
        return False
    _square(name, x)
    return True


@claims("inverse")
def _inverse(x: Tensor) -> Any:
    if _by_lapack(x, HOST_INVERTED) or not _fits("inverse", x):
        return NotImplemented
    a = _wide(x)
    one = dense(expand(eye(a._shape[-1], dtype=a.dtype, device=a.device), a._shape))
    return _solved_by_lu(a, one).reshape(x._shape).to(x.dtype)


def _pair(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor, Any]:
    """a (B, N, N), or (1, N, N), b (B, N, K), and what makes a result of these of their shape and dtype."""
    lead = broadcast_shapes(a._shape[:-2], b._shape[:-2])
    shape, kind = (*lead, *b._shape[-2:]), common_dtype(a, b)
    matrices = a if prod(a._shape[:-2]) == 1 else expand(a, (*lead, *a._shape[-2:]))
    return _wide(matrices.to(kind)), _wide(expand(b, shape).to(kind)), lambda y: y.reshape(shape).to(kind)


@claims("_solve")
def _solve(a: Tensor, b: Tensor) -> Any:
    if _by_lapack(a, HOST_SOLVED) or not _fits("solve", a) or not _taken(b):
        return NotImplemented
    matrices, sides, finish = _pair(a, b)
    return finish(_solved_by_lu(matrices, sides))


@claims("_solve_triangular")
def _solve_triangular(a: Tensor, b: Tensor, upper: bool, unit: bool) -> Any:
    if not _taken(a, b, rows=SOLVED_ON_HOST):
        return NotImplemented
    matrices, sides, finish = _pair(a, b)
    return finish(_solved(matrices, sides, upper, UNIT if unit else DIVIDED))


def _diagonal(x: Tensor) -> tuple[Tensor, Tensor]:
    """The diagonal of U (B, N), and whether rows were exchanged an even (1) or odd (-1) number of times (B,)."""
    packed, exchanges, _ = _factored(_wide(x))
    moved = exchanges != arange(exchanges.shape[-1], dtype=_dtype.int32, device=x.device)
    return packed.diagonal(0, -2, -1), 1 - 2 * (moved.sum(-1) % 2).to(packed.dtype)


@claims("det")
def _det(x: Tensor) -> Any:
    if x.device is cpu or not _fits("det", x):
        return NotImplemented
    diagonal, sign = _diagonal(x)
    return (diagonal.prod(-1) * sign).reshape(x._shape[:-2]).to(x.dtype)


@claims("_sign_and_log_of_det")
def _sign_and_log(x: Tensor) -> Any:
    if x.device is cpu or not _fits("slogdet", x):
        return NotImplemented
    diagonal, sign = _diagonal(x)
    found = stack([diagonal.sign().prod(-1) * sign, diagonal.abs().log().sum(-1)], -1)  # (B, 2)
    return found.reshape(*x._shape[:-2], 2).to(x.dtype)


@claims("_lu_square")
def _lu_square(x: Tensor) -> Any:
    return _factored(_wide(x), False)[0].reshape(x._shape).to(x.dtype) if _fits("lu", x, ANY_ROWS) else NotImplemented


@claims("_exchanges_of_lu")
def _exchanges_of_lu(x: Tensor, name: str) -> Any:
    return _factored(_wide(x))[1] if _taken(x, rows=ANY_ROWS) else NotImplemented


def _q_and_r(x: Tensor) -> Tensor:
    """Q over R, (B, M + N, N), of x (B, M, N), dense, with M >= N."""
    batch, m, n = x._shape
    y = empty_contiguous((batch, m + n, n), x.dtype, x.device)
    taus = empty_contiguous((batch, n), x.dtype, x.device)
    _QR.launch(batch * m * n * n >> 10, y, x, taus, CODES[x.dtype], batch, m, n)
    return y


@claims("_qr")
def _qr(x: Tensor) -> Any:
    if not _taken(x):
        return NotImplemented
    m, n = x._shape[-2:]
    return _q_and_r(_wide(x)).reshape((*x._shape[:-2], m + n, n)).to(x.dtype)


@claims("_further_columns")
def _further_columns_of_q(x: Tensor) -> Any:
    """Columns of zeros have no reflectors: theirs in Q are orthogonal to those of x."""
    m, n = x._shape[-2:]
    if m > MOST_ROWS or not _taken(x):
        return NotImplemented
    a = _wide(x)
    q = _q_and_r(cat([a, a.new_zeros((a._shape[0], m, m - n))], -1))[:, :m, n:]  # (B, M, M - N)
    return q.reshape(*x._shape[:-1], m - n).to(x.dtype)


def _eigen(a: Tensor) -> Tensor:
    """Eigenvalues over eigenvectors (B, 1 + N, N) of symmetric a (B, N, N), dense, of up to MOST_ROWS rows."""
    batch, n, _ = a._shape
    y = empty_contiguous((batch, 1 + n, n), a.dtype, a.device)
    work = empty_contiguous(a._shape, a.dtype, a.device)
    _EIGH.launch(batch * n**3 >> 6, y, a, work, CODES[a.dtype], batch, n)
    return y


def _rounds(blocks: int) -> list[list[int]]:
    """For an even number of blocks: the pairs of each round of a tournament, one after the other, the smaller number
    of each first.
    """
    ring = list(range(1, blocks))
    found = []
    for turn in range(blocks - 1):
        table = [0, *ring[turn:], *ring[:turn]]
        found.append([block for i in range(blocks // 2) for block in sorted((table[i], table[-1 - i]))])
    return found


def _orders_of_rows(blocks: int) -> list[list[int]]:
    """For each round: where its rows are in the round before it. The first one follows the last one."""
    rounds, found = _rounds(blocks), []
    for before, after in zip([rounds[-1], *rounds], rounds, strict=False):
        places = [before.index(block) * JACOBI_BLOCK for block in after]
        found.append([place + i for place in places for i in range(JACOBI_BLOCK)])
    return found


def _eigen_by_blocks(x: Tensor) -> Tensor:
    """As _eigen, of any size: Jacobi's method with blocks of JACOBI_BLOCK rows in the place of rows (Golub and Van Loan
    2013, 8.5). In a round all blocks are turned in pairs, by the eigenvectors of what each pair has in common; a sweep
    is all rounds. Further rows of zeros make whole pairs of blocks; nothing turns them together with others.
    """
    batch, n, _ = x._shape
    pairs = -(-n // (2 * JACOBI_BLOCK))
    both = 2 * JACOBI_BLOCK
    further = pairs * both - n
    finite = x.isfinite().all(-1).all(-1)[:, None, None]
    given = where(finite, x, 0.0)
    given = given.tril() + given.tril(-1).mT
    largest = given.abs().amax(-1).amax(-1)[:, None, None]
    scale = where(largest > 0, largest, 1.0)
    given = given / scale
    a = pad(given, (0, further, 0, further))  # (B, R, R)
    vectors = dense(expand(eye(n + further, n, dtype=x.dtype, device=x.device), (batch, n + further, n)))  # as rows
    orders = tensor(_orders_of_rows(2 * pairs), dtype=_dtype.int64, device=x.device).unbind(0)  # each (R,)
    precision = finfo(x.dtype).eps
    left = float("inf")
    for _ in range(SWEEPS):
        for order in orders:
            a, vectors = a.index_select(1, order).index_select(2, order), vectors.index_select(1, order)
            corners = a.reshape(batch, pairs, both, pairs, both).diagonal(0, 1, 3).permute(0, 3, 1, 2)
            turns = _eigen(dense(corners.reshape(batch * pairs, both, both)))[:, 1:].mT  # (B pairs, both, both)
            a = _turned(turns, dense(_turned(turns, a).mT))  # symmetric: rows first, then columns
            vectors = _turned(turns, vectors)
        last, left = left, _share_off_diagonal(a).amax().item()
        if not left > precision * n**0.5 or (left < precision**0.5 and left > last / 2):  # or no better any more
            break
    # The turns have left rounding errors: a step to the nearest orthonormal vectors (Björck and Bowie 1971), and the
    # Rayleigh quotients of these.
    vectors = vectors * 1.5 - (vectors @ vectors.mT) @ vectors * 0.5
    squares = vectors.square().sum(-1)  # (B, R): 0 for the further rows
    quotients = (vectors @ given * vectors).sum(-1) / squares
    values, places = where(squares > 0.5, quotients, float("inf")).sort(-1)
    vectors = vectors.gather(1, expand(places[:, :n, None], (batch, n, n))).mT
    return where(finite, cat([values[:, None, :n] * scale, vectors], 1), float("nan"))


def _share_off_diagonal(a: Tensor) -> Tensor:
    """The Frobenius norm of what is not on the diagonal of (B, N, N), in that of all: (B,)."""
    others = a - diag_embed(a.diagonal(0, -2, -1))
    squares, whole = (part.square().sum((-2, -1)) for part in (others, a))
    return (squares / where(whole > 0, whole, 1.0)).sqrt()


def _turned(turns: Tensor, x: Tensor) -> Tensor:
    """turns (B P, K, K) times the rows of x (B, P K, N), K at a time."""
    return (turns @ x.reshape(turns._shape[0], turns._shape[1], x._shape[-1])).reshape(x._shape)


@claims("_eigh")
def _eigh(x: Tensor, triangle: str) -> Any:
    """More than MOST_ROWS rows: the number of sweeps comes from the card, so a Graph cannot hold it."""
    if not _fits("eigh", x, HOST_EIGH_ROWS) or (x._shape[-1] > MOST_ROWS and (capturing() or not x.numel())):
        return NotImplemented
    a, n = _wide(x.mT if triangle == "U" else x), x._shape[-1]
    y = _eigen(a) if n <= MOST_ROWS else _eigen_by_blocks(a)
    return y.reshape((*x._shape[:-2], 1 + n, n)).to(x.dtype)


def _is_decomposed(x: Tensor) -> bool:
    """Whether the kernels find singular values of matrices (..., M, N)."""
    return min(x._shape[-2:]) <= MOST_ROWS and not _by_lapack(x, ANY_ROWS) and _taken(x, rows=HOST_SVD_ROWS)


def _orthogonal_and_square(x: Tensor) -> tuple[Tensor, Tensor]:
    """Q (B, M, N), and R (B, N, N), dense, of x (..., M, N), or of its transpose if M < N. Rotations of the rows of R
    end sooner than those of the rows of x: after a few sweeps, not dozens, where columns have very different lengths
    (Drmač and Veselić 2008, "New Fast and Accurate Jacobi SVD Algorithm").
    """
    tall = _wide(x if x._shape[-2] >= x._shape[-1] else x.mT)
    packed = _q_and_r(tall)
    return packed[:, : tall._shape[1]], dense(packed[:, tall._shape[1] :])


def _decomposed(x: Tensor, vectors: bool) -> Tensor:
    """U, S as a row, and V of squares (B, N, N), dense, over one another (B, 2 N + 1, N); or S alone (B, 1, N)."""
    batch, n, _ = x._shape
    y = empty_contiguous((batch, 2 * n + 1 if vectors else 1, n), x.dtype, x.device)
    rotated = empty_contiguous(x._shape, x.dtype, x.device)
    _SVD.launch(batch * n**3 >> 6, y, x, rotated, CODES[x.dtype], batch, n, int(vectors))
    return y


@claims("_svd")
def _svd(x: Tensor) -> Any:
    if not _is_decomposed(x):
        return NotImplemented
    m, n = x._shape[-2:]
    k = min(m, n)
    q, r = _orthogonal_and_square(x)
    u, s, v = _decomposed(r, True).split([k, 1, k], 1)
    parts = [q @ u, s, v] if m >= n else [v, s, q @ u]
    return cat(parts, 1).reshape(*x._shape[:-2], m + 1 + n, k).to(x.dtype)


@claims("_svdvals")
def _svdvals(x: Tensor) -> Any:
    if not _is_decomposed(x):
        return NotImplemented
    found = _decomposed(_orthogonal_and_square(x)[1], False)
    return found.reshape(*x._shape[:-2], min(x._shape[-2:])).to(x.dtype)


@claims("matrix_exp")
def _matrix_exp(x: Tensor) -> Any:
    """As on the CPU, in float64. The number of squarings comes from the card, so a Graph cannot hold it."""
    if x.device is cpu or not _fits("matrix_exp", x) or not x.numel() or capturing():
        return NotImplemented
    a = x.detach().to(_dtype.float64)
    norms = a.abs().sum(-2).amax(-1)[..., None, None]
    finite = norms.isfinite()
    halvings = (where(finite, norms, 0.0) / PADE_LIMIT).clamp(1.0).log2().ceil()
    a = where(finite, a, 0.0) * (-halvings).exp2()
    denominators, numerators = pade(a, eye(a.shape[-1], dtype=a.dtype, device=a.device))
    y = _solved_by_lu(_wide(denominators), _wide(numerators)).reshape(x._shape)
    for step in range(int(halvings.amax().item())):
        y = where(halvings > step, y @ y, y)
    return where(finite, y, float("nan")).to(x.dtype)
