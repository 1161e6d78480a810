"""Indexing by tensors of integers: x[i, :, j], x[i] = v and their gradients, index_select, index_add."""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

from .. import dtype as _dtype
from ..device import Device, cpu
from ..element_types import CODES, opcodes
from ..launch import KERNELS as K
from ..launch import capturing
from ..op import claims, claims_in_place
from ..operands import check_number, dense
from ..ops.create import zeros
from ..ops.index import _basic, fill_
from ..ops.view import copy_strided
from ..shape import Shape, broadcast_shapes
from ..tensor import Tensor, empty_contiguous, make
from ..user_errors import describe
from .elementwise import broadcast_strides
from .layouts import in_type
from .reduce import merged
from .selection import choose

_GET, _PUT = K["index_get"], K["index_put"]
_OPCODES = opcodes("scatter")
_INDICES = 4  # at most
_ALL = slice(None)
_MOST_COPIED = 4  # elements of a view that are made dense, for each that is read


class _Chosen(NamedTuple):
    """The part of a view that an index chooses. One int64 tensor for each of dims `first` to `last` chooses, all of one
    shape.
    """

    view: Tensor
    first: int
    last: int
    indices: tuple[Tensor, ...]
    shape: Shape

    def result(self) -> Shape:
        shape = self.view._shape
        return (*shape[: self.first], *self.shape, *shape[self.last :])

    def steps(self) -> tuple[int, int, int] | None:
        """(outer, inner, the stride of the outer ones) where each part is one walk and the inner one dense."""
        shape, first, last = self.view._shape, self.first, self.last
        if self.view.is_contiguous():
            inner = prod(shape[last:])
            return prod(shape[:first]), inner, inner * prod(shape[first:last])
        front = merged(shape[:first], self.view.strides[:first])
        block = merged(shape[last:], self.view.strides[last:])
        return (front[0], block[0], front[1]) if front and block and (block[1] == 1 or block[0] == 1) else None

    def slots(self) -> tuple[int, ...]:
        """Sizes and strides of the indexed dims."""
        none = (0,) * (_INDICES - len(self.indices))
        return (
            *self.view._shape[self.first : self.last], *none, *self.view.strides[self.first : self.last], *none,
        )  # fmt: skip

    def tensors(self) -> tuple[Tensor | None, ...]:
        return (*self.indices, *(None,) * (_INDICES - len(self.indices)))


def _without_masks(x: Tensor, entries: tuple[Any, ...]) -> tuple[Any, ...]:
    """Masks as the indices of what they choose, which the host finds; a mask is that of as many dims as it has."""
    found: list[Any] = []
    dim = 0
    for entry in entries:
        if not isinstance(entry, Tensor) or entry.dtype is not _dtype.bool_ or not entry._shape:
            found.append(entry)
            dim += entry is not None
            continue
        if entry._shape != x._shape[dim : dim + entry.ndim]:
            raise IndexError(f"index: the mask {describe(entry)} does not fit dim {dim} of {describe(x)}")
        found += entry.nonzero(True)
        dim += entry.ndim
    return tuple(found)


def _chosen(x: Tensor, entries: tuple[Any, ...]) -> _Chosen | None:
    """None for masks, and for indices that are not tensors of integers or are too many. As in NumPy, the indexed dims
    of the result stand where the first is, or in front where others lie between them."""
    if x.dtype not in CODES:
        return None
    if x.device is not cpu:
        entries = _without_masks(x, entries)
    places, plain = [], True
    for at, entry in enumerate(entries):
        if isinstance(entry, Tensor):
            if entry.dtype.category != 1:
                return None
            places.append(at)
        elif entry is None:
            plain = False
        elif not isinstance(entry, slice) or (entry.step is not None and entry.step < 0):
            return None
        elif entry != _ALL:
            plain = False
    if not places or len(places) > _INDICES:
        return None
    indices = [_on(in_type(entries[at], _dtype.int64), x.device) for at in places]
    if plain:
        shape, strides, offset = x._shape, x.strides, 0
    else:
        shape, strides, offset = _basic(x, [_ALL if isinstance(e, Tensor) else e for e in entries])
    first, last = places[0], places[-1] + 1
    if last - first != len(places):
        order = (*places, *(d for d in range(len(shape)) if d not in places))
        shape, strides = tuple(shape[d] for d in order), tuple(strides[d] for d in order)
        first, last = 0, len(places)
    if plain and shape is x._shape:
        view = x
    else:
        view = make(x._storage, shape, strides, x.dtype, x.offset + offset)
    of = indices[0]._shape
    if len(indices) > 1:
        of = broadcast_shapes(*[i._shape for i in indices], op="index")
        indices = [i if i._shape == of else i.expand(of) for i in indices]
    return _Chosen(view, first, last, tuple([dense(i) for i in indices]), of)


def _on(index: Tensor, device: Device) -> Tensor:
    """Indices on the CPU serve every device, as in torch."""
    return index.to(device) if index.device is cpu is not device else index


def _get(x: Tensor, entries: tuple[Any, ...], negative: bool) -> Any:
    chosen = _chosen(x, entries)
    if chosen is None:
        return NotImplemented
    steps = chosen.steps()
    y = empty_contiguous(chosen.result(), x.dtype, x.device)
    if steps is None:
        if x.device is cpu and chosen.view.numel() > _MOST_COPIED * y.numel():
            return NotImplemented
        chosen = chosen._replace(view=dense(chosen.view))
        steps = chosen.steps()
        assert steps is not None
    outer, inner, step = steps
    count = prod(chosen.shape)
    try:
        _GET.launch(
            y.numel() >> 8, y, chosen.view, *chosen.tensors(), x.dtype.itemsize, outer, count, inner, step,
            int(negative), *chosen.slots(),
        )  # fmt: skip
    except IndexError:
        if x.device is not cpu:
            raise
        return NotImplemented  # NumPy's way says which index it is
    return y


def _get_along(x: Tensor, dim: int, index: Tensor, negative: bool) -> Any:
    """As _get, by one tensor of int64 along a dim of a dense tensor of the CPU."""
    shape = x._shape
    size, inner = shape[dim], prod(shape[dim + 1 :])
    y = empty_contiguous((*shape[:dim], *index._shape, *shape[dim + 1 :]), x.dtype)
    try:
        _GET.launch(
            y.numel() >> 8, y, x, index, None, None, None, x.dtype.itemsize, prod(shape[:dim]), index.numel(), inner,
            inner * size, int(negative), size, 0, 0, 0, inner, 0, 0, 0,
        )  # fmt: skip
    except IndexError:
        return NotImplemented  # NumPy's way says which index it is
    return y


def _get_strided(x: Tensor, index: Tensor) -> Any:
    """As _get, of a vector of any stride by one tensor of int64, of the CPU."""
    y = empty_contiguous(index._shape, x.dtype)
    try:
        _GET.launch(
            y.numel() >> 8, y, x, index, None, None, None, x.dtype.itemsize, 1, index.numel(), 1, 0, 1,
            x._shape[0], 0, 0, 0, x.strides[0], 0, 0, 0,
        )  # fmt: skip
    except IndexError:
        return NotImplemented  # NumPy's way says which index it is
    return y


def _is_dense_index(index: Any) -> bool:
    """Whether the kernels read it where it lies."""
    if not isinstance(index, Tensor) or index.dtype is not _dtype.int64:
        return False
    return index.device is cpu and index.is_contiguous()


def _is_plain_index(x: Tensor, index: Any) -> bool:
    """Whether _get_along takes them."""
    return _is_dense_index(index) and x.device is cpu and x.dtype in CODES and x.is_contiguous()


def _put(chosen: _Chosen, source: Tensor, opcode: str) -> bool:
    """Combines a source that broadcasts to the result with what is there; False where nothing was written: an index is
    out of range."""
    view, shape = chosen.view, chosen.result()
    if 0 in shape:
        return True
    steps = chosen.steps()
    if steps is None:
        copied = chosen._replace(view=dense(view))
        return _put(copied, source, opcode) and copy_strided(view, copied.view)
    (outer, inner, step), count = steps, prod(chosen.shape)
    walks: tuple[int, ...]
    if source._shape == shape and source.is_contiguous():
        walks = (count * inner, inner, 1)
    elif source.numel() == 1:
        walks = (0, 0, 0)
    else:
        source, walks = _walks(source, shape, chosen.first, chosen.first + len(chosen.shape))
    try:
        _PUT.launch(
            prod(shape) >> 6, view, source, *chosen.tensors(), _OPCODES[opcode].code, CODES[view.dtype], outer,
            count, inner, step, *walks, *chosen.slots(),
        )  # fmt: skip
    except IndexError:
        if view.device is not cpu:
            raise
        return False
    return True


def _walks(source: Tensor, shape: Shape, first: int, last: int) -> tuple[Tensor, tuple[int, ...]]:
    """A source as if it had the shape, and its strides over the dims before `first`, from there to `last`, and after;
    a dense copy where these are not one walk each."""
    wide = make(source._storage, shape, broadcast_strides(source, shape), source.dtype, source.offset)
    parts = ((0, first), (first, last), (last, len(shape)))
    found = [merged(shape[a:b], wide.strides[a:b]) for a, b in parts]
    if None in found:
        wide = dense(wide)
        found = [merged(shape[a:b], wide.strides[a:b]) for a, b in parts]
    return wide, tuple(walk[1] for walk in found if walk)


@claims("_take")
def _take(x: Tensor, entries: tuple[Any, ...]) -> Any:
    if _is_plain_index(x, entries[0]):
        if len(entries) == len(x._shape) and entries.count(_ALL) == len(entries) - 1:
            return _get_along(x, 0, entries[0], True)
    elif len(entries) == len(x._shape) == 1 and _is_dense_index(entries[0]) and x.device is cpu and x.dtype in CODES:
        return _get_strided(x, entries[0])
    return _get(x, entries, True) if (points := _points(x, entries)) is None else points


def _points(x: Tensor, entries: tuple[Any, ...]) -> Any:
    """x[i, j, …] of a dense tensor, by dense tensors of int64 and of one shape for its first dims, all of the CPU. None
    for other entries."""
    first, count = entries[0], 0
    if not _is_plain_index(x, first):
        return None
    of, shape = first._shape, x._shape
    for entry in entries:
        if not isinstance(entry, Tensor):
            break
        if (
            entry.dtype is not _dtype.int64
            or entry._shape != of
            or entry.device is not cpu
            or not entry.is_contiguous()
        ):
            return None
        count += 1
    if count > _INDICES or entries[count:].count(_ALL) != len(entries) - count:
        return None
    y = empty_contiguous((*of, *shape[count:]), x.dtype)
    inner, none = prod(shape[count:]), _INDICES - count
    try:
        _GET.launch(
            y.numel() >> 8, y, x, *entries[:count], *(None,) * none, x.dtype.itemsize, 1, first.numel(), inner,
            inner * prod(shape[:count]), 1, *shape[:count], *(0,) * none, *x.strides[:count], *(0,) * none,
        )  # fmt: skip
    except IndexError:
        return NotImplemented  # NumPy's way says which index it is
    return y


@claims("_index_select")
def _index_select(x: Tensor, dim: int, index: Tensor) -> Any:
    if _is_plain_index(x, index):
        return _get_along(x, dim, index, False)
    return _get(x, (*(_ALL,) * dim, index, *(_ALL,) * (len(x._shape) - dim - 1)), False)


@claims("_take_back")
def _take_back(g: Tensor, shape: Shape, entries: tuple[Any, ...]) -> Any:
    if g.dtype not in _OPCODES["add"].types:
        return NotImplemented
    whole = zeros(shape, dtype=g.dtype, device=g.device)
    chosen = _chosen(whole, entries)
    if chosen is None or not _put(chosen, g, "add"):
        return NotImplemented
    return whole


def _chosen_along(x: Tensor, dim: int, index: Tensor) -> _Chosen | None:
    """x[:, …, index], with the index at a dim."""
    return _chosen(x, (*(_ALL,) * dim, index, *(_ALL,) * (len(x._shape) - dim - 1)))


@claims("_index_add")
def _index_add(x: Tensor, dim: int, index: Tensor, source: Tensor) -> Any:
    if x.dtype not in _OPCODES["add"].types:
        return NotImplemented
    y = dense(x)._row_major()
    chosen = _chosen_along(y, dim, index)
    return y if chosen is not None and _put(chosen, source, "add") else NotImplemented


@claims("_put")
def _put_at(x: Tensor, value: Any, index: Any) -> Any:
    """Of whole dims and tensors of integers, one for each of the first dims; a number, or a value of the result's
    shape."""
    if isinstance(value, Tensor):
        if value.dtype is not x.dtype or value.device is not x.device:
            return NotImplemented
    elif type(value) is not int and not (type(value) is float and x.dtype.has_gradient):
        return NotImplemented
    index = index if isinstance(index, tuple) else (index,)
    if len(index) > len(x._shape) or not x.is_contiguous() or x.dtype not in CODES:
        return NotImplemented
    for entry in index:
        if entry.dtype.category != 1 if isinstance(entry, Tensor) else not isinstance(entry, slice) or entry != _ALL:
            return NotImplemented
    y = x._row_major()
    chosen = _chosen(y, (*index, *(_ALL,) * (len(x._shape) - len(index))))
    if chosen is None:
        return NotImplemented
    if not isinstance(value, Tensor):
        check_number("setitem", value, x.dtype)
        value = fill_(empty_contiguous((), x.dtype, x.device), value)
    elif value._shape != chosen.result():
        return NotImplemented
    return y if _put(chosen, value, "set") else NotImplemented


@claims_in_place("_index_add")
def _index_add_into(x: Tensor, dim: int, index: Tensor, source: Tensor) -> bool:
    if x.dtype not in _OPCODES["add"].types or not x.is_contiguous():
        return False
    chosen = _chosen_along(x, dim, index)
    if chosen is None or not _put(chosen, source, "add"):
        return False
    x._storage.version += 1
    return True


def _fill_chosen(x: Tensor, entries: tuple[Any, ...], source: Any) -> bool:
    """x[mask] = a number, for a mask of the first dims of a dense tensor. False where it is another index."""
    mask = entries[0]
    if not isinstance(mask, Tensor) or mask.dtype is not _dtype.bool_ or entries[1:].count(_ALL) != len(entries) - 1:
        return False
    rank, shape = len(mask._shape), x._shape
    if not rank or mask._shape != shape[:rank] or not x.is_contiguous() or mask._storage is x._storage:
        return False
    if rank < len(shape):
        behind = len(shape) - rank
        mask = make(mask._storage, mask._shape + (1,) * behind, mask.strides + (0,) * behind, mask.dtype, mask.offset)
    return choose(_on(mask, x.device), source, x, shape, x.dtype, x) is x


@claims("_write")
def _write(x: Tensor, entries: tuple[Any, ...], source: Any) -> Any:
    if (not isinstance(source, Tensor) or not source._shape) and _fill_chosen(x, entries, source):
        return x
    if not isinstance(source, Tensor):
        if x.device is cpu and not capturing() and not x.dtype.is_bits:
            return NotImplemented  # NumPy's way is faster
        source = fill_(empty_contiguous((), x.dtype, x.device), source)
    chosen = _chosen(x, entries)
    if chosen is None:
        return NotImplemented
    shape = chosen.result()
    if source.shape and source.shape != shape:
        try:
            if broadcast_shapes(shape, source.shape, op="setitem") != shape:
                return NotImplemented
        except ValueError:
            if x.device is not cpu:
                raise
            return NotImplemented  # NumPy takes more dims of size one
    if source._storage.address == x._storage.address:
        source = source._row_major()
    return x if _put(chosen, in_type(source, x.dtype), "set") else NotImplemented
