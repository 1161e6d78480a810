"""keras.ops that write at places, add up by places, and count: scatter, segments, bins, distinct values."""

from __future__ import annotations

import builtins
from typing import Any

import pyapp

from ..engine import Tensor, ops
from ..engine.device import Device
from .arguments import as_floats, as_tensor

__all__ = [
    "bincount", "digitize", "histogram", "in_top_k", "scatter", "scatter_update", "searchsorted", "segment_max",
    "segment_min", "segment_prod", "segment_sum", "slice", "slice_update", "top_k", "unique", "unravel_index",
]  # fmt: skip

_REDUCTIONS = {"add": "sum", "max": "amax", "min": "amin", "mul": "prod"}


def scatter(indices: Any, values: Any, shape: Any) -> Tensor:
    """Zeros of a shape, to which values (N, …) are added at the places `indices` (N, dims)."""
    places, given = as_tensor(indices).to("int64"), as_tensor(values)
    found = ops.zeros(tuple(shape), dtype=given.dtype, device=given.device)
    return found.index_put(tuple(places.unbind(-1)), given, accumulate=True)


def scatter_update(inputs: Any, indices: Any, updates: Any, reduction: str | None = None) -> Tensor:
    """A copy with the values (N, …) at the places `indices` (N, dims); `reduction` (add, max, min, mul) combines them
    with what is there, and with one another."""
    x, places, values = as_tensor(inputs), as_tensor(indices).to("int64"), as_tensor(updates)
    values = values.to(x.dtype)
    if reduction is None or reduction == "add":
        return x.index_put(tuple(places.unbind(-1)), values, accumulate=reduction == "add")
    if reduction not in _REDUCTIONS:
        raise ValueError(f"scatter_update: reduction is None, {', '.join(_REDUCTIONS)}, not {reduction!r:.40}")
    dims = places.shape[-1]
    row = ops.zeros(places.shape[:-1], dtype="int64", device=x.device)  # the places in x with its first dims joined
    for column, size in builtins.zip(places.unbind(-1), x.shape[:dims], strict=True):
        if bool(((column < -size) | (column >= size)).any()):
            raise IndexError(f"scatter_update: a place is outside of the dim of size {size}")
        row = row * size + ops.where(column < 0, column + size, column)
    rest = x.shape[dims:]
    joined, values = x.reshape(-1, *rest), values.expand(*places.shape[:-1], *rest).reshape(-1, *rest)
    row = row.reshape(-1, *(1,) * len(rest)).expand(values.shape)
    return joined.scatter_reduce(0, row, values, _REDUCTIONS[reduction]).reshape(x.shape)


def slice(inputs: Any, start_indices: Any, shape: Any) -> Tensor:
    """The part of a shape that begins at these places; -1 in the shape is all that is left."""
    x = as_tensor(inputs)
    for axis, (start, size) in enumerate(zip(_numbers(start_indices), _numbers(shape), strict=True)):
        x = x.narrow(axis, start, x.shape[axis] - start if size == -1 else size)
    return x


def _numbers(values: Any) -> list[int]:
    return [int(value) for value in values]


def slice_update(inputs: Any, start_indices: Any, updates: Any) -> Tensor:
    """A copy with `updates` from these places on. What would stand over the end is moved back, as in Keras."""
    x, values = as_tensor(inputs), as_tensor(updates)
    starts = _numbers(start_indices)
    where = tuple(builtins.slice(start, start + size) for start, size in zip(starts, values.shape, strict=True))
    return x.index_put(tuple(_grid(where, x.device)), values.to(x.dtype))


def _grid(where: tuple[builtins.slice, ...], device: Device) -> list[Tensor]:
    """The places of a block, one tensor for each dim, which together broadcast to it."""
    return [
        ops.arange(part.start, part.stop, device=device).reshape(*(-1 if k == axis else 1 for k in range(len(where))))
        for axis, part in enumerate(where)
    ]


def _segments(name: str, reduce: str, first: float, data: Any, segment_ids: Any, num_segments: int | None) -> Tensor:
    """Slices of data (N, …) with the same number combined. Numbers outside of 0 … num_segments - 1 are left out;
    segments without any have the value `first`."""
    x, ids = as_tensor(data), as_tensor(segment_ids).to("int64")
    if ids.ndim != 1 or ids.shape[0] != (x.shape[0] if x.ndim else None):
        raise ValueError(f"{name}: {tuple(x.shape)} needs a number for each slice, got {tuple(ids.shape)}")
    count = (int(ids.max().item()) + 1 if ids.numel() else 0) if num_segments is None else int(num_segments)
    ids = ops.where((ids < 0) | (ids >= count), count, ids)  # the last row is cut off again
    if not x.dtype.is_floating_point and first in (float("inf"), float("-inf")):
        limits = pyapp.iinfo(x.dtype)
        first = limits.max if first > 0 else limits.min
    start = ops.full((count + 1, *x.shape[1:]), first, dtype=x.dtype, device=x.device)
    places = ids.reshape(-1, *(1,) * (x.ndim - 1)).expand(x.shape)
    return start.scatter_reduce(0, places, x, reduce)[:count]


def segment_sum(data: Any, segment_ids: Any, num_segments: int | None = None, sorted: bool = False) -> Tensor:
    """The sums of slices with the same number. `sorted` says that the numbers rise; the result is the same."""
    return _segments("segment_sum", "sum", 0.0, data, segment_ids, num_segments)


def segment_max(data: Any, segment_ids: Any, num_segments: int | None = None, sorted: bool = False) -> Tensor:
    """The largest of slices with the same number."""
    return _segments("segment_max", "amax", float("-inf"), data, segment_ids, num_segments)


def segment_min(data: Any, segment_ids: Any, num_segments: int | None = None, sorted: bool = False) -> Tensor:
    """The smallest of slices with the same number."""
    return _segments("segment_min", "amin", float("inf"), data, segment_ids, num_segments)


def segment_prod(data: Any, segment_ids: Any, num_segments: int | None = None, sorted: bool = False) -> Tensor:
    """The products of slices with the same number."""
    return _segments("segment_prod", "prod", 1.0, data, segment_ids, num_segments)


def top_k(x: Any, k: int, sorted: bool = True) -> tuple[Tensor, Tensor]:
    """The k largest along the last axis, from the largest on, and their places, int32."""
    values, places = pyapp.topk(as_tensor(x), k, -1, sorted=sorted)
    return values, places.to("int32")


def in_top_k(targets: Any, predictions: Any, k: int) -> Tensor:
    """Whether the score of the target is one of the k highest; never if it is NaN."""
    ids, scores = as_tensor(targets).to("int64"), as_tensor(predictions)
    own = scores.gather(-1, ids.unsqueeze(-1))
    return ((scores > own).sum(-1) < k) & (own == own).squeeze(-1)


def searchsorted(sorted_sequence: Any, values: Any, side: str = "left") -> Tensor:
    """Where each value would stand in a sorted vector: before equal ones (left) or behind them (right)."""
    row, given = as_tensor(sorted_sequence), as_tensor(values)
    if row.ndim != 1:
        raise ValueError(f"searchsorted: takes a sorted vector, got the shape {tuple(row.shape)}")
    if side not in ("left", "right"):
        raise ValueError(f"searchsorted: side is left or right, not {side!r:.40}")
    return pyapp.searchsorted(row, given.contiguous(), right=side == "right").to("int32")


def digitize(x: Any, bins: Any) -> Tensor:
    """The number of the range between `bins` in which each element lies."""
    values = as_tensor(x)
    return searchsorted(as_tensor(bins).to(values.dtype), values, "right")


def bincount(x: Any, weights: Any = None, minlength: int = 0, sparse: bool = False) -> Tensor:
    """How often each number 0, 1, … stands in a vector, int32, or in each row of a matrix; or the sums of weights."""
    if sparse:
        raise NotImplementedError("bincount: there are no sparse tensors; leave `sparse` out")
    ids = as_tensor(x)
    given = None if weights is None else as_tensor(weights)
    if ids.ndim == 2:
        size = builtins.max(int(ids.max().item()) + 1 if ids.numel() else 0, int(minlength or 0))
        rows = [bincount(ids[k], None if given is None else given[k], size) for k in range(ids.shape[0])]
        return ops.stack(rows)
    found = pyapp.bincount(ids, given, int(minlength or 0))
    return found.to("int32") if given is None else found.to(pyapp.result_type(ids, given))


def histogram(x: Any, bins: int = 10, range: Any = None) -> tuple[Tensor, Tensor]:
    """How many elements lie in each of `bins` equal ranges, and the ranges' edges."""
    counts, edges = pyapp.histogram(as_floats(x).reshape(-1), bins, range=range)
    return counts, edges


def unique(
    x: Any, sorted: bool = True, return_index: bool = False, return_inverse: bool = False, return_counts: bool = False,
    axis: int | None = None, size: int | None = None, fill_value: Any = None,
) -> Any:  # fmt: skip
    """The distinct values in rising order, or distinct slices along an axis. With them, as asked: where each stands
    first, which of them each element is, how often each occurs. `size` cuts their number, or fills it up with
    `fill_value` (or the first value)."""
    given = as_tensor(x)
    values, inverse, counts = pyapp.unique(given, return_inverse=True, return_counts=True, dim=axis)
    places = inverse.reshape(-1)
    count, place = places.numel(), given.device
    order = ops.arange(count, dtype="int64", device=place)
    first = ops.full((values.shape[axis or 0],), count, dtype="int64", device=place)
    first = first.scatter_reduce(0, places, order, "amin")
    dim = axis or 0
    if size is not None:
        here = values.shape[dim]
        if here >= size:
            values, first, counts = values.narrow(dim, 0, size), first[:size], counts[:size]
        else:
            more = list(values.shape)
            more[dim] = size - here
            fill = (
                values.narrow(dim, 0, 1).expand(more)
                if fill_value is None
                else ops.full(more, fill_value, device=place)
            )
            values = ops.cat([values, fill.to(values.dtype)], dim)
            first = ops.cat([first, first[:1].expand(size - here)])
            counts = ops.cat([counts, ops.zeros(size - here, dtype="int64", device=place)])
    asked = ((return_index, first), (return_inverse, inverse), (return_counts, counts))
    more_found = [found.to("int32") for wanted, found in asked if wanted]
    return (values, *more_found) if more_found else values


def unravel_index(indices: Any, shape: Any) -> tuple[Tensor, ...]:
    """The places in a tensor of a shape, an int32 tensor for each dim, of numbers counted through it."""
    given = as_tensor(indices)
    kind = given.dtype
    return tuple(place.to(kind) for place in pyapp.unravel_index(given.to("int64"), tuple(shape)))
