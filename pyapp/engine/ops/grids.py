"""Grids and combinations of vectors."""

from __future__ import annotations

from itertools import chain, combinations_with_replacement
from itertools import combinations as _combinations
from math import comb
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


_MOST_CHOSEN = 1 << 27  # a gigabyte of indices


@function()
def combinations(x: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """Every choice of r elements of a vector, in order, as rows."""
    choose = combinations_with_replacement if with_replacement else _combinations
    if x.ndim != 1 or r < 0:
        raise ValueError(f"combinations: takes a vector and a number of 0 or more, not {describe(x)} and {r}")
    if r == 0:
        return x[:0]  # as torch
    n = x.numel()
    rows = comb(n + r - 1 if with_replacement and n else n, r)
    if rows * r > _MOST_CHOSEN:
        raise MemoryError(
            f"combinations: {r} of {n} elements are {rows:,} rows; at most {_MOST_CHOSEN:,} elements are chosen at once"
        )
    if not rows:  # the iterator would have memory for r numbers
        return x.new_empty(0, r)
    flat = chain.from_iterable(choose(range(n), r))
    return x[tensor_of(np.fromiter(flat, np.int64, rows * r).reshape(rows, r))]
