"""Sparse tensors in another order or part: transposed, indexed, joined."""

from __future__ import annotations

from collections.abc import Sequence
from operator import index as as_index
from typing import Any

from ...dtype import result_dtype
from ...lazy import np
from ...memory_format import layout, sparse_coo, sparse_csc, sparse_csr
from ...operands import with_priority
from ...shape import normalize_dim
from ...tensor import Tensor
from ...user_errors import describe
from ..padding import pad
from ..stacking import cat as joined
from .layouts import (
    SparseTensor,
    array,
    coalesced,
    form,
    in_layout,
    sparse,
    sparse_sizes,
    to_place,
)
from .products import runs

_TURNED: dict[layout, layout] = {sparse_csr: sparse_csc, sparse_csc: sparse_csr}


@form("_permute")
def _permute(x: SparseTensor, dims: tuple[int, ...]) -> SparseTensor:
    """Sparse dims in another order among themselves, and dense ones."""
    order = list(dims)
    kept = x.places._shape[0]
    if any(d >= kept for d in order[:kept]):
        raise RuntimeError(f"permute: {tuple(order)} mixes the {kept} sparse dims with the dense ones")
    if order == list(range(x.ndim)):
        return x
    places = x.places.index_select(0, to_place(order[:kept], x.device))
    elements = x.elements.permute(0, *(d - kept + 1 for d in order[kept:]))
    same = order[:kept] == list(range(kept))
    return sparse(
        places, elements, [x.shape[d] for d in order], x.coalesced and same,
        _TURNED.get(x._layout, sparse_coo), x.pointers,
    )  # fmt: skip


@form("unsqueeze")
def unsqueeze(x: SparseTensor, dim: int) -> SparseTensor:
    """Another dim of size 1: a sparse one, or after them a dense one."""
    d, kept = normalize_dim(dim, x.ndim + 1, "unsqueeze"), x.places._shape[0]
    shape = (*x.shape[:d], 1, *x.shape[d:])
    if d > kept:
        return sparse(x.places, x.elements.unsqueeze(d - kept + 1), shape, x.coalesced)
    places = array(x.places)
    wider = np.insert(places, d, 0, axis=0)
    return sparse(to_place(wider, x.device), x.elements, shape, x.coalesced and x._layout is sparse_coo)


def _chosen(x: SparseTensor, places: Any, at: Any, shape: Sequence[int], ascends: bool) -> SparseTensor:
    """The elements at these positions, with other indices."""
    elements = x.elements.index_select(0, to_place(at, x.device))
    return sparse(to_place(places, x.device), elements, shape, ascends)


@form("select")
def select(x: SparseTensor, dim: int, index: int) -> Tensor:
    """The part at one index of a dim: dense where no sparse dim is left."""
    d, number, kept = normalize_dim(dim, x.ndim, "select"), as_index(index), x.places._shape[0]
    size = x.shape[d]
    if not -size <= number < size:
        raise IndexError(f"select: index {number} is outside dim {d} of size {size}")
    shape = (*x.shape[:d], *x.shape[d + 1 :])
    if d >= kept:
        return sparse(x.places, x.elements.select(d - kept + 1, number % size), shape, x.coalesced)
    places = array(x.places)
    at = np.flatnonzero(places[d] == number % size)
    if kept == 1:
        return x.elements.index_select(0, to_place(at, x.device)).sum(0, dtype=x.dtype)
    return _chosen(x, np.delete(places[:, at], d, 0), at, shape, x.coalesced)


@form("index_select")
def index_select(x: SparseTensor, dim: int, index: Tensor) -> SparseTensor:
    """The parts at several indices of a dim, in their order."""
    d, kept = normalize_dim(dim, x.ndim, "index_select"), x.places._shape[0]
    if index.dtype.category != 1 or index.ndim > 1:
        raise TypeError(f"index_select: the index is a vector of integers, got {describe(index)}")
    wanted = array(index).reshape(-1)
    if wanted.size and (wanted.min() < 0 or wanted.max() >= x.shape[d]):
        raise IndexError(f"index_select: {wanted.min()} .. {wanted.max()} is outside dim {d} of {describe(x)}")
    shape = (*x.shape[:d], len(wanted), *x.shape[d + 1 :])
    if d >= kept:
        return sparse(x.places, x.elements.index_select(d - kept + 1, index), shape, x.coalesced)
    places = array(x.places)
    order = np.argsort(places[d], kind="stable")
    starts = np.searchsorted(places[d][order], np.arange(x.shape[d] + 1))
    line, position = runs(starts, wanted)
    at = order[position]
    found = places[:, at]
    found[d] = line
    made = _chosen(x, found, at, shape, False)
    return in_layout(coalesced(made), x._layout) if x._layout is not sparse_coo else made


@form("__getitem__")
def _getitem(x: SparseTensor, index: Any) -> Tensor:
    """Whole numbers for the first dims."""
    entries = list(index) if isinstance(index, tuple) else [index]
    found: Tensor = x
    for at, entry in enumerate(entries):
        if isinstance(entry, (bool, slice, list)) or entry is None or (isinstance(entry, Tensor) and entry.ndim):
            raise NotImplementedError(
                "a sparse tensor is indexed by whole numbers, x[1, 2]: use index_select, or to_dense() for others"
            )
        try:
            found = found.select(0, as_index(entry))
        except IndexError:
            raise IndexError(f"index {entry} is outside dim {at} of {describe(x)}") from None
    return found


def _all_sparse(tensors: Sequence[Any], name: str) -> list[SparseTensor]:
    """In COO. RuntimeError for dense tensors among them, and other numbers of sparse dims."""
    for at, x in enumerate(tensors):
        if not isinstance(x, SparseTensor):
            raise RuntimeError(f"{name}: tensor {at} is not sparse as another one is: {describe(x)}")
        if x.ndim != tensors[0].ndim or x.places._shape[0] != tensors[0].places.shape[0]:
            raise RuntimeError(f"{name}: tensor {at} has other dims, or sparse dims, than the first: {describe(x)}")
    kind = result_dtype([with_priority(x) for x in tensors])
    return [in_layout(x, sparse_coo).to(kind) for x in tensors]


@form("cat", "concat", "concatenate")
def cat(tensors: Sequence[Tensor], dim: int = 0) -> SparseTensor:
    parts = _all_sparse(tensors, "cat")
    first = parts[0]
    d, kept = normalize_dim(dim, first.ndim, "cat"), len(sparse_sizes(first))
    rest = (*first.shape[:d], *first.shape[d + 1 :])
    if any((*x.shape[:d], *x.shape[d + 1 :]) != rest for x in parts):
        raise RuntimeError(f"cat: the shapes {[x._shape for x in parts]} differ in another dim than {d}")
    sizes = [x.shape[d] for x in parts]
    shape = (*first.shape[:d], sum(sizes), *first.shape[d + 1 :])
    places, elements, before = [], [], 0
    for x, size in zip(parts, sizes, strict=True):
        moved = array(x.places).copy()
        values = x.elements
        if d < kept:
            moved[d] += before
        else:
            around = [n for _ in range(x.ndim - 1 - d) for n in (0, 0)]
            values = pad(values, [*around, before, shape[d] - before - size])
        before += size
        places.append(moved)
        elements.append(values)
    return sparse(to_place(np.concatenate(places, 1), first.device), joined(elements), shape)


@form("stack")
def stack(tensors: Sequence[Tensor], dim: int = 0) -> SparseTensor:
    parts = _all_sparse(tensors, "stack")
    d = normalize_dim(dim, parts[0].ndim + 1, "stack")
    if any(x.shape != parts[0].shape for x in parts):
        raise RuntimeError(f"stack: the shapes {[x._shape for x in parts]} differ")
    return cat([unsqueeze(x, d) for x in parts], d)
