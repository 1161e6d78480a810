"""Grids and combinations of vectors."""

from __future__ import annotations

from itertools import combinations as _combinations
from typing import Any

from ..declare import function
from ..lazy import np
from ..numpy_arrays import tensor_of
from ..tensor import Tensor
from ..user_errors import describe
from .stacking import stack
from .view import expand, reshape, transpose


@function()
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """Coordinates of the grid of 1-dim tensors: "ij" (matrix order) or "xy" (the first two swapped)."""
    axes = list(tensors[0]) if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)) else list(tensors)
    if indexing not in ("ij", "xy"):
        raise ValueError(f"meshgrid: indexing is 'ij' or 'xy', not {indexing!r}")
    for axis in axes:
        if axis.ndim > 1:
            raise ValueError(f"meshgrid: takes 1-dim tensors, got {describe(axis)}")
    shape = tuple(axis.numel() for axis in axes)
    grids = [expand(reshape(axis, (1,) * i + (-1,) + (1,) * (len(axes) - i - 1)), shape) for i, axis in enumerate(axes)]
    return tuple(transpose(g, 0, 1) if indexing == "xy" and len(axes) > 1 else g for g in grids)


@function()
def cartesian_prod(*tensors: Tensor) -> Tensor:
    """Every choice of one element of each vector, as rows."""
    for x in tensors:
        if not isinstance(x, Tensor) or x.ndim != 1:
            raise TypeError(f"cartesian_prod: takes vectors, not {describe(x)}")
    return tensors[0] if len(tensors) == 1 else stack([reshape(g, -1) for g in meshgrid(*tensors)], -1)


@function()
def combinations(x: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Every choice of r elements of a vector, in order, as rows."""
    from itertools import combinations_with_replacement

    choose = combinations_with_replacement if with_replacement else _combinations
    rows = list(choose(range(x.numel()), r))
    index = tensor_of(np.array(rows, dtype=np.int64).reshape(len(rows), r))
    return x[index]
