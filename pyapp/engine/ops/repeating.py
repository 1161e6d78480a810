"""Repeat a tensor or its elements."""

from __future__ import annotations

from typing import Any

from ..declare import function
from ..lazy import np
from ..numpy_arrays import array_of, int64_tensor
from ..shape import as_shape, normalize_dim
from ..tensor import Tensor
from ..user_errors import describe
from .view import expand, reshape

LARGE = 1 << 20  # entries of a repeated dim


@function(method=True)
def repeat(x: Tensor, *times: Any) -> Tensor:
    """Copies side by side, `times` for each dim."""
    counts = as_shape(times)
    if len(counts) < x.ndim:
        raise ValueError(f"repeat: {counts} names fewer dims than {describe(x)} has")
    shape = (1,) * (len(counts) - x.ndim) + x._shape
    # A dim of copies before each that is repeated.
    spread = [size for n, count in zip(shape, counts, strict=True) for size in ((n,) if count == 1 else (count, n))]
    ones = [size for n, count in zip(shape, counts, strict=True) for size in ((n,) if count == 1 else (1, n))]
    wide = expand(reshape(x, tuple(ones)), tuple(spread))
    found = reshape(wide, tuple(n * c for n, c in zip(shape, counts, strict=True)))
    return found._row_major() if found._storage is x._storage else found


@function(method=True)
def tile(x: Tensor, *times: Any, dims: Any = None) -> Tensor:
    """repeat, where missing counts are one."""
    counts = as_shape(times if dims is None else dims)
    return repeat(x, (1,) * (x.ndim - len(counts)) + counts)


@function(method=True)
def repeat_interleave(
    x: Tensor, repeats: int | Tensor | None = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each entry of a dim `repeats` times (one number, or one for each entry); flattened without a dim. For a single
    vector of counts: each index, repeated by its count. `output_size`: the size of the result's dim, which must be it.
    """
    if repeats is None:
        x, repeats = int64_tensor(np.arange(x._shape[0])), x
    if dim is None:
        x, dim = reshape(x, -1), 0
    at = normalize_dim(dim, x.ndim, "repeat_interleave")
    size = x._shape[at]
    if isinstance(repeats, Tensor) and (repeats.dtype.category != 1 or repeats.ndim > 1):
        raise TypeError(f"repeat_interleave: repeats are integers (N,), not {describe(repeats)}")
    counts = array_of(repeats).astype(np.int64).reshape(-1)
    if counts.size not in (1, size) or (counts < 0).any():
        raise ValueError(f"repeat_interleave: repeats {describe(repeats)} do not fit dim {dim} of {describe(x)}")
    total = counts.sum(dtype="float64") * (size if counts.size == 1 else 1)
    if total >= 2.0**62:
        raise MemoryError(f"repeat_interleave: the result would have {total:.0f} entries in dim {dim}")
    if output_size is not None and total != output_size:
        raise ValueError(f"repeat_interleave: the result has {total:.0f} entries in dim {dim}, not {output_size}")
    if total >= LARGE:  # MemoryError before the indices are made, where there is no room for the result
        x.new_empty((*x._shape[:at], int(total), *x._shape[at + 1 :]))
    return x.index_select(dim, int64_tensor(np.repeat(np.arange(size), counts.astype(np.intp))))
