"""Elements by their places: gather, scatter, selection, sorting."""

from __future__ import annotations

from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.engine.numpy_arrays import combine_at

from ..registry import operator
from ..values import ForeignArray, array_of, axes_of, element_of, ints, like, made_of, scalar, text


def _native(x: Any) -> bool:
    """Whether the engine indexes this element type."""
    return isinstance(x, Tensor) and element_of(x) not in ("uint16", "uint32", "uint64")


def _from_front(index: Tensor, size: int) -> Tensor:
    """Indices in int64 with negative ones counted from the end. IndexError for those outside."""
    index = index.to("int64")
    return ops.where(index < 0, index + size, index)


@operator("Gather")
def gather(x: Any, indices: Tensor, *, axis: int = 0) -> Any:
    """Entries of an axis: (..., N, ...) and indices (I...) → (..., I..., ...)."""
    at = axes_of([axis], x.ndim)[0]
    shape = (*x.shape[:at], *indices.shape, *x.shape[at + 1 :])
    if not _native(x):
        return like(x, np.take(array_of(x), _checked(array_of(indices), x.shape[at]), at))
    if x.ndim == 2 and at == 0 and x.dtype.category == 2 and x.dtype.name == "float32":
        return ops.embedding(x, _from_front(indices, x.shape[0]))
    return ops.index_select(x, at, _from_front(indices, x.shape[at]).reshape(-1)).reshape(shape)


def _checked(index: Any, size: int) -> Any:
    if index.size and (index.min() < -size or index.max() >= size):
        raise IndexError(f"an index is outside of -{size} .. {size - 1}")
    return index


@operator("GatherElements")
def gather_elements(x: Any, indices: Tensor, *, axis: int = 0) -> Any:
    at = axes_of([axis], x.ndim)[0]
    if not _native(x):
        return like(x, np.take_along_axis(array_of(x), _checked(array_of(indices), x.shape[at]), at))
    return ops.gather(x, at, _from_front(indices, x.shape[at]))


@operator("GatherND")
def gather_nd(x: Any, indices: Tensor, *, batch_dims: int = 0) -> Any:
    """Slices of x at index vectors: indices (B..., I..., K) → (B..., I..., x.shape[len(B) + K:])."""
    batch, depth = tuple(indices.shape[:batch_dims]), indices.shape[-1]
    if depth > x.ndim - batch_dims or batch != tuple(x.shape[:batch_dims]):
        raise ValueError(f"indices of shape {tuple(indices.shape)} do not fit x of shape {tuple(x.shape)}")
    places = _places(array_of(indices), x.shape[batch_dims : batch_dims + depth])
    rest = indices.ndim - 1 - batch_dims
    lead = [
        np.arange(size).reshape([-1 if k == at else 1 for k in range(batch_dims)] + [1] * rest)
        for at, size in enumerate(batch)
    ]
    where = (*lead, *(places[..., k] for k in range(depth)))
    if not _native(x):
        return like(x, np.asarray(array_of(x)[where]))
    if not where:
        return x
    return x[tuple(made_of(np.asarray(part, np.int64), device=x.device) for part in where)]


def _places(index: Any, sizes: Any) -> Any:
    """Index vectors (..., K) counted from the front. IndexError for those outside."""
    wide = np.array(sizes, np.int64)
    if index.size and ((index < -wide) | (index >= wide)).any():
        raise IndexError(f"an index is outside of a shape {tuple(sizes)}")
    return np.where(index < 0, index + wide, index)


_REDUCTIONS = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@operator("ScatterElements", "Scatter")
def scatter_elements(x: Any, indices: Tensor, updates: Any, *, axis: int = 0, reduction: bytes = b"none") -> Any:
    """x with updates at index along an axis: they replace it, or are added, multiplied, the larger or smaller one."""
    at, how = axes_of([axis], x.ndim)[0], text(reduction)
    if _native(x) and (how == "none" or x.dtype.category == 2):
        index = _from_front(indices, x.shape[at])
        if how == "none":
            return ops.scatter(x, at, index, updates)
        return ops.scatter_reduce(x, at, index, updates, _REDUCTIONS[how])
    found, index = array_of(x).copy(), _places(array_of(indices)[..., None], x.shape[at : at + 1])[..., 0]
    where: Any = list(np.indices(index.shape))
    where[at] = index
    _write(found, tuple(where), array_of(updates), how)
    return like(x, found)


def _write(found: Any, where: Any, updates: Any, how: str) -> None:
    if how == "none":
        found[where] = updates
    else:
        kinds = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
        combine_at(kinds[how], found, where, updates)


@operator("ScatterND")
def scatter_nd(x: Any, indices: Tensor, updates: Any, *, reduction: bytes = b"none") -> Any:
    """x with slices of updates at index vectors (..., K)."""
    depth, how = indices.shape[-1], text(reduction)
    places = _places(array_of(indices), x.shape[:depth])
    if _native(x) and x.dtype.category == 2 and how in ("none", "add") and depth:
        where = [made_of(np.ascontiguousarray(places[..., k]), device=x.device) for k in range(depth)]
        return ops.index_put(x, where, updates, accumulate=how == "add")
    found = array_of(x).copy()
    _write(found, tuple(places[..., k] for k in range(depth)), array_of(updates), how)
    return like(x, found)


@operator("TensorScatter", reads=(2,))
def tensor_scatter(
    cache: Any, update: Any, write_indices: Any = None, *, mode: bytes = b"linear", axis: int = -2
) -> Any:
    """A cache with the update written from an index of each sample on; "circular" goes on at the beginning."""
    at = axes_of([axis], cache.ndim)[0]
    size, count = cache.shape[at], update.shape[at]
    starts = [0] * cache.shape[0] if write_indices is None else ints(write_indices)
    found, new = array_of(cache).copy(), np.moveaxis(array_of(update), at, 1)
    view = np.moveaxis(found, at, 1)
    for row, start in enumerate(starts):
        places = start + np.arange(count)
        if text(mode) == "circular":
            places %= size
        elif start < 0 or start + count > size:
            raise IndexError(f"{count} entries from {start} on do not fit into a cache of {size}")
        view[row, places] = new[row]
    return like(cache, found)


@operator("Compress", reads=(1,))
def compress(x: Any, condition: Tensor, *, axis: int | None = None) -> Any:
    """Entries where the condition holds; of the flattened x without an axis."""
    keep = np.flatnonzero(array_of(condition))
    if axis is None:
        return like(x, array_of(x).reshape(-1)[keep])
    return gather(x, made_of(keep.astype(np.int64), device=x.device), axis=axis)


@operator("NonZero", reads=(0,))
def non_zero(x: Any) -> Tensor:
    """The indices of the elements that are not zero: (dims, count) int64."""
    return made_of(np.array(np.nonzero(np.atleast_1d(array_of(x))), np.int64), device=x.device)


@operator("Unique", reads=(0,))
def unique(x: Any, *, axis: int | None = None, sorted: int = 1) -> Any:
    """(values, first places, inverse, counts)."""
    array = array_of(x)
    if element_of(x) == "string" and axis is None:
        array = array.astype(str)
    values, first, inverse, counts = np.unique(array, True, True, True, axis=axis)
    inverse = inverse.reshape(-1)
    if not sorted:
        order = np.argsort(first, kind="stable")
        rank = np.argsort(order)
        values = np.take(values, order, 0 if axis is None else axis)
        first, counts, inverse = first[order], counts[order], rank[inverse]
    wide = (made_of(part.astype(np.int64)) for part in (first, inverse, counts))
    return (like(x, values), *wide)


@operator("TopK", since=10, reads=(1,))
def top_k(x: Any, k: Tensor, *, axis: int = -1, largest: int = 1, sorted: int = 1) -> Any:
    return _largest(x, int(scalar(k)), axis, bool(largest))


@operator("TopK")
def top_k_by_attribute(x: Any, *, k: int, axis: int = -1) -> Any:
    return _largest(x, k, axis, True)


def _largest(x: Any, count: int, axis: int, largest: bool) -> Any:
    """(values, indices int64) of the largest or smallest along an axis; of equal ones the first."""
    at = axes_of([axis], x.ndim)[0]
    if not 0 <= count <= x.shape[at]:
        raise ValueError(f"the {count} largest of {x.shape[at]} entries")
    if _native(x) and x.numel():
        found = ops.topk(x, count, at, largest)
        return found.values, found.indices
    array = array_of(x)
    key = (-array.astype(np.float64) if array.dtype.kind == "f" else ~array) if largest else array
    order = np.argsort(key, axis=at, kind="stable").take(np.arange(count), axis=at)
    index = made_of(order.astype(np.int64), device=x.device)
    return gather_elements(x, index, axis=at), index


def _argument(x: Tensor, axis: int, keepdims: int, last: int, largest: bool) -> Tensor:
    array = array_of(x)
    at = axes_of([axis], x.ndim)[0]
    if last:
        array = np.flip(array, at)
    found = (np.argmax if largest else np.argmin)(array, at)
    if last:
        found = x.shape[at] - 1 - found
    return made_of((np.expand_dims(found, at) if keepdims else found).astype(np.int64), device=x.device)


@operator("ArgMax")
def arg_max(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    return _found(x, axis, keepdims, select_last_index, True)


@operator("ArgMin")
def arg_min(x: Tensor, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Tensor:
    return _found(x, axis, keepdims, select_last_index, False)


def _found(x: Tensor, axis: int, keepdims: int, last: int, largest: bool) -> Tensor:
    if last or element_of(x) not in ("float32", "float64"):
        return _argument(x, axis, keepdims, last, largest)
    return (ops.argmax if largest else ops.argmin)(x, axes_of([axis], x.ndim)[0], bool(keepdims))


@operator("Trilu", reads=(1,))
def trilu(x: Any, k: Any = None, *, upper: int = 1) -> Any:
    """The upper or lower triangle of matrices (..., R, C), zeros elsewhere."""
    shift = int(scalar(k, 0))
    if isinstance(x, ForeignArray) or x.numel() == 0 or x.dtype.category != 2:
        return like(x, (np.triu if upper else np.tril)(array_of(x), shift))
    return (ops.triu if upper else ops.tril)(x, shift)
