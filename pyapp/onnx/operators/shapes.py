"""Shapes: reshape, transpose, join, split, slice, pad, and what moves elements without computing."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np

from ..registry import operator
from ..values import ForeignArray, array_of, axes_of, check_room, element_of, ints, like, made_of, scalar, text

VIEW = 1024  # bytes that a view of a tensor takes at most


def _moved(x: Any, by_tensor: Any, by_array: Any) -> Any:
    """What moves elements: tensors by the engine, other arrays by NumPy."""
    return by_tensor(x) if isinstance(x, Tensor) else like(x, by_array(x.array))


operator("Identity")(lambda x: x)


def reshaped(x: Any, shape: Sequence[int]) -> Any:
    """x with another shape."""
    return _moved(x, lambda t: t.reshape(tuple(shape)), lambda a: a.reshape(tuple(shape)))


def permuted(x: Any, order: Sequence[int]) -> Any:
    return _moved(x, lambda t: t.permute(*order) if order else t, lambda a: a.transpose(order))


@operator("Reshape", since=5, reads=(1,))
def reshape(x: Any, shape: Tensor, *, allowzero: int = 0) -> Any:
    """0 keeps the size of the dim (unless `allowzero`), -1 takes what is left."""
    sizes = ints(shape)
    for at, size in enumerate(sizes):
        if size == 0 and not allowzero:
            if at >= x.ndim:
                raise ValueError(f"the shape {sizes} keeps dim {at}, which x of shape {x.shape} does not have")
            sizes[at] = x.shape[at]
    known = prod(size for size in sizes if size != -1)
    if sizes.count(-1) > 1 or min(sizes, default=0) < -1:
        raise ValueError(f"the shape {sizes} is not possible")
    if -1 in sizes:
        sizes[sizes.index(-1)] = x.numel() // known if known else 0
    if prod(sizes) != x.numel():
        raise ValueError(f"{x.numel():,} elements of shape {tuple(x.shape)} do not fit into the shape {sizes}")
    return reshaped(x, sizes)


@operator("Flatten")
def flatten(x: Any, *, axis: int = 1) -> Any:
    """A matrix: the dims before the axis, and those from it on."""
    if not -x.ndim <= axis <= x.ndim:
        raise ValueError(f"axis {axis} is out of range for a tensor with {x.ndim} dims")
    at = axis if axis >= 0 else axis + x.ndim
    return reshaped(x, (prod(x.shape[:at]), prod(x.shape[at:])))


@operator("Shape", shape_only=True)
def shape(x: Any, *, start: int = 0, end: int | None = None) -> Tensor:
    return made_of(np.array(x.shape[slice(start, end)], np.int64))


@operator("Size", shape_only=True)
def size(x: Any) -> Tensor:
    return made_of(np.array(x.numel(), np.int64))


def _squeezed(x: Any, axes: Sequence[int] | None) -> Any:
    dropped = [at for at, n in enumerate(x.shape) if n == 1] if axes is None else axes_of(axes, x.ndim)
    for at in dropped:
        if x.shape[at] != 1:
            raise ValueError(f"dim {at} of shape {tuple(x.shape)} has {x.shape[at]} entries, so it cannot be dropped")
    return reshaped(x, [n for at, n in enumerate(x.shape) if at not in dropped])


@operator("Squeeze", since=13, reads=(1,))
def squeeze(x: Any, axes: Any = None) -> Any:
    return _squeezed(x, None if axes is None else ints(axes))


@operator("Squeeze")
def squeeze_by_attribute(x: Any, *, axes: list[int] | None = None) -> Any:
    return _squeezed(x, axes)


def _unsqueezed(x: Any, axes: Sequence[int]) -> Any:
    rank = x.ndim + len(axes)
    new = set(axes_of(axes, rank))
    if len(new) != len(axes):
        raise ValueError(f"the axes {list(axes)} name a dim twice")
    sizes = iter(x.shape)
    return reshaped(x, [1 if at in new else next(sizes) for at in range(rank)])


@operator("Unsqueeze", since=13, reads=(1,))
def unsqueeze(x: Any, axes: Any) -> Any:
    return _unsqueezed(x, ints(axes))


@operator("Unsqueeze")
def unsqueeze_by_attribute(x: Any, *, axes: list[int]) -> Any:
    return _unsqueezed(x, axes)


@operator("Transpose")
def transpose(x: Any, *, perm: list[int] | None = None) -> Any:
    order = list(range(x.ndim))[::-1] if perm is None else perm
    if sorted(order) != list(range(x.ndim)):
        raise ValueError(f"perm {order} is not an order of the {x.ndim} dims")
    return permuted(x, order)


@operator("Concat")
def concat(first: Any, *further: Any, axis: int = 1) -> Any:
    """The inputs one after another along an axis. (Before opset 4 the axis was 1 unless given.)"""
    inputs = (first, *further)
    if len({element_of(x) for x in inputs}) > 1:
        raise TypeError(
            f"its inputs have different element types: {', '.join(sorted({element_of(x) for x in inputs}))}"
        )
    at = axes_of([axis], inputs[0].ndim)[0]
    if len(inputs) == 1:
        return inputs[0]
    if all(isinstance(x, Tensor) for x in inputs):
        if any(x.ndim != inputs[0].ndim for x in inputs):
            raise ValueError(f"the inputs have different numbers of dims: {[tuple(x.shape) for x in inputs]}")
        return ops.cat([x for x in inputs if x.shape[at]] or inputs[:1], at)
    check_room((sum(x.numel() for x in inputs),), "Concat", 16)
    return like(inputs[0], np.concatenate([array_of(x) for x in inputs], at))


def parts_of(x: Any, sizes: Sequence[int], axis: int) -> list[Any]:
    """x cut along an axis."""
    at = axes_of([axis], x.ndim)[0]
    if sum(sizes) != x.shape[at] or min(sizes, default=0) < 0:
        raise ValueError(f"parts of {list(sizes)} do not make up dim {at} of shape {tuple(x.shape)}")
    check_room((len(sizes),), "the parts", VIEW)
    ends, found, begin = np.cumsum(sizes).tolist(), [], 0
    for end in ends:
        found.append(cut(x, at, begin, end))
        begin = end
    return found


def cut(x: Any, axis: int, begin: int, end: int) -> Any:
    """x[..., begin:end, ...]"""
    place = (slice(None),) * axis + (slice(begin, end),)
    return _moved(x, lambda t: t[place], lambda a: a[place])


@operator("Split", since=13, reads=(1,))
def split(x: Any, sizes: Any = None, *, axis: int = 0, num_outputs: int | None = None, outputs: int = 1) -> Any:
    """Parts along an axis: of the sizes given, else equal ones, the last one smaller."""
    if sizes is not None:
        return tuple(parts_of(x, ints(sizes), axis))
    if num_outputs not in (None, outputs):
        raise ValueError(f"num_outputs is {num_outputs:,}, the node has {outputs:,} outputs")
    return _equal_parts(x, axis, outputs)


@operator("Split")
def split_by_attribute(x: Any, *, axis: int = 0, split: list[int] | None = None, outputs: int = 1) -> Any:
    return tuple(parts_of(x, split, axis)) if split else _equal_parts(x, axis, outputs)


def _equal_parts(x: Any, axis: int, count: int) -> Any:
    total = x.shape[axes_of([axis], x.ndim)[0]]
    each = -(-total // count)
    sizes = [min(each, max(0, total - each * k)) for k in range(count)]
    return tuple(parts_of(x, sizes, axis))


@operator("Expand", reads=(1,))
def expand(x: Any, shape: Tensor) -> Any:
    sizes = ints(shape)
    wide = np.broadcast_shapes(tuple(x.shape), tuple(sizes))
    check_room(wide, "Expand")
    return _moved(x, lambda t: t.broadcast_to(*wide) if wide else t, lambda a: np.broadcast_to(a, wide).copy())


@operator("Tile", since=6, reads=(1,))
def tile(x: Any, repeats: Tensor) -> Any:
    times = ints(repeats)
    if len(times) != x.ndim:
        raise ValueError(f"{len(times)} repeats for a tensor with {x.ndim} dims")
    check_room([n * k for n, k in zip(x.shape, times, strict=True)], "Tile")
    return _moved(x, lambda t: t.repeat(*times) if times else t, lambda a: np.tile(a, times))


def _sliced(x: Any, starts: list[int], ends: list[int], axes: Sequence[int] | None, steps: list[int] | None) -> Any:
    dims = axes_of(axes if axes is not None else range(len(starts)), x.ndim)
    steps = steps or [1] * len(starts)
    if not len(starts) == len(ends) == len(dims) == len(steps) or 0 in steps:
        raise ValueError(f"starts {starts}, ends {ends}, axes {dims} and steps {steps} do not fit together")
    place: list[Any] = [slice(None)] * x.ndim
    reverse: list[int] = []
    for start, end, at, step in zip(starts, ends, dims, steps, strict=True):
        first, last, stride = slice(start, end, step).indices(x.shape[at])
        if step > 0:
            place[at] = slice(first, max(first, last), stride)
            continue
        count = len(range(first, last, stride))
        low = first + (count - 1) * stride
        place[at] = slice(low, low + (count - 1) * -stride + 1, -stride) if count else slice(0, 0)
        reverse.append(at)
    where = tuple(place)
    found = _moved(x, lambda t: t[where] if where else t, lambda a: a[where])
    return _moved(found, lambda t: t.flip(*reverse), lambda a: np.flip(a, tuple(reverse))) if reverse else found


@operator("Slice", since=10, reads=(1, 2, 3, 4))
def slice_(x: Any, starts: Tensor, ends: Tensor, axes: Any = None, steps: Any = None) -> Any:
    return _sliced(
        x, ints(starts), ints(ends), None if axes is None else ints(axes), None if steps is None else ints(steps)
    )


@operator("Slice")
def slice_by_attributes(x: Any, *, starts: list[int], ends: list[int], axes: list[int] | None = None) -> Any:
    return _sliced(x, starts, ends, axes, None)


def padded(x: Any, before: Sequence[int], after: Sequence[int], mode: str = "constant", value: Any = 0) -> Any:
    """x widened in every dim; negative widths cut."""
    check_room([n + b + a for n, b, a in zip(x.shape, before, after, strict=True)], "Pad")
    for at, (b, a) in enumerate(zip(before, after, strict=True)):
        if b < 0 or a < 0:
            x = cut(x, at, max(0, -b), x.shape[at] - max(0, -a))
    before, after = [max(0, b) for b in before], [max(0, a) for a in after]
    if not any(before) and not any(after):
        return x
    if isinstance(x, Tensor) and x.dtype.category == 2 and mode == "constant":
        return ops.pad(
            x, [n for b, a in zip(before[::-1], after[::-1], strict=True) for n in (b, a)], value=float(value)
        )
    if mode not in ("constant", "edge", "reflect", "wrap"):
        raise ValueError(f"mode is {mode!r}, expected constant, reflect, edge or wrap")
    widths: Any = list(zip(before, after, strict=True))
    how: Any = mode
    if isinstance(x, Tensor) and x.dtype.category == 2:
        for at, width in enumerate(widths):
            if any(width):
                order = np.pad(np.arange(x.shape[at]), width, how)
                x = ops.index_select(x, at, made_of(order.astype(np.int64), device=x.device))
        return x
    array = array_of(x)
    if mode == "constant":
        return like(x, np.pad(array, widths, constant_values=value))
    return like(x, np.pad(array, widths, how))


def _pad(x: Any, pads: list[int], axes: Sequence[int], mode: str, value: Any) -> Any:
    if len(pads) != 2 * len(axes):
        raise ValueError(f"{len(pads)} pads for {len(axes)} axes, expected two each")
    before, after = [0] * x.ndim, [0] * x.ndim
    for k, at in enumerate(axes_of(axes, x.ndim)):
        before[at], after[at] = pads[k], pads[k + len(axes)]
    return padded(x, before, after, mode, value)


@operator("Pad", since=11, reads=(1, 2, 3))
def pad(x: Any, pads: Tensor, value: Any = None, axes: Any = None, *, mode: bytes = b"constant") -> Any:
    fill = ("" if element_of(x) == "string" else 0) if value is None else scalar(value)
    return _pad(x, ints(pads), range(x.ndim) if axes is None else ints(axes), text(mode), fill)


@operator("Pad")
def pad_by_attributes(x: Any, *, pads: list[int], mode: bytes = b"constant", value: float = 0.0) -> Any:
    return _pad(x, pads, range(x.ndim), text(mode), value)


@operator("CenterCropPad", reads=(1,))
def center_crop_pad(x: Any, shape: Tensor, *, axes: list[int] | None = None) -> Any:
    """Cuts from, or adds zeros to, both sides of each axis until it has the size given."""
    sizes = ints(shape)
    for at, size in zip(axes_of(axes if axes is not None else range(x.ndim), x.ndim), sizes, strict=True):
        have = x.shape[at]
        if size < have:
            begin = (have - size) // 2
            x = cut(x, at, begin, begin + size)
        elif size > have:
            before = [0] * x.ndim
            after = [0] * x.ndim
            before[at] = (size - have) // 2
            after[at] = size - have - before[at]
            x = padded(x, before, after)
    return x


@operator("DepthToSpace")
def depth_to_space(x: Any, *, blocksize: int, mode: bytes = b"DCR") -> Any:
    """(N, C b², H, W) → (N, C, H b, W b)."""
    n, c, h, w = x.shape
    b = blocksize
    if text(mode) == "DCR":
        x = permuted(reshaped(x, (n, b, b, c // b**2, h, w)), (0, 3, 4, 1, 5, 2))
    else:
        x = permuted(reshaped(x, (n, c // b**2, b, b, h, w)), (0, 1, 4, 2, 5, 3))
    return reshaped(x, (n, c // b**2, h * b, w * b))


@operator("SpaceToDepth")
def space_to_depth(x: Any, *, blocksize: int, mode: bytes = b"DCR") -> Any:
    """(N, C, H b, W b) → (N, C b², H, W)."""
    n, c, h, w = x.shape
    b = blocksize
    x = reshaped(x, (n, c, h // b, b, w // b, b))
    x = permuted(x, (0, 3, 5, 1, 2, 4) if text(mode) == "DCR" else (0, 1, 3, 5, 2, 4))
    return reshaped(x, (n, c * b * b, h // b, w // b))


@operator("ReverseSequence", reads=(1,))
def reverse_sequence(x: Any, lengths: Tensor, *, batch_axis: int = 1, time_axis: int = 0) -> Any:
    """The first `lengths` steps of each sequence in reverse order."""
    steps, count = x.shape[time_axis], x.shape[batch_axis]
    order = np.tile(np.arange(steps), (count, 1))
    for row, length in zip(order, ints(lengths), strict=True):
        if not 0 <= length <= steps:
            raise ValueError(f"a sequence has {length} steps, of {steps}")
        row[:length] = row[:length][::-1]
    order = order if (batch_axis, time_axis) == (0, 1) else order.T
    order = order.reshape(order.shape + (1,) * (x.ndim - 2))
    if isinstance(x, ForeignArray):
        return like(x, np.take_along_axis(x.array, order, time_axis))
    index = made_of(np.broadcast_to(order, x.shape).astype(np.int64), device=x.device)
    return ops.gather(x, time_axis, index)
