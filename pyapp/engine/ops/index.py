"""Python indexing, gather and scatter, and writing in place."""

from __future__ import annotations

from typing import Any

from .. import dtype as _dtype
from ..autograd import STATE, no_grad
from ..launch import KERNELS, capturing, launch
from ..lazy import np
from ..mistakes import MISTAKES, names_itself, tell
from ..op import describe, primitive, view_op
from ..shape import broadcast_shapes, normalize_dim
from ..tensor import Tensor, adopt_array
from .base import array_of, check_number, computed, is_plain, tensor_of, unbroadcast
from .inplace import tracked, write_tracked
from .view import _alias, _no_blocks, copy_strided, place_back, reshape, strided_slice

_FILL = KERNELS["fill_f32"]


def _is_basic(entry: Any) -> bool:
    if isinstance(entry, Tensor):
        return entry.ndim == 0 and entry.dtype.category == 1
    return (
        entry is None
        or entry is Ellipsis
        or isinstance(entry, slice)
        or (hasattr(entry, "__index__") and not isinstance(entry, (bool, np.ndarray)))
    )


def _entries(x: Tensor, index: Any) -> list[Any]:
    """One entry for each dim of x (and None for new ones); the ellipsis is spelt out. As in torch, tensors of uint8 are
    masks, and a list that holds lists is a tuple."""
    if isinstance(index, list) and any(isinstance(e, (list, tuple, slice, Tensor)) or e is None for e in index):
        index = tuple(index)
    entries = list(index) if isinstance(index, tuple) else [index]
    for entry in entries:
        if isinstance(entry, str):
            raise TypeError(f"index: {entry!r:.40} is no index of {describe(x)}")
    entries = [e != 0 if isinstance(e, Tensor) and e.dtype is _dtype.uint8 else e for e in entries]
    used = sum(_consumes(e) for e in entries)
    if used > x.ndim:
        raise IndexError(f"index: {used} indices for {describe(x)}")
    where = [i for i, e in enumerate(entries) if e is Ellipsis]
    if len(where) > 1:
        raise IndexError("index: an index may hold one ellipsis")
    fill = [slice(None)] * (x.ndim - used)
    if not where:
        return entries + fill
    return entries[: where[0]] + fill + entries[where[0] + 1 :]


def _consumes(entry: Any) -> int:
    if entry is None or entry is Ellipsis or isinstance(entry, bool):
        return 0
    if isinstance(entry, (Tensor, np.ndarray)) and str(entry.dtype).endswith("bool"):
        return int(entry.ndim)
    return 1


def _basic(x: Tensor, entries: list[Any]) -> tuple[tuple[int, ...], tuple[int, ...], int]:
    """(shape, strides, offset) of a view by ints, slices and None."""
    shape: list[int] = []
    strides: list[int] = []
    offset = 0
    dim = 0
    for entry in entries:
        if entry is None:
            shape.append(1)
            strides.append(0)
            continue
        size, stride = x.shape[dim], x.strides[dim]
        if isinstance(entry, slice):
            if entry.step is not None and int(entry.step) < 0:
                raise ValueError("index: slices with a negative step are not views; use flip")
            start, stop, step = entry.indices(size)
            shape.append(max(0, -((start - stop) // step)))
            strides.append(stride * step)
            offset += min(start, size) * stride
        else:
            position = entry.__index__()
            if not -size <= position < size:
                raise IndexError(f"index: {position} is out of range for dim {dim} of {describe(x)}")
            offset += (position + size if position < 0 else position) * stride
        dim += 1
    return tuple(shape), tuple(strides), offset


def _array_index(entries: list[Any]) -> tuple[Any, ...]:
    return tuple(e.array() if isinstance(e, Tensor) else e for e in entries)


@primitive(name="_take_back", saves="none", method=False)
def _take_back(g: Tensor, shape: tuple[int, ...], index: tuple[Any, ...]) -> Tensor:
    """Zeros with g added at an index: the transpose of _take."""
    computed("index")
    whole = np.zeros(shape, array_of(g).dtype)
    np.add.at(whole, index, array_of(g))
    return tensor_of(whole, g.dtype)


@_take_back.gradient
def _d_take_back(g: Tensor, _: Any, part: Tensor, shape: tuple[int, ...], index: tuple[Any, ...]) -> Any:
    return (_take(g, index),)


def _d_take(g: Tensor, _: Any, x: Tensor, index: tuple[Any, ...]) -> Any:
    return (_take_back(g, x.shape, index),)


@primitive(vjp=_d_take, saves="none", name="_take", method=False)
def _take(x: Tensor, index: tuple[Any, ...]) -> Tensor:
    computed("index")
    try:
        return (
            tensor_of(np.ascontiguousarray(x.array()[index]), x.dtype)
            if not x.dtype.is_bits
            else tensor_of(array_of(x)[index], x.dtype)
        )
    except IndexError as error:
        raise IndexError(f"index: {error} (tensor: {describe(x)})") from None


def _is_int(entry: Any) -> bool:
    return entry is not None and entry is not Ellipsis and not isinstance(entry, slice) and _is_basic(entry)


def _ints_of(entries: list[Any]) -> tuple[Any, ...]:
    """Only the ints of an index: torch selects by them first, NumPy would count them among the arrays."""
    found: list[Any] = []
    for entry in entries:
        found += [entry] if _is_int(entry) else [slice(None)] * _consumes(entry)
    return tuple(found)


@names_itself
def getitem(x: Tensor, index: Any) -> Tensor:
    """x[ints, slices, None, ...]: a view; with tensors, lists or masks: a copy, as in torch."""
    try:
        entries = _entries(x, index)
        if not all(_is_basic(e) for e in entries):
            if any(_is_int(e) for e in entries):
                return getitem(getitem(x, _ints_of(entries)), tuple(e for e in entries if not _is_int(e)))
            lists = [np.asarray(e) if isinstance(e, (list, np.ndarray)) else e for e in entries]
            return _take(x, _array_index(lists))
        if STATE.enabled and not x.is_contiguous():
            return _index_view(x, tuple(entries))
        return strided_slice(x, *_basic(x, entries))
    except MISTAKES as error:
        tell(error, "index", (x, index), {})
        raise


@view_op(None, name="_index_view")
def _index_view(x: Tensor, entries: tuple[Any, ...]) -> Tensor:
    """Ints, slices and None on strided memory."""
    _no_blocks(x, "index")
    shape, strides, offset = _basic(x, list(entries))
    return _alias(x, shape, strides, x.offset + offset)


place_back(_index_view)


def check_writable(x: Tensor, name: str) -> None:
    """Memory whose elements stand for several is not written."""
    if 0 in x.strides and any(n > 1 and s == 0 for n, s in zip(x.shape, x.strides, strict=True)):
        raise RuntimeError(f"{name}: {describe(x)} is expanded: several elements share one place; clone() it first")


@primitive(name="_put", saves="none", method=False)
def _put(x: Tensor, value: Any, index: Any) -> Tensor:
    """x with `value` at an index."""
    whole = x.clone()
    with no_grad():
        setitem(whole, index, value)
    return whole


@_put.gradient
def _d_put(g: Tensor, _: Any, x: Tensor, value: Any, index: Any) -> Any:
    seen = unbroadcast(getitem(g.contiguous(), index), value)
    return _put(g, 0.0, index) if x.requires_grad else None, seen


def setitem(x: Tensor, index: Any, value: Any) -> None:
    """x[index] = value, in place."""
    if tracked(x, value):
        write_tracked(x, "setitem", lambda old: _put(old, value, index), copy=False)
        return
    check_writable(x, "setitem")
    entries = _entries(x, index)
    if all(_is_basic(e) for e in entries):
        with no_grad():
            copy_(strided_slice(x, *_basic(x, entries)), value)
        return
    if any(_is_int(e) for e in entries):
        with no_grad():
            setitem(getitem(x, _ints_of(entries)), tuple(e for e in entries if not _is_int(e)), value)
        return
    computed("setitem")
    kind = x.dtype
    lists = [np.asarray(e) if isinstance(e, (list, np.ndarray)) else e for e in entries]
    source = tensor_of(array_of(value, _dtype.float32), kind).array() if kind.is_bits else array_of(value)
    try:
        x.array()[_array_index(lists)] = source
    except (IndexError, ValueError) as error:
        raise type(error)(f"setitem: {error} (tensor: {describe(x)})") from None
    x.storage.version += 1


def copy_(x: Tensor, source: Any) -> Tensor:
    """Writes `source` (a tensor, array or number, broadcast) into x."""
    if tracked(x, source):
        return write_tracked(x, "copy_", lambda old: _put(old, source, Ellipsis), copy=False)
    check_writable(x, "copy_")
    if not isinstance(source, Tensor):
        return fill_(x, source) if isinstance(source, (int, float)) else copy_(x, tensor_of(np.asarray(source)))
    if broadcast_shapes(x.shape, source.shape, op="copy_") != x.shape:
        raise ValueError(f"copy_: {describe(source)} does not fit into {describe(x)}")
    source = source.detach()
    if source.dtype is not x.dtype:
        source = source.to(x.dtype)
    if source.storage.address == x.storage.address and (source.offset, source.shape, source.strides) != (
        x.offset,
        x.shape,
        x.strides,
    ):
        source = source.clone()  # source and target may overlap
    if not copy_strided(x, source.expand(x.shape)):
        computed("copy_")
        np.copyto(x.array(), source.array())
    x.storage.version += 1
    return x


def add_into(x: Tensor, other: Tensor) -> None:
    """x += other, of one shape and dtype, without a tensor between."""
    if is_plain(x) and is_plain(other):
        count = x.numel()
        launch(
            KERNELS["add_f32"],
            count >> 10,
            x.address,
            x.address,
            other.address,
            count,
            max(count, 1),
            max(count, 1),
            0,
            0,
            0.0,
        )
    elif x.dtype.is_bits:
        copy_(x, x + other)
        return
    else:
        computed("add")
        np.add(x.array(), other.array(), out=x.array())
    x.storage.version += 1


def fill_(x: Tensor, value: Any) -> Tensor:
    """Writes one number into every element."""
    if tracked(x, value):
        return write_tracked(x, "fill_", lambda old: _put(old, value, Ellipsis), copy=False)
    check_writable(x, "fill_")
    check_number("fill_", value, x.dtype)
    if x.dtype is _dtype.float32 and x.is_contiguous():
        launch(_FILL, x.numel() >> 10, x.address, x.numel(), float(value))
    elif (
        not capturing()
        and x.numel() == 1
        and x.is_contiguous()
        and not x.dtype.is_bits
        and x.dtype is not _dtype.float16
    ):
        x.data_view()[0] = int(value) if not x.dtype.is_floating_point else float(value)
    else:
        computed("fill_")
        x.array()[...] = tensor_of(np.asarray(value), x.dtype).array()
    x.storage.version += 1
    return x


def zero_(x: Tensor) -> Tensor:
    """Writes zeros."""
    return fill_(x, 0)


def _index_array(name: str, x: Tensor, dim: int, index: Tensor) -> Any:
    """int64 indices of gather/scatter, checked."""
    if index.dtype.category != 1:
        raise TypeError(f"{name}: the index must be of integers, got {describe(index)}")
    if index.ndim != x.ndim:
        raise ValueError(f"{name}: {describe(x)} and the index {describe(index)} have different numbers of dims")
    array = index.array().astype(np.int64)
    size = x.shape[dim] if x.ndim else 1
    if array.size and (array.min() < 0 or array.max() >= size):
        raise IndexError(
            f"{name}: index values {array.min()} .. {array.max()} are outside 0 .. {size - 1}, "
            f"dim {dim} of {describe(x)}"
        )
    return array


def _grid(index: Any, dim: int) -> tuple[Any, ...]:
    """An advanced index that applies `index` along dim and keeps the other coordinates."""
    grid = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    grid[dim] = index
    return tuple(grid)


@primitive(vjp=lambda g, _, x, dim, index: (g.new_zeros(x.shape).scatter_add(dim, index, g),), saves="none")
def gather(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """out[i][j] = x[index[i][j]][j] for dim 0, and so on, as torch.gather."""
    computed("gather")
    d = normalize_dim(dim, x.ndim, "gather")
    found = _index_array("gather", x, d, index)
    picked = x.array()[_grid(found, d)] if x.ndim else x.array().reshape(1)[found]
    return adopt_array(np.asarray(picked), x.dtype)  # bits stay bits


def _d_source(g: Tensor, dim: int, index: Tensor, source: Tensor) -> Tensor:
    """g where the index reads the source, zeros behind."""
    from .rearrange import pad

    part = g.gather(dim, index)
    return pad(
        part, [n for size, had in zip(source.shape[::-1], part.shape[::-1], strict=True) for n in (0, size - had)]
    )


@primitive(vjp=lambda g, _, x, dim, index, src: (g, None, None, _d_source(g, dim, index, src)), saves="none")
def scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Tensor:
    """x with src added at index along dim; equal indices add up."""
    computed("scatter_add")
    d = normalize_dim(dim, x.ndim, "scatter_add")
    result = array_of(x).copy()
    found = _index_array("scatter_add", x, d, index)
    np.add.at(result, _grid(found, d), array_of(src)[tuple(slice(n) for n in found.shape)])
    return tensor_of(result, x.dtype)


def _d_scatter(g: Tensor, _: Any, x: Tensor, dim: int, index: Tensor, source: Any) -> Any:
    from .create import zeros

    hole = scatter(g, dim, index, zeros(index.shape, dtype=g.dtype))
    return hole, None, None, _d_source(g, dim, index, source) if isinstance(source, Tensor) and source.ndim else None


@primitive(vjp=_d_scatter, saves="none")
def scatter(x: Tensor, dim: int, index: Tensor, source: Any) -> Tensor:
    """x with source (a tensor or a number) written at index along dim."""
    computed("scatter")
    if isinstance(source, Tensor) and source.dtype is not x.dtype:
        raise TypeError(f"scatter: {describe(x)} and the source {describe(source)} differ in dtype")
    d = normalize_dim(dim, x.ndim, "scatter")
    result = array_of(x).copy()
    found = _index_array("scatter", x, d, index)
    values = array_of(source)
    if values.ndim and (
        values.ndim != found.ndim or any(n < m for n, m in zip(values.shape, found.shape, strict=True))
    ):
        raise ValueError(f"scatter: the source {describe(source)} does not cover the index {describe(index)}")
    result[_grid(found, d)] = values[tuple(slice(n) for n in found.shape)] if values.ndim else values
    return tensor_of(result, x.dtype)


def _scatter_by_name(
    x: Tensor, dim: int, index: Tensor, src: Any = None, value: Any = None, reduce: str | None = None
) -> Tensor:
    source = value if src is None else src
    if reduce is None:
        return scatter(x, dim, index, source)
    if reduce not in ("add", "multiply"):
        raise ValueError(f"scatter: reduce is 'add' or 'multiply', not {reduce!r}")
    if not isinstance(source, Tensor):
        source = x.new_full(index.shape, source)
    from .index_more import scatter_reduce

    return scatter_reduce(x, dim, index, source, "sum" if reduce == "add" else "prod")


scatter.by_name = _scatter_by_name


def index_select(x: Tensor, dim: int, index: Tensor) -> Tensor:
    """Entries of a dim by a 1-dim tensor of integers."""
    d = normalize_dim(dim, x.ndim, "index_select")
    if not x.ndim:
        return reshape(index_select(reshape(x, 1), 0, reshape(index, -1)), ())
    if index.dtype not in (_dtype.int32, _dtype.int64) or index.ndim > 1:
        raise (IndexError if index.ndim > 1 else TypeError)(
            f"index_select: the index is a vector of int32 or int64, not {describe(index)}"
        )
    if not capturing() and index.numel() and int(index.amin()) < 0:
        raise IndexError(f"index_select: the index has negative values, to {int(index.amin())} ({describe(x)})")
    return getitem(x, (slice(None),) * d + (reshape(index, -1),))


def _matrices(name: str, x: Tensor) -> None:
    if x.ndim < 2:
        raise ValueError(f"{name}: takes matrices, not {describe(x)}")


@primitive(vjp=lambda g, _, x, diagonal=0: (g.tril(diagonal),), saves="none")
def tril(x: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of the last two dims; zeros above."""
    computed("tril")
    _matrices("tril", x)
    return tensor_of(np.tril(array_of(x), diagonal), x.dtype)


@primitive(vjp=lambda g, _, x, diagonal=0: (g.triu(diagonal),), saves="none")
def triu(x: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of the last two dims; zeros below."""
    computed("triu")
    _matrices("triu", x)
    return tensor_of(np.triu(array_of(x), diagonal), x.dtype)


def _new(name: str) -> Any:
    def method(x: Tensor, *args: Any, dtype: Any = None, device: Any = None, **kwargs: Any) -> Tensor:
        from . import create

        return getattr(create, name)(*args, dtype=dtype or x.dtype, device=device or x.device, **kwargs)

    return method


Tensor.__getitem__ = getitem  # type: ignore[method-assign]
Tensor.__setitem__ = setitem  # type: ignore[method-assign]
for _function in (copy_, fill_, zero_, index_select):
    setattr(Tensor, _function.__name__, _function)
for _name in ("zeros", "ones", "empty", "full"):
    setattr(Tensor, "new_" + _name, _new(_name))


__all__ = [
    "copy_",
    "fill_",
    "gather",
    "getitem",
    "index_select",
    "reshape",
    "scatter",
    "scatter_add",
    "setitem",
    "tril",
    "triu",
]
