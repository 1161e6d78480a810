"""Distances between tensors and between rows."""

from __future__ import annotations

from math import prod

from ..autocast import in_full_precision_on_cards
from ..declare import function
from ..launch import constants
from ..lazy import np
from ..numpy_arrays import int64_tensor
from ..op import op
from ..operands import refuse_complex
from ..tensor import Tensor
from ..user_errors import describe
from .composite_gradient import fused_gradient
from .elementwise.select import where
from .stacking import cat
from .view import reshape

FEW = 25  # rows, of which each difference is computed
DIFFERENCES = 1 << 24  # numbers in memory at once
MODES = ("use_mm_for_euclid_dist_if_necessary", "use_mm_for_euclid_dist", "donot_use_mm_for_euclid_dist")


@function(method=True)
def dist(a: Tensor, b: Tensor, p: float = 2) -> Tensor:
    """The p-norm of a - b."""
    return (a - b).norm(p)


@function(arguments="x1 x2")
@in_full_precision_on_cards
def cdist(a: Tensor, b: Tensor, p: float = 2.0, compute_mode: str = MODES[0]) -> Tensor:
    """p-norm distances of rows: (..., P, M), (..., R, M) → (..., P, R).

    For p = 2 and more than 25 rows they are computed by a product of matrices, as in torch, whose rounding is that of
    the squares of the rows; `compute_mode` "use_mm_for_euclid_dist" and "donot_use_mm_for_euclid_dist" choose.
    """
    refuse_complex("cdist", a, b)
    if compute_mode not in MODES:
        raise ValueError(f"cdist: compute_mode {compute_mode!r:.60} is not one of {', '.join(MODES)}")
    if a.ndim < 2 or b.ndim < 2 or a._shape[-1] != b._shape[-1]:
        raise ValueError(f"cdist: {describe(a)} and {describe(b)} are not rows of one length, (..., P, M), (..., R, M)")
    if not a._shape[-1]:  # of rows without numbers all distances are 0
        return a.sum(-1, keepdim=True) + b.sum(-1).unsqueeze(-2)
    many = max(a._shape[-2], b._shape[-2]) > FEW and compute_mode == MODES[0]
    if p == 2 and (many or compute_mode == MODES[1]):
        return _by_product(a, b)
    return _distances(a, b, p)


@op()
def _distances(a: Tensor, b: Tensor, p: float) -> Tensor:
    """By the difference of each pair of rows, of some rows at a time."""
    rows = b._shape[-2] * b._shape[-1] * prod(a._shape[:-2])
    most = max(1, DIFFERENCES // max(rows, 1))
    if a._shape[-2] <= most:
        return (a.unsqueeze(-2) - b.unsqueeze(-3)).norm(p, -1)
    return cat([(part.unsqueeze(-2) - b.unsqueeze(-3)).norm(p, -1) for part in a.split(most, -2)], -2)


_distances_backward = fused_gradient(_distances)


def _by_product(a: Tensor, b: Tensor) -> Tensor:
    """sqrt(|a|² - 2 a b + |b|²), with the gradient 0 where a and b are the same."""
    lengths = a.square().sum(-1, keepdim=True) + b.square().sum(-1).unsqueeze(-2)
    squares = lengths - 2 * (a @ b.mT)
    apart = squares > 0
    return where(apart, where(apart, squares, 1.0).sqrt(), 0.0)


@function()
def pdist(x: Tensor, p: float = 2.0) -> Tensor:
    """Distances of all pairs of rows (N, M) → (N (N - 1) / 2,)."""
    if x.ndim != 2:
        raise ValueError(f"pdist: takes rows (N, M), not {describe(x)}")
    find = _known_above if x._shape[0] <= _MOST_KNOWN else _above_diagonal
    return reshape(cdist(x, x, p, MODES[2]), -1).index_select(0, find(x._shape[0]))


def _above_diagonal(size: int) -> Tensor:
    """Where the elements above the diagonal of a square matrix lie: (N (N - 1) / 2,) int64."""
    places = np.arange(size)
    return int64_tensor(np.flatnonzero(places[:, None] < places))


_MOST_KNOWN = 512  # rows of which the places are kept
_known_above = constants(4)(_above_diagonal)
