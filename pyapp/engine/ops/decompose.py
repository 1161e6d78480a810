"""Decompositions: QR, symmetric eigenvalues, pseudo-inverse, least squares; matrix powers and norms."""

from __future__ import annotations

from typing import Any

from ..lazy import np
from ..op import describe, primitive
from ..tensor import Tensor
from .base import tensor_of
from .create import eye
from .linalg import _lapack, _square, inverse, solve_triangular, svd
from .matmul import matmul
from .rearrange import diag_embed
from .view import cat


def _d_qr(g: Tensor, y: Tensor, x: Tensor) -> Any:
    """Walter and Lehmann 2018, "Algorithmic differentiation of linear algebra functions", for M >= N."""
    m, n = x.shape[-2:]
    q, r = y[..., :m, :], y[..., m:, :]
    g = g.contiguous()
    gq, gr = g[..., :m, :], g[..., m:, :].triu()
    whole = r @ gr.mT - gq.mT @ q
    lower = whole.tril(-1)
    symmetric = lower + lower.mT + whole.tril() - lower
    return (solve_triangular(r, (gq + q @ symmetric).mT, upper=True).mT,)


@primitive(vjp=_d_qr, saves="both", name="_qr", method=False)
def _qr(x: Tensor) -> Tensor:
    """Q (..., M, N) over R (..., N, N), for M >= N."""

    def compute(a: Any) -> Any:
        q, r = np.linalg.qr(a)
        return np.concatenate([q, r], -2)

    return tensor_of(*_lapack("qr", compute, x))


def qr(x: Tensor, mode: str = "reduced") -> tuple[Tensor, Tensor]:
    """x = Q R, reduced: orthonormal columns in Q, R upper triangular. x (..., M, N) → (..., M, K), (..., K, N)."""
    if x.ndim < 2 or mode != "reduced":
        raise ValueError(f"qr: takes matrices (..., M, N) and mode 'reduced', got {describe(x)}, {mode!r}")
    m, n = x.shape[-2:]
    if m >= n:
        packed = _qr(x)
        return packed[..., :m, :], packed[..., m:, :]
    packed = _qr(x[..., :m])  # the further columns follow from Q
    q = packed[..., :m, :]
    return q, cat([packed[..., m:, :], q.mT @ x[..., m:]], -1)


def _d_eigh(g: Tensor, y: Tensor, x: Tensor, triangle: str) -> Any:
    """Giles 2008, "Collected matrix derivative results", 3.1."""
    values, vectors = y[..., 0, :], y[..., 1:, :]
    g = g.contiguous()
    g_values, g_vectors = g[..., 0, :], g[..., 1:, :]
    gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
    same = eye(values.shape[-1], dtype=values.dtype)
    inverse_gaps = (gaps + same).reciprocal() * (1 - same)
    inner = diag_embed(g_values) + inverse_gaps * (vectors.mT @ g_vectors)
    whole = vectors @ inner @ vectors.mT
    return ((whole + whole.mT) * 0.5,)


@primitive(vjp=_d_eigh, saves="both", name="_eigh", method=False)
def _eigh(x: Tensor, triangle: Any) -> Tensor:
    """Eigenvalues as a row over eigenvectors as columns: (..., 1 + N, N)."""

    def compute(a: Any) -> Any:
        values, vectors = np.linalg.eigh(a, triangle)
        return np.concatenate([values[..., None, :], vectors], -2)

    return tensor_of(*_lapack("eigh", compute, x))


def eigh(x: Tensor, UPLO: str = "L") -> tuple[Tensor, Tensor]:
    """(eigenvalues ascending (..., N), eigenvectors as columns (..., N, N)) of symmetric x, of which one triangle is
    read. The gradient is that of the whole symmetric matrix; undefined for equal eigenvalues.
    """
    _square("eigh", x)
    if UPLO not in ("L", "U"):
        raise ValueError(f"eigh: UPLO is 'L' or 'U', not {UPLO!r}")
    packed = _eigh(x, UPLO)
    return packed[..., 0, :], packed[..., 1:, :]


def eigvalsh(x: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of eigh."""
    return eigh(x, UPLO)[0]


def svdvals(x: Tensor) -> Tensor:
    """Singular values, descending."""
    return svd(x)[1]


def linalg_svd(x: Tensor, full_matrices: bool = True) -> tuple[Tensor, Tensor, Tensor]:
    """(U, S, Vᵀ), as torch.linalg.svd; reduced ones only."""
    if full_matrices and x.shape[-1] != x.shape[-2]:
        raise ValueError("linalg.svd: pass full_matrices=False; only the reduced decomposition is there")
    u, s, v = svd(x)
    return u, s, v.mT


def pinv(x: Tensor, rcond: float | None = None) -> Tensor:
    """The Moore-Penrose inverse (..., N, M), through the singular values above rcond times the largest."""
    u, s, v = svd(x)
    limit = (max(x.shape[-2:]) * float(np.finfo(s.dtype.numpy_name).eps) if rcond is None else rcond) * s.detach().amax(
        -1, True
    )
    kept = (s.detach() > limit).to(s.dtype)
    return (v * (kept / (s + (1 - kept))).unsqueeze(-2)) @ u.mT


def lstsq(a: Tensor, b: Tensor) -> Tensor:
    """x with the least |a x - b|: a (..., M, N), b (..., M, K)."""
    return pinv(a) @ b


def matrix_power(x: Tensor, n: int) -> Tensor:
    """x multiplied with itself n times; of the inverse for negative n."""
    _square("matrix_power", x)
    if n < 0:
        return matrix_power(inverse(x), -n)
    result = eye(x.shape[-1], dtype=x.dtype).expand(x.shape) if n == 0 else None
    while n:
        if n & 1:
            result = x if result is None else matmul(result, x)
        n >>= 1
        if n:
            x = matmul(x, x)
    assert result is not None
    return result


def matrix_rank(x: Tensor, tol: float | None = None) -> Tensor:
    """How many singular values are above tol (by default max(M, N) ε times the largest)."""
    s = svdvals(x.detach())
    limit = s.amax(-1, True) * (max(x.shape[-2:]) * float(np.finfo(s.dtype.numpy_name).eps)) if tol is None else tol
    return (s > limit).sum(-1)


def vector_norm(x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The p-norm over dims (all of them by default)."""
    return x.norm(ord, dim, keepdim)


def matrix_norm(x: Tensor, ord: Any = "fro", dim: tuple[int, int] = (-2, -1), keepdim: bool = False) -> Tensor:
    """ord: "fro", "nuc", ±inf, ±1 or ±2 (singular values)."""
    a, b = (d % x.ndim for d in dim)
    if ord == "fro":
        return x.norm(2, (a, b), keepdim)
    if ord in ("nuc", 2, -2):
        moved = x.movedim((a, b), (-2, -1))
        s = svdvals(moved)
        y = s.sum(-1) if ord == "nuc" else s.amax(-1) if ord == 2 else s.amin(-1)
        return y.unsqueeze(min(a, b)).unsqueeze(max(a, b)) if keepdim else y
    if ord not in (1, -1, float("inf"), float("-inf")):
        raise ValueError(f"matrix_norm: unknown ord {ord!r}")
    along, rest = (a, b) if abs(ord) == 1 else (b, a)
    sums = x.abs().sum(along, True)
    y = sums.amax(rest, True) if ord > 0 else sums.amin(rest, True)
    return y if keepdim else y.squeeze(max(a, b)).squeeze(min(a, b))


def linalg_norm(x: Tensor, ord: Any = None, dim: Any = None, keepdim: bool = False, *, dtype: Any = None) -> Tensor:
    """torch.linalg.norm: of a matrix (or two dims) matrix_norm, of a vector (or one dim) vector_norm; without `ord` the
    2-norm of all elements.
    """
    x = x if dtype is None else x.to(dtype)
    dims = tuple(range(x.ndim)) if dim is None else (dim,) if isinstance(dim, int) else tuple(dim)
    if ord is None and (dim is None or len(dims) == 1):
        return vector_norm(x, 2, dims, keepdim)
    if len(dims) == 2:
        return matrix_norm(x, "fro" if ord is None else ord, (dims[0], dims[1]), keepdim)
    if len(dims) > 2 or isinstance(ord, str):
        raise ValueError(f"norm: ord {ord!r} takes a vector, a matrix or two dims, not {describe(x)} over {dims}")
    return vector_norm(x, ord, dims, keepdim)


def multi_dot(tensors: Any) -> Tensor:
    """The product of matrices, in the order that costs least."""
    chain = list(tensors)
    while len(chain) > 1:
        sizes = [chain[0].shape[0] if chain[0].ndim > 1 else 1, *(t.shape[-1] for t in chain)]
        i = max(range(1, len(chain)), key=lambda k: sizes[k])  # the widest joint goes first
        chain[i - 1 : i + 1] = [chain[i - 1] @ chain[i]]
    return chain[0]


def cross(a: Tensor, b: Tensor, dim: int = -1) -> Tensor:
    """The vector product along a dim of three."""
    if a.shape[dim] != 3 or b.shape[dim] != 3:
        raise ValueError(f"cross: dim {dim} of {describe(a)} and {describe(b)} must be of size 3")
    return a.roll(-1, dim) * b.roll(1, dim) - a.roll(1, dim) * b.roll(-1, dim)


for _function in (qr, pinv, matrix_power, cross):
    setattr(Tensor, _function.__name__, _function)
