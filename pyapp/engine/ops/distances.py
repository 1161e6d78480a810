"""Distances between tensors and between rows."""

from __future__ import annotations

from ..declare import function
from ..tensor import Tensor
from ..user_errors import describe
from .diagonals import triu_indices


@function(method=True)
def dist(a: Tensor, b: Tensor, p: float = 2) -> Tensor:
    """The p-norm of a - b."""
    return (a - b).norm(p)


@function()
def cdist(a: Tensor, b: Tensor, p: float = 2.0) -> Tensor:
    """p-norm distances of rows: (..., P, M), (..., R, M) → (..., P, R)."""
    if a.shape[-1] != b.shape[-1]:
        raise ValueError(f"cdist: {describe(a)} and {describe(b)} have rows of different lengths")
    return (a.unsqueeze(-2) - b.unsqueeze(-3)).norm(p, -1)


@function()
def pdist(x: Tensor, p: float = 2.0) -> Tensor:
    """Distances of all pairs of rows."""
    rows, columns = triu_indices(x.shape[0], x.shape[0], 1)
    return (x[rows] - x[columns]).norm(p, -1)
