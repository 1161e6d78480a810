"""Some of the largest or smallest eigenvalues of a symmetric matrix, without those between.

Knyazev 2001, "Toward the optimal preconditioned eigensolver: locally optimal block preconditioned conjugate gradient
method"; bases by Stathopoulos and Wu 2002, "A block orthogonalization procedure with constant synchronization
requirements".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...autograd import STATE, no_grad
from ...declare import function
from ...dtype import float32, float64
from ...numpy_arrays import array_of, tensor_of
from ...op import primitive
from ...tensor import Tensor
from ...user_errors import describe
from ..random import randn
from ..stacking import cat, stack
from .eigen import eigh

_TOLERANCES = {float32: 1.2e-7**0.5, float64: 2.23e-16**0.5}
_SMALLEST = {float32: 1e-6, float64: 1e-14}  # of a basis: squares of lengths below it times the largest are left out


class Progress:
    """What a tracker gets at each step: `ivars` with istep, iterations_left and converged_count, `fvars` with the norms
    A_norm and B_norm, `tvars` with rerr, the relative residuals (n,); `E` and `X` so far. It may set
    `bvars["force_stop"]`.
    """

    def __init__(self, iterations: int) -> None:
        self.ivars = {"istep": 1, "iterations_left": iterations, "converged_count": 0}
        self.fvars: dict[str, float] = {}
        self.bvars: dict[str, bool] = {}
        self.tvars: dict[str, Tensor] = {}
        self.E: Tensor | None = None
        self.X: Tensor | None = None


def _times(matrix: Tensor | None, x: Tensor) -> Tensor:
    return x if matrix is None else matrix @ x


def _basis(s: Tensor, b: Tensor | None) -> Tensor:
    """T, such that the columns of S T have length 1 and are orthogonal to one another, by B; those that depend on
    others are left out."""
    gram = s.mT @ _times(b, s)
    scale = gram.diagonal().clamp(min=1e-300 if s.dtype is float64 else 1e-30).rsqrt()
    values, vectors = eigh(gram * scale * scale.unsqueeze(-1))
    kept = values > values.max() * _SMALLEST[s.dtype]
    first = int((~kept).sum())
    turned: Tensor = scale.unsqueeze(-1) * vectors[:, first:] * values[first:].rsqrt()
    return turned


def _extremes(s: Tensor, a: Tensor, turned: Tensor, count: int, largest: bool) -> tuple[Tensor, Tensor]:
    """Eigenvalues (count,) of A on the space of S, and their vectors as sums of the columns of S."""
    q = s @ turned
    values, vectors = eigh(q.mT @ (a @ q))
    if largest:
        values, vectors = values.flip(0), vectors.flip(1)
    return values[:count], turned @ vectors[:, :count]


def _pairs(
    a: Tensor, b: Tensor | None, x: Tensor, wanted: int, k_inverse: Tensor | None, rounds: int, tolerance: float,
    largest: bool, tracker: Callable[[Progress], Any] | None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Of one matrix: (n,) and (m, n)."""
    count = x._shape[1]
    norm = float(x.norm())
    progress = Progress(rounds)
    a_norm, b_norm = float((a @ x).norm()) / norm, float(_times(b, x).norm()) / norm
    progress.fvars.update(X_norm=norm, A_norm=a_norm, B_norm=b_norm)
    values, mixed = _extremes(x, a, _basis(x, b), count, largest)
    x, before = x @ mixed, None
    while True:
        residual = a @ x - _times(b, x) * values
        errors = residual.norm(dim=0) / (x.norm(dim=0) * (a_norm + values.abs() * b_norm))
        right = [bool(ok) for ok in (errors < tolerance).tolist()]
        progress.ivars["converged_count"] = right.index(False) if False in right else len(right)
        progress.tvars["rerr"], progress.E, progress.X = errors, values, x
        if tracker is not None:
            tracker(progress)
        done = progress.ivars["converged_count"] >= wanted or progress.bvars.get("force_stop", False)
        if done or progress.ivars["iterations_left"] == 0:
            return values, x
        progress.ivars["iterations_left"] -= 1
        progress.ivars["istep"] += 1
        more = [_times(k_inverse, residual)] + ([before] if before is not None else [])
        space = cat([x, *more], 1)
        lengths = space.norm(dim=0)
        space = space / lengths.where(lengths > 0, 1.0)
        values, mixed = _extremes(space, a, _basis(space, b), count, largest)
        x, before = space @ mixed, space[:, count:] @ mixed[count:]


def _d_chosen(g: Tensor, y: Tensor, a: Tensor, pairs: Tensor, largest: bool) -> Any:
    """That of eigh, of the chosen pairs: the other eigenvalues are computed here."""
    values, vectors = y[..., 0, :], y[..., 1:, :]
    g_values, g_vectors = g[..., 0, :], g[..., 1:, :]
    every, whole = eigh(a)
    if largest:
        every, whole = every.flip(-1), whole.flip(-1)
    gaps = values.unsqueeze(-2) - every.unsqueeze(-1)  # (..., m, k): between each chosen value and every one
    own = gaps.new_ones(gaps._shape[-2:]).triu().tril()
    inner = (whole.mT @ g_vectors) * (1 - own) / (gaps + own)
    found = (vectors * g_values.unsqueeze(-2) + whole @ inner) @ vectors.mT
    return ((found + found.mT) * 0.5,)


@primitive(vjp=_d_chosen, saves="both", name="_chosen_eigenpairs")
def _chosen(a: Tensor, pairs: Tensor, largest: bool) -> Tensor:
    """The pairs, as a function of the matrix."""
    return tensor_of(array_of(pairs).copy())


def _start(a: Tensor, x: Tensor | None, k: int | None, n: int | None) -> Tensor:
    if x is not None:
        return x
    count = (1 if k is None else k) if n is None else n
    return randn((*a._shape[:-1], count), dtype=a.dtype, device=a.device)


@function()
def lobpcg(
    A: Tensor, k: int | None = None, B: Tensor | None = None, X: Tensor | None = None, n: int | None = None,
    iK: Tensor | None = None, niter: int | None = None, tol: float | None = None, largest: bool | None = None,
    method: str | None = None, tracker: Callable[[Any], Any] | None = None, ortho_iparams: Any = None,
    ortho_fparams: Any = None, ortho_bparams: Any = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """The `k` largest (or with `largest` False smallest) eigenvalues (..., k) of symmetric A (..., m, m), dense or
    sparse, and their vectors (..., m, k): A V = B V diag(E). B is symmetric and positive definite, by default 1. It
    begins with X (..., m, n), by default random, and stops when the relative residuals are below `tol`, or after
    `niter` steps (1000; -1: no limit). `iK`: about the inverse of A, which makes it faster. `tracker(progress)` is
    called at each step. Bases are made in one way, whatever `method` ("basic" or "ortho") and its settings.

    The gradient, for dense A without B, costs a whole eigh. ValueError if m is below 3 n.
    """
    if method not in (None, "basic", "ortho"):
        raise ValueError(f"lobpcg: method is 'basic' or 'ortho', not {method!r}")
    if A.ndim < 2 or A._shape[-1] != A._shape[-2] or A.dtype not in _TOLERANCES:
        raise ValueError(f"lobpcg: takes symmetric matrices of float32 or float64, got {describe(A)}")
    size, start = A._shape[-1], _start(A, X, k, n)
    count = start._shape[-1]
    wanted = (1 if X is None else count) if k is None else k
    if size < 3 * count or not 0 < wanted <= count:
        raise ValueError(
            f"lobpcg: {count} vectors and {wanted} eigenvalues do not fit a matrix of {size} rows: it needs three "
            "times as many rows as vectors, and a vector for each eigenvalue; use linalg.eigh for small matrices"
        )
    if B is not None and (B.requires_grad or A.requires_grad) and STATE.enabled:
        raise RuntimeError("lobpcg: there is no gradient with B; use linalg.eigh of a transformed matrix")
    rounds, tolerance = 1000 if niter is None else niter, _TOLERANCES[A.dtype] if tol is None else tol
    upwards = largest is not False
    with no_grad():
        if A.ndim == 2:
            values, vectors = _pairs(A, B, start, wanted, iK, rounds, tolerance, upwards, tracker)
        else:
            flat = A.reshape(-1, size, size)
            parts = [None if y is None else y.expand(*A._shape[:-2], *y._shape[-2:]) for y in (B, start, iK)]
            b, x, inverse = (None if y is None else y.reshape(-1, *y._shape[-2:]) for y in parts)
            assert x is not None
            found = [
                _pairs(
                    flat[i], b if b is None else b[i], x[i], wanted, inverse if inverse is None else inverse[i], rounds,
                    tolerance, upwards, tracker,
                )
                for i in range(flat._shape[0])
            ]  # fmt: skip
            values = stack([each for each, _ in found]).reshape(*A._shape[:-2], count)
            vectors = stack([each for _, each in found]).reshape(*A._shape[:-1], count)
        values, vectors = values[..., :wanted], vectors[..., :wanted]
    if not (A.requires_grad and STATE.enabled and A.dense):
        return values, vectors
    pairs = _chosen(A, cat([values.unsqueeze(-2), vectors], -2), upwards)
    return pairs[..., 0, :], pairs[..., 1:, :]
