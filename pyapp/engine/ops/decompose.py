"""Decompositions: QR, symmetric eigenvalues, pseudo-inverse, least squares; matrix powers, exponentials and norms."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import dtype as _dtype
from ..lazy import np
from ..op import describe, primitive
from ..shape import broadcast_shapes
from ..tensor import Tensor
from .base import array_of, computed, tensor_of
from .create import eye
from .elementwise import where
from .linalg import _lapack, _square, inverse, solve_triangular, svd
from .matmul import matmul
from .rearrange import diag_embed
from .view import cat, stack


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


def _d_pinv(g: Tensor, y: Tensor, x: Tensor, rcond: float | None) -> Any:
    """Golub and Pereyra 1973, "The differentiation of pseudo-inverses", 4.12; equal singular values do not matter."""
    left = g.mT - x @ (y @ g.mT)  # (I - x y) gᵀ
    right = g.mT - (g.mT @ y) @ x  # gᵀ (I - y x)
    return (left @ y @ y.mT + y.mT @ (y @ right) - y.mT @ g @ y.mT,)


@primitive(vjp=_d_pinv, saves="both", name="_pinv", method=False)
def _pinv(x: Tensor, rcond: float | None) -> Tensor:
    def compute(a: Any) -> Any:
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        limit = max(a.shape[-2:]) * np.finfo(a.dtype).eps if rcond is None else rcond
        kept = s > limit * s.max(-1, keepdims=True, initial=0)
        inverses = np.where(kept, 1 / np.where(kept, s, 1), 0)
        return (np.swapaxes(vh, -1, -2) * inverses[..., None, :]) @ np.swapaxes(u, -1, -2)

    return tensor_of(*_lapack("pinv", compute, x))


def pinv(x: Tensor, rcond: float | None = None) -> Tensor:
    """The Moore-Penrose inverse (..., N, M), through the singular values above rcond times the largest."""
    if x.ndim < 2:
        raise ValueError(f"pinv: takes matrices (..., M, N), got {describe(x)}")
    return _pinv(x, rcond)


class LeastSquares(NamedTuple):
    """What lstsq returns; what its driver does not tell is empty."""

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


DRIVERS = ("gels", "gelsy", "gelsd", "gelss")


def lstsq(A: Tensor, B: Tensor, rcond: float | None = None, *, driver: str | None = None) -> LeastSquares:
    """x with the least |A x - B|, as torch.linalg.lstsq. A (..., M, N), B (..., M, K) → (..., N, K); or B (..., M).

    Singular values up to rcond (by default max(M, N) ε) times the largest count as none; of several solutions it is
    the shortest. All of LAPACK's drivers are the same here but for what they tell: "gelsy" (the default), "gelsd" and
    "gelss" the rank (...), the latter two the singular values, and they and "gels" the sums of squares that are left,
    (..., K), where M > N and A has full rank.
    """
    vector = A.ndim > B.ndim and B.shape == A.shape[:-1]
    other = B.unsqueeze(-1) if vector else B
    if A.ndim < 2 or other.ndim != A.ndim or other.shape[-2] != A.shape[-2] or A.dtype is not B.dtype:
        raise ValueError(f"lstsq: takes A (..., M, N) and B (..., M, K) of one dtype, got {describe(A)}, {describe(B)}")
    if driver is not None and driver not in DRIVERS:
        raise ValueError(f"lstsq: driver is one of {', '.join(DRIVERS)}, not {driver!r}")
    m, n = A.shape[-2:]
    broadcast_shapes(A.shape[:-2], other.shape[:-2], op="lstsq")
    solution = pinv(A, rcond) @ other
    values = svdvals(A.detach())
    limit = max(m, n) * float(np.finfo(values.dtype.numpy_name).eps) if rcond is None else rcond
    rank = (values > values.amax(-1, True) * limit).sum(-1) if min(m, n) else values.sum(-1).to("int64")
    driver = driver or "gelsy"
    full_rank = driver == "gels" or (driver != "gelsy" and bool((rank == n).all()))
    nothing = A.new_zeros(0)
    return LeastSquares(
        solution.squeeze(-1) if vector else solution,
        (A @ solution - other).square().sum(-2) if full_rank and m > n else nothing,
        nothing.to("int64") if driver == "gels" else rank,
        values if driver in ("gelsd", "gelss") else nothing,
    )


def cond(A: Tensor, p: Any = None) -> Tensor:
    """The condition number of matrices (..., M, N) → (...): for p None, 2 or -2 of the singular values, for the other
    norms of matrix_norm |A| |A⁻¹|, of square ones; infinite where there is no inverse.
    """
    if A.ndim < 2:
        raise ValueError(f"cond: takes matrices (..., M, N), got {describe(A)}")
    by_values = p in (None, 2, -2)
    if not by_values:
        _square("cond", A)
    if not A.numel():
        return A.new_zeros(A.shape[:-2])
    if by_values:
        s = svdvals(A)
        return s[..., -1] / s[..., 0] if p == -2 else s[..., 0] / s[..., -1]
    if p == "nuc":
        s = svdvals(A)
        return s.sum(-1) * s.reciprocal().sum(-1)
    other = _norm_of_inverse(A, p)
    return where(other.isinf(), other, matrix_norm(A, p) * other)


def _norm_of_inverse(x: Tensor, p: Any) -> Tensor:
    try:
        return matrix_norm(inverse(x), p)
    except RuntimeError:  # at least one of them is singular
        if x.ndim == 2:
            return x.new_full((), float("inf"))
        return stack([_norm_of_inverse(part, p) for part in x])


# Of the Padé approximant of degree 13, and the 1-norm up to which it is exact to double precision.
PADE = (
    64764752532480000.0, 32382376266240000.0, 7771770303897600.0, 1187353796428800.0, 129060195264000.0,
    10559470521600.0, 670442572800.0, 33522128640.0, 1323241920.0, 40840800.0, 960960.0, 16380.0, 182.0, 1.0,
)  # fmt: skip
PADE_LIMIT = 5.371920351148152


def _exponential(a: Any) -> Any:
    """Scaling and squaring of float64 matrices (Higham 2005, "The scaling and squaring method revisited", 2.3)."""
    norms = np.abs(a).sum(-2).max(-1, initial=0)
    finite = np.where(np.isfinite(norms), norms, 0)
    halvings = np.ceil(np.log2(np.maximum(finite / PADE_LIMIT, 1)))[..., None, None]
    a = a / 2**halvings
    one = np.broadcast_to(np.eye(a.shape[-1]), a.shape)
    a2 = a @ a
    a4 = a2 @ a2
    a6 = a4 @ a2
    c = PADE
    odd = a6 @ (c[13] * a6 + c[11] * a4 + c[9] * a2) + c[7] * a6 + c[5] * a4 + c[3] * a2 + c[1] * one
    even = a6 @ (c[12] * a6 + c[10] * a4 + c[8] * a2) + c[6] * a6 + c[4] * a4 + c[2] * a2 + c[0] * one
    odd = a @ odd
    result = np.linalg.solve(even - odd, even + odd)
    for step in range(int(halvings.max(initial=0))):
        result = np.where(halvings > step, result @ result, result)
    return np.where(np.isfinite(norms)[..., None, None], result, np.nan)


def _d_matrix_exp(g: Tensor, _: Any, x: Tensor) -> Any:
    """The upper right block of exp([[xᵀ, g], [0, xᵀ]]) (Mathias 1996, "A chain rule for matrix functions")."""
    n = x.shape[-1]
    upper, lower = cat([x.mT, g], -1), cat([g * 0, x.mT], -1)
    return (matrix_exp(cat([upper, lower], -2))[..., :n, n:],)


@primitive(vjp=_d_matrix_exp, name="matrix_exp")
def matrix_exp(x: Tensor) -> Tensor:
    """The exponential of square matrices (..., N, N): the sum of xᵏ / k!."""
    _square("matrix_exp", x)
    computed("matrix_exp")
    if not x.dtype.is_floating_point:
        raise TypeError(f"matrix_exp: takes floating-point matrices, not {describe(x)}")
    with np.errstate(all="ignore"):
        found = _exponential(array_of(x, _dtype.float64))
    return tensor_of(found, x.dtype)


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
    for i, x in enumerate(chain):
        if not isinstance(x, Tensor) or not (x.ndim == 2 or (x.ndim == 1 and i in (0, len(chain) - 1))):
            raise ValueError(f"multi_dot: takes matrices, and vectors at the ends, not {describe(x)} at place {i}")
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
