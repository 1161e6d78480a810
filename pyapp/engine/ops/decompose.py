"""Decompositions: QR, symmetric eigenvalues, pseudo-inverse, least squares; matrix powers, exponentials and norms."""

from __future__ import annotations

from typing import Any, NamedTuple

from .. import dtype as _dtype
from ..lazy import np
from ..op import describe, primitive
from ..shape import broadcast_shapes, normalize_dim
from ..tensor import Tensor
from .base import array_of, computed, tensor_of
from .create import eye
from .elementwise import maximum, where
from .linalg import _lapack, _square, inverse, over_gaps, solve_triangular, svd, svdvals
from .matmul import matmul
from .rearrange import diag_embed, diagonal
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


class QR(NamedTuple):
    Q: Tensor
    R: Tensor


MODES = ("reduced", "complete", "r")


def linalg_qr(x: Tensor, mode: str = "reduced") -> QR:
    """x = Q R: orthonormal columns in Q, R upper triangular. x (..., M, N) → Q (..., M, K), R (..., K, N) with K the
    smaller of M and N; mode "complete": K is M, and what Q has more is not differentiated; "r": without Q, which is
    empty.
    """
    if x.ndim < 2 or mode not in MODES:
        raise ValueError(f"qr: takes matrices (..., M, N) and mode {', '.join(MODES)}, got {describe(x)}, {mode!r}")
    m, n = x.shape[-2:]
    packed = _qr(x if m >= n else x[..., :m])
    q, r = packed[..., :m, :], packed[..., m:, :]
    if m < n:
        r = cat([r, q.mT @ x[..., m:]], -1)  # the further columns follow from Q
    if mode == "r":
        return QR(x.new_zeros(0), r)
    if mode == "complete" and m > n:
        return QR(cat([q, _further_columns(x)], -1), cat([r, r.new_zeros((*r.shape[:-2], m - n, n))], -2))
    return QR(q, r)


def qr(x: Tensor, some: bool | str = True) -> QR:
    """torch.qr: linalg.qr's mode "reduced", or "complete" unless `some`."""
    return linalg_qr(x, some if isinstance(some, str) else "reduced" if some else "complete")


def _no_gradient(*_: Any) -> Any:
    raise RuntimeError("qr: what Q has more in mode 'complete' has no gradient; take mode 'reduced'")


@primitive(vjp=_no_gradient, saves="none", name="_further_columns", method=False)
def _further_columns(x: Tensor) -> Tensor:
    return tensor_of(*_lapack("qr", lambda a: np.linalg.qr(a, "complete")[0][..., a.shape[-1] :], x))


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


@primitive(vjp=_d_eigh, saves="both", name="_eigh", method=False)
def _eigh(x: Tensor, triangle: Any) -> Tensor:
    """Eigenvalues as a row over eigenvectors as columns: (..., 1 + N, N)."""

    def compute(a: Any) -> Any:
        values, vectors = np.linalg.eigh(a, triangle)
        return np.concatenate([values[..., None, :], vectors], -2)

    return tensor_of(*_lapack("eigh", compute, x))


class Eigen(NamedTuple):
    eigenvalues: Tensor
    eigenvectors: Tensor


def eigh(x: Tensor, UPLO: str = "L") -> Eigen:
    """(eigenvalues ascending (..., N), eigenvectors as columns (..., N, N)) of symmetric x, of which one triangle is
    read. The gradient is that of the whole symmetric matrix; undefined for equal eigenvalues.
    """
    _square("eigh", x)
    if UPLO not in ("L", "U"):
        raise ValueError(f"eigh: UPLO is 'L' or 'U', not {UPLO!r}")
    packed = _eigh(x, UPLO)
    return Eigen(packed[..., 0, :], packed[..., 1:, :])


def eigvalsh(x: Tensor, UPLO: str = "L") -> Tensor:
    """The eigenvalues of eigh."""
    return eigh(x, UPLO)[0]


class LinalgSVD(NamedTuple):
    U: Tensor
    S: Tensor
    Vh: Tensor


def linalg_svd(x: Tensor, full_matrices: bool = True, *, driver: str | None = None) -> LinalgSVD:
    """(U, S, Vᵀ), as torch.linalg.svd: U (..., M, M), S (..., K), Vᵀ (..., N, N), or K columns and rows of them unless
    `full_matrices`; what they have beyond K gets no gradient."""
    u, s, v = svd(x, not full_matrices)
    return LinalgSVD(u, s, v.mT)


def _d_pinv(g: Tensor, y: Tensor, x: Tensor, *_: Any) -> Any:
    """Golub and Pereyra 1973, "The differentiation of pseudo-inverses", 4.12; equal singular values do not matter."""
    left = g.mT - x @ (y @ g.mT)  # (I - x y) gᵀ
    right = g.mT - (g.mT @ y) @ x  # gᵀ (I - y x)
    return (left @ y @ y.mT + y.mT @ (y @ right) - y.mT @ g @ y.mT,)


@primitive(vjp=_d_pinv, saves="both", name="_pinv", method=False)
def _pinv(x: Tensor, limit: Tensor) -> Tensor:
    """limit (...): up to which singular values count as none."""

    def compute(a: Any, limit: Any) -> Any:
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        kept = s > limit[..., None]
        inverses = np.where(kept, 1 / np.where(kept, s, 1), 0)
        return (np.swapaxes(vh, -1, -2) * inverses[..., None, :]) @ np.swapaxes(u, -1, -2)

    return tensor_of(*_lapack("pinv", compute, x, limit))


def _limit(x: Tensor, largest: Tensor, atol: Any, rtol: Any) -> Tensor:
    """Up to where singular values count as none (...): the larger of atol and rtol times the largest; rtol is by
    default max(M, N) ε, and 0 where atol alone is given."""
    if rtol is None:
        eps = float(np.finfo(largest.dtype.numpy_name).eps)
        rtol = max(x.shape[-2:]) * eps if atol is None else 0.0
        if isinstance(atol, Tensor):
            rtol = where(atol > 0, 0.0, max(x.shape[-2:]) * eps)
    limit = largest * rtol
    return limit if atol is None else maximum(limit, atol if isinstance(atol, Tensor) else limit.new_full((), atol))


def _largest(values: Tensor) -> Tensor:
    return values.amax(-1) if values.shape[-1] else values.sum(-1)


def pinv(
    x: Tensor, rcond: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:  # fmt: skip
    """The Moore-Penrose inverse (..., N, M), through the singular values above atol and rtol (or rcond) times the
    largest; by default max(M, N) ε times."""
    if x.ndim < 2:
        raise ValueError(f"pinv: takes matrices (..., M, N), got {describe(x)}")
    if hermitian:
        _square("pinv", x)
    if not x.dtype.is_floating_point:
        raise TypeError(f"pinv: takes floating-point matrices, not {describe(x)}")
    limit = _limit(x, _largest(svdvals(x.detach())), atol, rcond if rtol is None else rtol)
    return _pinv(x, limit.to(x.dtype))


def pinverse(x: Tensor, rcond: float = 1e-15) -> Tensor:
    """pinv with torch.pinverse's limit."""
    return pinv(x, rcond)


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


def matrix_rank(
    x: Tensor, tol: Any = None, hermitian: bool = False, *, atol: Any = None, rtol: Any = None
) -> Tensor:  # fmt: skip
    """How many singular values are above atol (or tol) and rtol times the largest, by default max(M, N) ε times; of the
    eigenvalues' sizes where `hermitian`, which are the same."""
    s = svdvals(x.detach())
    return (s > _limit(x, _largest(s), tol if atol is None else atol, rtol).unsqueeze(-1)).sum(-1)


def vector_norm(x: Tensor, ord: float = 2, dim: Any = None, keepdim: bool = False) -> Tensor:
    """The p-norm over dims (all of them by default)."""
    return x.norm(ord, dim, keepdim)


def matrix_norm(x: Tensor, ord: Any = "fro", dim: tuple[int, int] = (-2, -1), keepdim: bool = False) -> Tensor:
    """ord: "fro", "nuc", ±inf, ±1 or ±2 (singular values)."""
    a, b = (normalize_dim(d, x.ndim, "matrix_norm") for d in dim)
    if x.ndim < 2 or a == b:
        raise ValueError(f"matrix_norm: takes matrices and two dims, got {describe(x)} and {dim}")
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


def linalg_cross(a: Tensor, b: Tensor, *, dim: int = -1) -> Tensor:
    """The vector product along a dim of three; broadcast."""
    d = normalize_dim(dim, a.ndim, "cross")
    if a.ndim != b.ndim or not a.ndim or a.shape[d] != 3 or b.shape[d] != 3:
        raise ValueError(f"cross: takes tensors with as many dims and 3 in dim {dim}, got {describe(a)}, {describe(b)}")
    return a.roll(-1, d) * b.roll(1, d) - a.roll(1, d) * b.roll(-1, d)


def cross(a: Tensor, b: Tensor, dim: int | None = None) -> Tensor:
    """The vector product along a dim of three: the first one, unless given, as torch.cross."""
    if dim is None and 3 in a.shape:
        dim = a.shape.index(3)
    return linalg_cross(a, b, dim=-1 if dim is None else dim)


for _function in (qr, pinv, pinverse, matrix_power, cross):
    setattr(Tensor, _function.__name__, _function)
