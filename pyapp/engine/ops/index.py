"""Python indexing, gather and scatter, and writing in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .. import dtype as _dtype
from ..autograd import STATE, no_grad
from ..declare import function, method
from ..device import cpu
from ..element_types import CODES, number_slot
from ..in_place import check_writable, tracked, write_tracked
from ..launch import KERNELS
from ..lazy import np
from ..numpy_arrays import array_of, combine_at, tensor_of
from ..op import op, primitive, view_op
from ..operands import check_number, is_plain, unbroadcast
from ..quant import check_not_transposed, copy_blocks
from ..shape import broadcast_shapes, dense_layout, is_packed
from ..tensor import Tensor, empty_contiguous, make
from ..user_errors import MISTAKES, describe, names_itself, tell
from .create import fill_storage_with_zeros
from .view import _alias, _no_blocks, copy_strided, expanded, place_back, reshape, strided_slice

_ADD = KERNELS["add_f32"]
_FILL, _FILL_ANY = KERNELS["fill_f32"], KERNELS["fill"]


_ALL = slice(None)
# What makes a view, by its type alone: the common indices.
_PLAIN = frozenset((int, slice, type(None)))


def _is_basic(entry: Any) -> bool:
    if isinstance(entry, Tensor):
        return entry.ndim == 0 and entry.dtype.category == 1
    return (
        type(entry) in _PLAIN
        or entry is Ellipsis
        or isinstance(entry, slice)
        or (hasattr(entry, "__index__") and not isinstance(entry, (bool, np.ndarray)))
    )


def _entries(x: Tensor, index: Any) -> tuple[list[Any], bool]:
    """One entry for each dim of x (and None for new ones), the ellipsis expanded; and whether they make a view. As in
    torch, tensors of uint8 are masks, and a list of lists is treated as a tuple.
    """
    if isinstance(index, Tensor) and index.dtype is not _dtype.uint8:
        used, rank = _consumes(index), len(x._shape)
        if used <= rank:
            return [index, *[_ALL] * (rank - used)], _is_basic(index)
    if isinstance(index, list) and any(isinstance(e, (list, tuple, slice, Tensor)) or e is None for e in index):
        index = tuple(index)
    entries = list(index) if isinstance(index, tuple) else [index]
    used, ellipsis, basic = 0, -1, True
    for at, entry in enumerate(entries):
        if entry is Ellipsis:
            if ellipsis >= 0:
                raise IndexError("index: an index may hold one ellipsis")
            ellipsis = at
        elif entry is not None:
            if isinstance(entry, str):
                raise TypeError(f"index: {entry!r:.40} is not an index of {describe(x)}")
            if isinstance(entry, Tensor) and entry.dtype is _dtype.uint8:
                entries[at] = entry = entry != 0
            used += _consumes(entry)
            basic = basic and _is_basic(entry)
    if used > x.ndim:
        raise _too_many(used, x)
    at = len(entries) if ellipsis < 0 else ellipsis
    entries[at : at + 1] = [_ALL] * (x.ndim - used)
    return entries, basic


def _too_many(used: int, x: Tensor) -> IndexError:
    return IndexError(f"index: too many indices for tensor of dimension {x.ndim}: {used} indices for {describe(x)}")


def _consumes(entry: Any) -> int:
    """How many dims an entry indexes."""
    if type(entry) in _PLAIN:
        return entry is not None
    if entry is None or entry is Ellipsis or isinstance(entry, bool):
        return 0
    if isinstance(entry, Tensor):
        return 1 if entry.dtype is not _dtype.bool_ else len(entry._shape)
    return int(entry.ndim) if isinstance(entry, np.ndarray) and entry.dtype == bool else 1


def _basic(x: Tensor, entries: Sequence[Any]) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """(shape, strides, offset) of a view by ints, slices and None. Dims after the last entry are kept whole."""
    sizes, steps = x._shape, x.strides
    shape: list[int] = []
    strides: list[int] = []
    offset = dim = 0
    for entry in entries:
        if entry is None:
            shape.append(1)
            strides.append(0)
            continue
        if dim == len(sizes):
            raise _too_many(sum(e is not None for e in entries), x)
        size, stride = sizes[dim], steps[dim]
        if isinstance(entry, slice):
            start, stop, step = entry.indices(size)
            if step < 0:
                raise ValueError("index: slices with a negative step are not views; use flip")
            shape.append(max(0, -((start - stop) // step)))
            strides.append(stride * step)
            offset += min(start, size) * stride
        else:
            position = entry.__index__()
            if not -size <= position < size:
                raise IndexError(
                    f"index: index {position} is out of bounds for dimension {dim} with size {size}: {position} is out "
                    f"of range for dim {dim} of {describe(x)}"
                )
            offset += (position + size if position < 0 else position) * stride
        dim += 1
    return (*shape, *sizes[dim:]), (*strides, *steps[dim:]), offset


def _listed(x: Tensor, entries: Sequence[Any]) -> tuple[Any, ...]:
    """Lists as arrays, by NumPy's rules; both as tensors beside other tensors, and where x is not on the CPU, or of
    bits for NumPy. Tensors of indices are dense.
    """
    kinds = [*map(type, entries)]
    if list in kinds or np.ndarray in kinds:
        entries = [(np.asarray(e) if e else np.zeros(0, "int64")) if isinstance(e, list) else e for e in entries]
        if x.device is not cpu or x.dtype.is_bits or any(isinstance(e, Tensor) for e in entries):
            entries = [tensor_of(e) if isinstance(e, np.ndarray) else e for e in entries]
    return tuple([_dense_index(e) if isinstance(e, Tensor) else e for e in entries])


def _dense_index(index: Tensor) -> Tensor:
    """Integers as the kernels read them, those of the gradient, too; masks stay as they are."""
    return index if index.dtype.category != 1 or index.is_contiguous() else index.contiguous()


def _array_index(entries: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(e.array() if isinstance(e, Tensor) else e for e in entries)


@primitive(name="_take_back", saves="none")
def _take_back(g: Tensor, shape: tuple[int, ...], entries: tuple[Any, ...]) -> Tensor:
    """Zeros with g added at an index: the transpose of _take."""
    whole = np.zeros(shape, array_of(g).dtype)
    combine_at(np.add, whole, _array_index(entries), array_of(g))
    return tensor_of(whole, g.dtype)


@_take_back.gradient
def _d_take_back(g: Tensor, _: Any, part: Tensor, shape: tuple[int, ...], entries: tuple[Any, ...]) -> Any:
    return (_take(g, entries),)


def _d_take(g: Tensor, _: Any, x: Tensor, entries: tuple[Any, ...]) -> Any:
    return (_take_back(g, x._shape, entries),)


@primitive(vjp=_d_take, saves="none", name="_take")
def _take(x: Tensor, entries: tuple[Any, ...]) -> Tensor:
    """Entries: slices, None, and tensors or arrays of integers or bool, at least one; one for each dim of x."""
    index = _array_index(entries)
    try:
        return (
            tensor_of(np.ascontiguousarray(x.array()[index]), x.dtype)
            if not x.dtype.is_bits
            else tensor_of(array_of(x)[index], x.dtype)
        )
    except IndexError as error:
        raise IndexError(f"index: {error} (tensor: {describe(x)})") from None


@primitive(name="_write", saves="none", writes=True)
def _write(x: Tensor, entries: tuple[Any, ...], source: Any) -> Tensor:
    """Writes a tensor or a number where _take would read, in place; returns x."""
    kind = x.dtype
    values = tensor_of(array_of(source, _dtype.float32), kind).array() if kind.is_bits else array_of(source)
    try:
        x.array()[_array_index(entries)] = values
    except (IndexError, ValueError) as error:
        raise type(error)(f"setitem: {error} (tensor: {describe(x)})") from None
    return x


def _is_int(entry: Any) -> bool:
    return entry is not None and type(entry) is not slice and _is_basic(entry)


def _ints_of(entries: Sequence[Any]) -> tuple[Any, ...]:
    """Only the ints of an index: torch selects by them first, NumPy would treat them as arrays."""
    found: list[Any] = []
    for entry in entries:
        found += [entry] if _is_int(entry) else [slice(None)] * _consumes(entry)
    return tuple(found)


@method("__getitem__")
@names_itself
def getitem(x: Tensor, index: Any) -> Tensor:
    """x[ints, slices, None, ...]: a view; with tensors, lists or masks: a copy, as in torch."""
    try:
        if type(index) is int:  # as datasets are read
            if x._shape and (not STATE.enabled or x.is_contiguous()):
                size, step = x._shape[0], x.strides[0]
                if -size <= index < size:
                    return strided_slice(x, x._shape[1:], x.strides[1:], (index + size if index < 0 else index) * step)
        elif isinstance(index, Tensor) and index.dtype.category == 1 and x._shape:
            if index.dtype is not _dtype.uint8:  # of which torch makes a mask
                if not index._shape:
                    return getitem(x, index.__index__())
                return _take(x, (_dense_index(index), *[_ALL] * (len(x._shape) - 1)))
        entries: Sequence[Any] = index if isinstance(index, tuple) else (index,)
        if not _PLAIN.issuperset(map(type, entries)):
            entries, basic = _entries(x, index)
            if not basic:
                if any(map(_is_int, entries)):
                    x, entries = _view(x, _ints_of(entries)), [e for e in entries if not _is_int(e)]
                return _take(x, _listed(x, entries))
        return _view(x, entries)
    except MISTAKES as error:
        tell(error, "index", (x, index), {})
        raise


def _view(x: Tensor, entries: Sequence[Any]) -> Tensor:
    """The view by ints, slices and None."""
    if STATE.enabled and not x.is_contiguous():
        return _index_view(x, tuple(entries))
    return strided_slice(x, *_basic(x, entries))


@view_op(None, name="_index_view")
def _index_view(x: Tensor, entries: tuple[Any, ...]) -> Tensor:
    """Ints, slices and None on strided memory."""
    _no_blocks(x, "index")
    shape, strides, offset = _basic(x, entries)
    return _alias(x, shape, strides, x.offset + offset)


place_back(_index_view)


@op(name="_put", saves="none")
def _put(x: Tensor, value: Any, index: Any) -> Tensor:
    """x with `value` at an index."""
    whole = x._row_major()
    with no_grad():
        setitem(whole, index, value)
    return whole


@_put.gradient
def _d_put(g: Tensor, _: Any, x: Tensor, value: Any, index: Any) -> Any:
    seen = None
    if isinstance(value, Tensor) and value.requires_grad:
        seen = unbroadcast(getitem(g.contiguous(), index), value)
    return _put(g, 0.0, index) if x.requires_grad else None, seen


@method("__setitem__")
@names_itself
def setitem(x: Tensor, index: Any, value: Any) -> None:
    """x[index] = value, in place; leading dims of size one of the value are ignored, as in torch."""
    try:
        _set(x, index, value)
    except MISTAKES as error:
        tell(error, "setitem", (x, index, value), {})
        raise


@method("__delitem__")
def delitem(x: Tensor, index: Any) -> None:
    """TypeError: the elements of a tensor cannot be deleted."""
    raise TypeError("Tensor does not support deleting items: select what stays, x[mask] or cat((x[:i], x[i + 1 :]))")


def _set(x: Tensor, index: Any, value: Any) -> None:
    if isinstance(value, Tensor) and value._shape[:1] == (1,):
        value = reshape(value, value._shape[next((i for i, n in enumerate(value._shape) if n != 1), value.ndim) :])
    if tracked(x, value):
        write_tracked(x, "setitem", lambda old: _put(old, value, index), copy=False)
        return
    entries: Sequence[Any] = index if isinstance(index, tuple) else (index,)
    basic = _PLAIN.issuperset(map(type, entries))
    if not basic:
        entries, basic = _entries(x, index)
    if basic:
        copy_(_part(x, entries), value)  # a part of what is expanded may be dense
        return
    check_writable(x, "setitem")
    if any(map(_is_int, entries)):
        _set(_part(x, _ints_of(entries)), tuple(e for e in entries if not _is_int(e)), value)
        return
    if not isinstance(value, (Tensor, int, float, complex)):
        value = tensor_of(np.asarray(value)).to(x.device)
    check_number("setitem", value, x.dtype)
    _write.call(x, _listed(x, entries), value)
    x._storage.version += 1


def _part(x: Tensor, entries: Sequence[Any]) -> Tensor:
    """The view by ints, slices and None, of which autograd does not know."""
    _no_blocks(x, "setitem")
    shape, strides, offset = _basic(x, entries)
    return make(x._storage, shape, strides, x.dtype, x.offset + offset)


def _are_alike(x: Tensor, source: Tensor) -> bool:
    """Whether two tensors are of one shape, dtype and device and share no memory, and x repeats no element."""
    if x.dtype is not source.dtype or x.dtype.is_quantized or x.device is not source.device or x.device is not cpu:
        return False
    if x._shape != source._shape or len(x._shape) > 6 or x._storage.address == source._storage.address:
        return False
    return 0 not in x.strides


@method()
def copy_(x: Tensor, source: Any) -> Tensor:
    """Writes `source` (a tensor, array or number, broadcast) into x; into a block format, quantised."""
    if tracked(x, source) and not x.dtype.is_quantized:  # blocks have no gradient
        return write_tracked(x, "copy_", lambda old: _put(old, source, Ellipsis), copy=False)
    if type(source) is Tensor and type(x) is Tensor and _are_alike(x, source):
        copy_strided(x, source)
        x._storage.version += 1
        return x
    check_writable(x, "copy_")
    if not isinstance(source, Tensor):
        return (
            fill_(x, source) if isinstance(source, (int, float, complex)) else copy_(x, tensor_of(np.asarray(source)))
        )
    if broadcast_shapes(x._shape, source._shape, op="copy_") != x._shape:
        raise ValueError(f"copy_: {describe(source)} does not fit into {describe(x)}")
    source = source.detach()
    if source.device is not x.device:
        source = source.to(device=x.device)
    if source.dtype is not x.dtype:
        source = (source.expand(x._shape) if x.dtype.is_quantized else source).to(x.dtype)
    if source._storage.address == x._storage.address and (source.offset, source._shape, source.strides) != (
        x.offset,
        x._shape,
        x.strides,
    ):
        source = source._row_major()  # source and target may overlap
    if not copy_strided(x, expanded(source, x._shape)):
        if x.dtype.is_quantized:
            _copy_blocks(x, source)
        else:
            np.copyto(x.array(), source.array())
    x._storage.version += 1
    return x


def _copy_blocks(x: Tensor, source: Tensor) -> None:
    """Writes a matrix into another one of its block type and shape."""
    for each in (x, source):
        check_not_transposed(each, "copy_")
    copy_blocks(x, source.to(x.device))


@method("_accumulate")
@names_itself
def add_into(x: Tensor, other: Tensor) -> None:
    """x += other, for the same shape and dtype, without a temporary tensor."""
    count, strides = dense_layout(x._shape)
    dense = x.dtype is other.dtype is _dtype.float32 and type(x) is type(other) is Tensor
    if (dense and x.strides == other.strides == strides) or (is_plain(x) and is_plain(other)):
        whole = count or 1
        _ADD.launch(count >> 10, x, x, other, count, whole, whole, 0, 0, 0.0)
    else:
        copy_(x, x + other)
        return
    x._storage.version += 1


@method()
def fill_(x: Tensor, value: Any) -> Tensor:
    """Writes one number into every element; into a block format, 0 only."""
    if tracked(x, value) and not x.dtype.is_quantized:
        return write_tracked(x, "fill_", lambda old: _put(old, value, Ellipsis), copy=False)
    check_writable(x, "fill_")
    check_number("fill_", value, x.dtype)
    if x.dtype is _dtype.float32 and (x.is_contiguous() or is_packed(x._shape, x.strides)):
        _FILL.launch(x.numel() >> 10, x, x.numel(), float(value))
    elif isinstance(value, Tensor):
        return copy_(x, value)
    elif x.dtype.is_quantized:
        if value != 0:
            raise TypeError(f"fill_: {describe(x)} is block-quantised and takes 0 only; copy_() a tensor into it")
        fill_storage_with_zeros(x)
    elif x.dtype.is_complex:
        for at, part in enumerate((value.real, value.imag)):
            fill_(make(x._storage, x._shape, tuple(2 * s for s in x.strides), x.dtype.part, 2 * x.offset + at), part)
    elif x.is_contiguous():
        whole = int(value) if x.dtype.category == 1 else value
        number = number_slot(whole, x.dtype)
        if number is None:  # unsigned types accept negative numbers, which wrap
            number = number_slot(whole % (1 << 8 * x.dtype.itemsize), x.dtype)
        _FILL_ANY.launch(x.numel() >> 10, x, CODES[x.dtype], x.numel(), number)
    else:
        one = fill_(empty_contiguous((), x.dtype, x.device), value)
        if not copy_strided(x, make(one._storage, x._shape, (0,) * len(x._shape), x.dtype)):
            return copy_(x, one)
    x._storage.version += 1
    return x


@method()
def zero_(x: Tensor) -> Tensor:
    """Writes zeros."""
    if x.dtype is _dtype.float32 and type(x) is Tensor and not tracked(x):
        count, strides = dense_layout(x._shape)
        if x.strides == strides:  # as gradients and buffers are
            _FILL.launch(count >> 10, x, count, 0.0)
            x._storage.version += 1
            return x
    return fill_(x, 0)


@function(method=True)
def select(x: Tensor, dim: int, index: int) -> Tensor:
    """The slice at an index of a dim: a view without that dim."""
    d = dim + x.ndim if dim < 0 else dim
    if not 0 <= d < x.ndim:
        raise IndexError(f"select: dim {dim} is out of range for {describe(x)}")
    return getitem(x, (slice(None),) * d + (index,))
