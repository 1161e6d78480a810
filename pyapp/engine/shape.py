"""Shapes and strides: broadcasting, normalised dims, contiguity. Strides count elements."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable, Sequence, Sized
from functools import lru_cache
from math import prod
from operator import index
from typing import Any, SupportsIndex, overload

Shape = tuple[int, ...]

_STRIDES: dict[Shape, Shape] = {}


def contiguous_strides(shape: Shape) -> Shape:
    """Strides of a dense row-major tensor; a dim of size zero counts as one, as in PyTorch."""
    found = _STRIDES.get(shape)
    if found is None:
        strides = []
        step = 1
        for size in reversed(shape):
            strides.append(step)
            step *= max(index(size), 1)  # no float, whose strides would serve for the equal integer, too
        found = tuple(reversed(strides))
        if len(_STRIDES) > 4096:
            _STRIDES.clear()
        _STRIDES[shape] = found
    return found


_LAYOUTS: dict[Shape, tuple[int, Shape]] = {}


def dense_layout(shape: Shape) -> tuple[int, Shape]:
    """(elements, strides) of a dense row-major tensor. ValueError if a size is negative."""
    found = _LAYOUTS.get(shape)
    if found is None:
        if any(size < 0 for size in shape):
            raise ValueError(f"a tensor cannot have the shape {shape}: sizes are not negative")
        found = prod(map(index, shape)), contiguous_strides(shape)
        if len(_LAYOUTS) > 4096:
            _LAYOUTS.clear()
        _LAYOUTS[shape] = found
    return found


@lru_cache(4096)
def is_packed(shape: Shape, strides: Shape) -> bool:
    """Whether elements have no gaps in memory, in any order of the dims."""
    step = 1
    for stride, size in sorted((s, n) for s, n in zip(strides, shape, strict=True) if n != 1):
        if stride != step:
            return False
        step *= size
    return True


@lru_cache(4096)
def kept_order(shape: Shape, strides: Shape) -> tuple[int, ...] | None:
    """The dims, the outermost in memory first, where a copy without gaps keeps an order that is not row-major; else
    None. Dims that are repeated have no place in memory: with them a copy is row-major.
    """
    if any(stride == 0 for stride, size in zip(strides, shape, strict=True) if size > 1) or 0 in shape:
        return None
    order = sorted((i for i, n in enumerate(shape) if n != 1), key=lambda i: -strides[i])
    if order == sorted(order):
        return None
    ones = [i for i, n in enumerate(shape) if n == 1]
    for i in ones:  # beside the dim that lies next to it
        order.insert(next((at for at, d in enumerate(order) if strides[d] < strides[i] or d == i + 1), len(order)), i)
    return tuple(order)


@lru_cache(4096)
def kept_strides(shape: Shape, strides: Shape) -> Shape | None:
    """The strides of a copy without gaps that keeps an order in memory which is not row-major; else None."""
    order = kept_order(shape, strides)
    if order is None or is_packed(shape, strides):
        return None if order is None else strides
    found = [0] * len(shape)
    for stride, d in zip(contiguous_strides(tuple(shape[d] for d in order)), order, strict=True):
        found[d] = stride
    return tuple(found)


def is_contiguous(shape: Shape, strides: Shape) -> bool:
    """Whether the elements are dense in row-major order (strides of dims of size one do not matter)."""
    return strides == contiguous_strides(shape) or _is_dense(shape, strides)


@lru_cache(4096)
def _is_dense(shape: Shape, strides: Shape) -> bool:
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides), strict=True):
        if size == 0:
            return True
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True


_BROADCAST: dict[tuple[Shape, ...], Shape] = {}


def broadcast_shapes(*shapes: Shape, op: str = "broadcast") -> Shape:
    """The common shape. ValueError names the dim that does not fit."""
    if shapes and shapes.count(shapes[0]) == len(shapes):
        return shapes[0]
    found = _BROADCAST.get(shapes)
    if found is None:
        found = _broadcast(shapes, op)
        if len(_BROADCAST) > 4096:
            _BROADCAST.clear()
        _BROADCAST[shapes] = found
    return found


def _broadcast(shapes: tuple[Shape, ...], op: str) -> Shape:
    rank = max((len(shape) for shape in shapes), default=0)
    result = [1] * rank
    for shape in shapes:
        for i, size in enumerate(shape, rank - len(shape)):
            if size != 1 and result[i] == 1:
                result[i] = size
            elif size not in (1, result[i]):
                raise ValueError(
                    f"{op}: The size of tensor a ({result[i]}) must match the size of tensor b ({size}) at "
                    f"non-singleton dimension {i}: shapes {' and '.join(str(s) for s in shapes)} do not broadcast: "
                    f"dim {i - rank} is {result[i]} in one and {size} in another"
                )
    return tuple(result)


def normalize_dim(dim: int, rank: int, op: str) -> int:
    """A dim counted from the front. IndexError outside -rank .. rank - 1 (a 0-dim tensor takes 0 and -1)."""
    limit = max(rank, 1)
    if type(dim) is not int:
        try:
            dim = index(dim)
        except TypeError:
            raise TypeError(f"{op}: a dim is an integer, not {dim!r}") from None
    if not -limit <= dim < limit:
        raise IndexError(
            f"{op}: Dimension out of range (expected to be in range of [{-limit}, {limit - 1}], but got {dim}): dim "
            f"{dim} is out of range for a tensor of {rank} dims"
        )
    return dim + limit if dim < 0 else dim


def normalize_dims(dims: int | Sequence[int] | None, rank: int, op: str) -> tuple[int, ...]:
    """Distinct dims from the front, in order; None is all of them."""
    if dims is None:
        return tuple(range(rank))
    if type(dims) is int:
        found = normalize_dim(dims, rank, op)
        return (found,) if rank else ()
    if type(dims) is not tuple and (isinstance(dims, (int, str)) or not isinstance(dims, Iterable)):
        dims = (dims,)
    places = [normalize_dim(d, rank, op) for d in dims]
    if len(set(places)) != len(places):
        raise ValueError(f"{op}: dim {dims} names the same dim twice")
    return tuple(sorted(places)) if rank else ()


def reduced_dims(dims: int | Sequence[int] | None, rank: int, op: str) -> tuple[int, ...]:
    """The dims of a reduction: as in torch, no dims are all of them."""
    if dims is None or type(dims) is int or type(dims) is tuple:  # without asking Sized, which takes long
        return normalize_dims(None if dims == () else dims, rank, op)
    if isinstance(dims, Sized) and not len(dims):  # no truth: that of [0] as an array is false
        dims = None
    return normalize_dims(dims, rank, op)


def _misfit(op: str, count: int, sizes: Shape) -> ValueError:
    return ValueError(
        f"{op}: shape '{list(sizes)}' is invalid for input of size {count}: {count} elements do not fit the shape "
        f"{sizes}"
    )


@lru_cache(4096)
def infer_shape(shape: Shape, count: int, op: str) -> Shape:
    """Replaces one -1 so that the shape holds `count` elements."""
    sizes = tuple(map(int, shape))
    if min(sizes, default=0) < 0:
        if sizes.count(-1) > 1 or min(sizes) < -1:
            raise ValueError(f"{op}: shape {sizes} may hold one -1 and no other negative size")
        known = -prod(sizes)
        if known == 0 or count % known:
            raise _misfit(op, count, sizes)
        missing = sizes.index(-1)
        return (*sizes[:missing], count // known, *sizes[missing + 1 :])
    if prod(sizes) != count:
        raise _misfit(op, count, sizes)
    return sizes


@lru_cache(4096)
def view_strides(shape: Shape, strides: Shape, target: Shape) -> Shape | None:
    """Strides with which `target` views the same elements without a copy, or None."""
    if is_contiguous(shape, strides):
        return contiguous_strides(target)
    kept = [(size, stride) for size, stride in zip(shape, strides, strict=True) if size != 1]
    result = [0] * len(target)
    i = len(target) - 1
    while kept:
        size, stride = kept.pop()
        while kept and kept[-1][1] == stride * size:  # adjacent dense dims are merged
            size *= kept.pop()[0]
        filled = 1
        while i >= 0 and filled * target[i] <= size:
            result[i] = stride * filled
            filled *= target[i]
            i -= 1
        if filled != size:
            return None
    return tuple(result)


def as_shape(sizes: Iterable[object]) -> Shape:
    """A shape from `f(2, 3)` or `f((2, 3))` arguments."""
    values = tuple(sizes)
    if len(values) == 1 and hasattr(values[0], "__iter__") and getattr(values[0], "ndim", True):
        values = tuple(values[0])
    try:
        return tuple(map(index, values))  # type: ignore[arg-type]
    except TypeError:
        raise TypeError(f"a size is an integer: {reprlib.repr(values)} is not a shape") from None


_sized = tuple.__new__


class Size(tuple[int, ...]):
    """A shape as torch.Size: a tuple with numel(), whose slices and sums are shapes, too. It prints as a tuple."""

    def __new__(cls, sizes: Iterable[SupportsIndex] = ()) -> Size:
        return tuple.__new__(cls, map(index, sizes))

    def numel(self) -> int:
        """The number of elements."""
        return prod(self)

    @overload
    def __getitem__(self, at: SupportsIndex) -> int: ...
    @overload
    def __getitem__(self, at: slice) -> Size: ...

    def __getitem__(self, at: Any) -> Any:
        found = tuple.__getitem__(self, at)
        return _sized(Size, found) if isinstance(at, slice) else found

    def __add__(self, other: Iterable[int]) -> Size:  # type: ignore[override]
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other: Iterable[int]) -> Size:
        return Size(tuple.__add__(tuple(other), self))

    def __mul__(self, times: SupportsIndex) -> Size:
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __str__(self) -> str:
        return tuple.__repr__(self)

    def __repr__(self) -> str:
        return f"pyapp.Size({list(self)})"


__top_level__ = ["Size"]
