"""Linear algebra: products by letters, solving, decompositions (NumPy's LAPACK)."""

from __future__ import annotations

from typing import Any, NamedTuple

from ...errors import LinAlgError
from .. import dtype as _dtype
from ..lazy import np
from ..op import describe, primitive
from ..shape import broadcast_shapes
from ..tensor import Tensor
from .base import array_of, common_dtype, computed, same_device, tensor_of
from .elementwise import where
from .matmul import _sum_to, bmm, matmul
from .rearrange import diag_embed, diagonal
from .view import cat, expand, permute, reshape


def dot(a: Tensor, b: Tensor) -> Tensor:
    """Σ a b of two vectors."""
    if a.ndim != 1 or b.ndim != 1 or a.shape != b.shape:
        raise ValueError(f"dot: takes two vectors of one length, got {describe(a)} and {describe(b)}")
    return matmul(a, b)


def outer(a: Tensor, b: Tensor) -> Tensor:
    """a (N,), b (M,) → (N, M)."""
    if a.ndim != 1 or b.ndim != 1:
        raise ValueError(f"outer: takes two vectors, got {describe(a)} and {describe(b)}")
    return a.unsqueeze(1) * b


def mm(a: Tensor, b: Tensor) -> Tensor:
    """(M, K) @ (K, N)."""
    if a.ndim != 2 or b.ndim != 2:
        raise ValueError(f"mm: takes two matrices, got {describe(a)} and {describe(b)}")
    return matmul(a, b)


def mv(a: Tensor, b: Tensor) -> Tensor:
    """(M, K) @ (K,)."""
    if a.ndim != 2 or b.ndim != 1:
        raise ValueError(f"mv: takes a matrix and a vector, got {describe(a)} and {describe(b)}")
    return matmul(a, b)


def _added(x: Tensor, product: Tensor, beta: float, alpha: float) -> Tensor:
    if alpha != 1:
        product = product * alpha
    return product if beta == 0 else (x if beta == 1 else x * beta) + product


def addmm(x: Tensor, a: Tensor, b: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta x + alpha (a @ b); where beta is 0, x is not read."""
    return _added(x, mm(a, b), beta, alpha)


def baddbmm(x: Tensor, a: Tensor, b: Tensor, beta: float = 1, alpha: float = 1) -> Tensor:
    """beta x + alpha bmm(a, b)."""
    return _added(x, bmm(a, b), beta, alpha)


def trace(x: Tensor) -> Tensor:
    """Sum of a matrix's diagonal."""
    if x.ndim != 2:
        raise ValueError(f"trace: takes a matrix, got {describe(x)}")
    return diagonal(x).sum()


# -- einsum


def _letters(part: str, x: Tensor, hidden: int) -> list[str]:
    """The label of each dim; those of the ellipsis are "0", "1", … counted from the right, `hidden` in all."""
    if part.count(".") not in (0, 3) or (part.count(".") and "..." not in part):
        raise ValueError(f"einsum: {part!r} holds dots that are no ellipsis")
    before, dots, after = part.partition("...")
    count = x.ndim - len(before) - len(after) if dots else 0
    labels = [*before, *(str(hidden - count + i) for i in range(max(count, 0))), *after]
    if len(labels) != x.ndim or count < 0:
        raise ValueError(f"einsum: {part!r} does not name the dims of {describe(x)}")
    return labels


def _parse(equation: str, operands: list[Tensor]) -> tuple[list[list[str]], list[str]]:
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    parts = inputs.split(",")
    if len(parts) != len(operands):
        raise ValueError(f"einsum: {equation!r} names {len(parts)} operands, got {len(operands)}")
    if not all(c.isascii() and c.isalpha() or c == "." for part in (*parts, output) for c in part):
        raise ValueError(f"einsum: {equation!r} may hold letters, commas, '...' and one '->'")
    hidden = max([x.ndim - len(p) + 3 for p, x in zip(parts, operands, strict=True) if "..." in p], default=0)
    labels = [_letters(p, x, hidden) for p, x in zip(parts, operands, strict=True)]
    dots = [str(i) for i in range(hidden)]
    every = [c for letters in labels for c in letters]
    if arrow:
        before, ellipsis, after = output.partition("...")
        result = [*before, *(dots if ellipsis else []), *after]
    else:
        result = dots + sorted(c for c in set(every) if c.isalpha() and every.count(c) == 1)
    if len(set(result)) != len(result) or not set(result) <= set(every):
        raise ValueError(f"einsum: the output of {equation!r} must name dims of the inputs, each once")
    return labels, result


def _one_each(x: Tensor, labels: list[str]) -> tuple[Tensor, list[str]]:
    """Labels that stand twice become diagonals."""
    for label in dict.fromkeys(labels):
        while labels.count(label) > 1:
            first = labels.index(label)
            second = labels.index(label, first + 1)
            if x.shape[first] != x.shape[second]:
                raise ValueError(f"einsum: {label!r} names dims of different sizes in {describe(x)}")
            x = diagonal(x, 0, first, second)
            labels = [c for i, c in enumerate(labels) if i not in (first, second)] + [label]
    return x, labels


def _contract(
    a: Tensor, la: list[str], b: Tensor, lb: list[str], kept: set[str], sizes: dict[str, int]
) -> tuple[Tensor, list[str]]:
    """One product of two operands as a batched matrix product; labels outside `kept` are summed over."""
    a, la = _summed(a, la, kept | set(lb))
    b, lb = _summed(b, lb, kept | set(la))
    batch = [c for c in la if c in lb and c in kept]
    inner = [c for c in la if c in lb and c not in kept]
    left, right = [c for c in la if c not in lb], [c for c in lb if c not in la]

    def arranged(x: Tensor, labels: list[str], *groups: list[str]) -> Tensor:
        order = [c for group in groups for c in group]
        x = permute(x, tuple(labels.index(c) for c in order))
        own = {*batch, *inner}
        x = expand(x, tuple(sizes[c] if c in own else n for c, n in zip(order, x.shape, strict=True)))
        counts = []
        for group in groups:
            count = 1
            for c in group:
                count *= sizes[c] if c in own else x.shape[order.index(c)]
            counts.append(count)
        return reshape(x, tuple(counts))

    product = matmul(arranged(a, la, batch, left, inner), arranged(b, lb, batch, inner, right))
    outside = [a.shape[la.index(c)] for c in left] + [b.shape[lb.index(c)] for c in right]
    return reshape(product, (*(sizes[c] for c in batch), *outside)), batch + left + right


def _summed(x: Tensor, labels: list[str], kept: set[str]) -> tuple[Tensor, list[str]]:
    gone = [i for i, c in enumerate(labels) if c not in kept]
    return (x.sum(gone), [c for c in labels if c in kept]) if gone else (x, labels)


def _from_lists(operands: tuple[Any, ...]) -> tuple[str, list[Any]]:
    """einsum(x, [0, 1], y, [1, 2], [0, 2]) in letters."""
    letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"

    def spelt(places: Any) -> str:
        return "".join("..." if place is Ellipsis else letters[place] for place in places)

    result = "->" + spelt(operands[-1]) if len(operands) % 2 else ""
    pairs = operands[: len(operands) // 2 * 2]
    return ",".join(map(spelt, pairs[1::2])) + result, list(pairs[::2])


def einsum(equation: Any, *operands: Any) -> Tensor:
    """Sums of products in Einstein's notation, as torch.einsum: letters, "...", repeated letters, "->" or none; or each
    operand followed by a list of numbers, and one for the result.
    """
    if isinstance(equation, Tensor):
        return einsum(*_from_lists((equation, *operands)))
    given = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    tensors = list(given)
    same_device("einsum", *tensors)
    labels, result = _parse(equation, tensors)
    pairs = [_one_each(x, names) for x, names in zip(tensors, labels, strict=True)]
    sizes: dict[str, int] = {}
    for x, names in pairs:
        for c, n in zip(names, x.shape, strict=True):
            if sizes.get(c, 1) not in (1, n) and n != 1:
                raise ValueError(f"einsum: {c!r} of {equation!r} is {sizes[c]} in one operand, {n} in {describe(x)}")
            sizes[c] = n if sizes.get(c, 1) == 1 else sizes[c]
    x, names = pairs[0]
    for i, (other, theirs) in enumerate(pairs[1:], 1):
        kept = set(result).union(*(later for _, later in pairs[i + 1 :]))
        x, names = _contract(x, names, other, theirs, kept, sizes)
    x, names = _summed(x, names, set(result))
    return permute(x, tuple(names.index(c) for c in result)) if result else x


# -- solving and decompositions


def _lapack(name: str, function: Any, *tensors: Tensor) -> Any:
    """NumPy's result in float32 or float64 and its dtype; RuntimeError where a matrix does not allow it."""
    computed(name)
    kind = common_dtype(*tensors)
    if not kind.is_floating_point:
        raise TypeError(f"{name}: takes floating-point matrices, not {' and '.join(describe(t) for t in tensors)}")
    compute = _dtype.float64 if kind is _dtype.float64 else _dtype.float32
    arrays = [array_of(t, compute) for t in tensors]
    problem = "the matrix is singular or not positive-definite"
    try:
        with np.errstate(all="ignore"):
            value = function(*arrays)
    except np.linalg.LinAlgError as error:
        problem, value = str(error), None
    # In WebAssembly, which has no floating-point flags, NumPy does not raise but leaves NaN.
    if value is None or (np.isnan(value).any() and all(np.isfinite(a).all() for a in arrays)):
        raise LinAlgError(f"{name}: {problem} ({' and '.join(describe(t) for t in tensors)})")
    return value, kind


def _square(name: str, x: Tensor) -> None:
    if x.ndim < 2 or x.shape[-1] != x.shape[-2]:
        raise ValueError(f"{name}: takes square matrices (..., N, N), got {describe(x)}")


@primitive(vjp=lambda g, y, x: (-(y.mT @ g @ y.mT),), saves="output")
def inverse(x: Tensor) -> Tensor:
    """The inverse of (..., N, N). RuntimeError where it is singular."""
    _square("inverse", x)
    return tensor_of(*_lapack("inverse", lambda a: np.linalg.inv(a), x))


def _d_solve(g: Tensor, y: Tensor, a: Tensor, b: Tensor) -> Any:
    grad_b = solve(a.mT, g)
    grad_a = -(grad_b @ y.mT)
    return _sum_to(grad_a, a.shape), _sum_to(grad_b, b.shape)


@primitive(vjp=_d_solve, saves="both", name="_solve", method=False)
def _solve(a: Tensor, b: Tensor) -> Tensor:
    return tensor_of(*_lapack("solve", lambda m, n: np.linalg.solve(m, n), a, b))


def solve(a: Tensor, b: Tensor, *, left: bool = True) -> Tensor:
    """x of a x = b, as torch.linalg.solve: a (..., N, N), b (N,) or (..., N, K); x of x a = b unless `left`.
    LinAlgError where a is singular."""
    _square("solve", a)
    if not left:
        return solve(a.mT, b) if b.ndim == 1 else solve(a.mT, b.mT).mT
    same_device("solve", a, b)
    vector = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    if b.shape[-1 if vector else -2] != a.shape[-1]:
        raise ValueError(f"solve: {describe(a)} does not fit {describe(b)}")
    if vector:
        return _solve(a, b.unsqueeze(-1)).squeeze(-1)
    broadcast_shapes(a.shape[:-2], b.shape[:-2], op="solve")
    return _solve(a, b)


def solve_triangular(a: Tensor, b: Tensor, *, upper: bool, left: bool = True, unitriangular: bool = False) -> Tensor:
    """x of a x = b (left) or x a = b, as torch.linalg.solve_triangular; only one triangle of a is read."""
    _square("solve_triangular", a)
    side = -2 if left else -1
    if b.ndim < 2 or b.shape[side] != a.shape[-1]:
        raise ValueError(f"solve_triangular: {describe(a)} does not fit {describe(b)}")
    if unitriangular:
        from .create import eye

        a = (a.triu(1) if upper else a.tril(-1)) + eye(a.shape[-1], dtype=a.dtype)
    else:
        a = a.triu() if upper else a.tril()
    return solve(a, b) if left else solve(a.mT, b.mT).mT


def _d_cholesky(g: Tensor, y: Tensor, x: Tensor) -> Any:
    """Murray 2016, arXiv 1602.07527."""
    inner = (y.mT @ g).tril()
    inner = inner - diag_embed(diagonal(inner, 0, -2, -1)) * 0.5
    whole = solve(y.mT, solve(y.mT, inner.mT).mT)  # L⁻ᵀ inner L⁻¹
    return ((whole + whole.mT) * 0.5,)


@primitive(vjp=_d_cholesky, saves="output")
def cholesky(x: Tensor) -> Tensor:
    """The lower triangle L of x = L Lᵀ for symmetric, positive-definite x (..., N, N), else RuntimeError."""
    _square("cholesky", x)
    return tensor_of(*_lapack("cholesky", lambda a: np.linalg.cholesky(a), x))


cholesky.by_name = lambda x, upper=False: cholesky(x).mT if upper else cholesky(x)


@primitive(vjp=None, name="_cofactors", method=False)
def _cofactors(x: Tensor) -> Tensor:
    """The gradient of det, of singular matrices too: from the singular values."""

    def compute(a: Any) -> Any:
        u, s, vh = np.linalg.svd(a)
        others = np.stack([np.prod(np.delete(s, i, -1), -1) for i in range(s.shape[-1])], -1)
        return (np.linalg.det(u) * np.linalg.det(vh))[..., None, None] * ((u * others[..., None, :]) @ vh)

    return tensor_of(*_lapack("det", compute, x))


def _d_det(g: Tensor, y: Tensor, x: Tensor) -> Any:
    g = g.unsqueeze(-1).unsqueeze(-1)
    if not x.shape[-1] or bool((y == 0).any()):
        return (g * _cofactors(x) if x.numel() else x * 0,)
    return (g * y.unsqueeze(-1).unsqueeze(-1) * inverse(x).mT,)


@primitive(vjp=_d_det, saves="both")
def det(x: Tensor) -> Tensor:
    """Determinants of (..., N, N)."""
    _square("det", x)
    return tensor_of(*_lapack("det", lambda a: np.linalg.det(a), x))


@primitive(
    vjp=lambda g, _, x: (g.unsqueeze(-1).unsqueeze(-1) * inverse(x).mT,), name="_log_abs_det", method=False
)  # fmt: skip
def _log_abs_det(x: Tensor) -> Tensor:
    return tensor_of(*_lapack("slogdet", lambda a: np.linalg.slogdet(a)[1], x))


class LogDeterminant(NamedTuple):
    sign: Tensor
    logabsdet: Tensor


def slogdet(x: Tensor) -> LogDeterminant:
    """(sign, log|det|) of (..., N, N)."""
    _square("slogdet", x)
    sign, kind = _lapack("slogdet", lambda a: np.linalg.slogdet(a)[0], x)
    return LogDeterminant(tensor_of(sign, kind), _log_abs_det(x))


def _parts(packed: Tensor, m: int, n: int) -> tuple[Tensor, Tensor, Tensor]:
    """U (..., M, K), S (..., K), V (..., N, K) of their packed form (..., M + 1 + N, K)."""
    return packed[..., :m, :], packed[..., m, :], packed[..., m + 1 :, :]


def over_gaps(skew: Tensor, values: Tensor) -> Tensor:
    """skew[i, j] / (values[j] - values[i]); where skew is 0, as on the diagonal and where no vector is used, 0."""
    gaps = values.unsqueeze(-2) - values.unsqueeze(-1)
    unused = skew == 0
    return where(unused, 0.0, skew) / where(unused, 1.0, gaps)


def _d_svd(g: Tensor, y: Tensor, x: Tensor) -> Any:
    """Townsend 2016, "Differentiating the singular value decomposition"; undefined for equal singular values."""
    m, n = x.shape[-2:]
    u, s, v = _parts(y, m, n)
    gu, gs, gv = _parts(g.contiguous(), m, n)
    squares = s * s
    row, column = s.unsqueeze(-2), s.unsqueeze(-1)
    skew_u, skew_v = u.mT @ gu, v.mT @ gv
    turn_u, turn_v = over_gaps(skew_u - skew_u.mT, squares), over_gaps(skew_v - skew_v.mT, squares)
    core = turn_u * row + column * turn_v + diag_embed(gs)
    whole = u @ core @ v.mT
    if m > s.shape[-1]:
        whole = whole + ((gu - u @ skew_u) / row) @ v.mT
    if n > s.shape[-1]:
        whole = whole + (u / row) @ (gv - v @ skew_v).mT
    return (whole,)


@primitive(vjp=_d_svd, saves="both", name="_svd", method=False)
def _svd(x: Tensor) -> Tensor:
    def compute(a: Any) -> Any:
        u, s, vh = np.linalg.svd(a, full_matrices=False)
        return np.concatenate([u, s[..., None, :], np.swapaxes(vh, -1, -2)], -2)

    return tensor_of(*_lapack("svd", compute, x))


class SVD(NamedTuple):
    """x = U diag(S) Vᵀ."""

    U: Tensor
    S: Tensor
    V: Tensor


def svd(x: Tensor, some: bool = True, compute_uv: bool = True) -> SVD:
    """x = U diag(S) Vᵀ, as torch.svd: x (..., M, N) → U (..., M, K), S (..., K), V (..., N, K); U and V square unless
    `some`, zeros unless `compute_uv`. What a square one has more gets no gradient."""
    if x.ndim < 2:
        raise ValueError(f"svd: takes matrices (..., M, N), got {describe(x)}")
    if not compute_uv:
        m, n = x.shape[-2:]
        return SVD(x.new_zeros((*x.shape[:-2], m, m)), svdvals(x), x.new_zeros((*x.shape[:-2], n, n)))
    u, s, v = _parts(_svd(x), *x.shape[-2:])
    return SVD(u, s, v) if some else SVD(_completed(u), s, _completed(v))


def _completed(basis: Tensor) -> Tensor:
    """Orthonormal columns (..., M, K) and further ones behind them, (..., M, M), which have no gradient."""
    m, k = basis.shape[-2:]
    if m == k:
        return basis

    def compute(a: Any) -> Any:
        return np.linalg.qr(a, "complete")[0][..., k:]

    return cat([basis, tensor_of(*_lapack("svd", compute, basis.detach()))], -1)


def _d_svdvals(g: Tensor, _: Tensor, x: Tensor) -> Any:
    u, _, v = svd(x)
    return ((u * g.unsqueeze(-2)) @ v.mT,)


@primitive(vjp=_d_svdvals, name="_svdvals", method=False)
def _svdvals(x: Tensor) -> Tensor:
    return tensor_of(*_lapack("svdvals", lambda a: np.linalg.svd(a, compute_uv=False), x))


def svdvals(x: Tensor) -> Tensor:
    """Singular values (..., min(M, N)), descending."""
    if x.ndim < 2:
        raise ValueError(f"svdvals: takes matrices (..., M, N), got {describe(x)}")
    return _svdvals(x)


for _function in (dot, outer, mm, mv, addmm, baddbmm, trace, slogdet, svd):
    setattr(Tensor, _function.__name__, _function)
