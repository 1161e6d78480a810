"""Ops that only rearrange shape, strides and offset; and those that join or repeat."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from operator import index
from typing import Any

from ..autograd import STATE
from ..declare import attribute, function, method
from ..device import cpu
from ..dtype import DType, as_dtype
from ..launch import KERNELS, recorder, stop_capture
from ..lazy import np
from ..op import Op, op, view_op
from ..quant import clone as clone_blocks
from ..shape import as_shape, broadcast_shapes, contiguous_strides, infer_shape, normalize_dim, view_strides
from ..tensor import Tensor, empty_contiguous, make
from ..user_errors import MISTAKES, describe, names_itself, tell
from .create import from_numpy, zeros

_COPY = KERNELS["copy_strided"]


def _alias(x: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int | None = None) -> Tensor:
    return make(x._storage, shape, strides, x.dtype, x.offset if offset is None else offset)


def _no_blocks(x: Tensor, name: str) -> None:
    if x.dtype.is_quantized:
        raise TypeError(
            f"{name}: {describe(x)} is block-quantised and cannot be rearranged; convert it with .to(float32)"
        )


@view_op(lambda g, _, x, shape: (g.reshape(x._shape),), name="_reshape")
def _reshape(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    if shape == x._shape:
        return make(x._storage, shape, x.strides, x.dtype, x.offset)
    if x.dtype.is_quantized:
        _no_blocks(x, "reshape")
    strides = view_strides(x._shape, x.strides, shape)
    if strides is None:
        x = x._row_major()
        strides = contiguous_strides(shape)
    return make(x._storage, shape, strides, x.dtype, x.offset)


@function(method=True, arguments="input shape")
@names_itself
def reshape(x: Tensor, *shape: Any) -> Tensor:
    """The same elements in another shape; one size may be -1. A view where strides allow it."""
    try:
        target = as_shape(shape)
        if not shape and prod(x._shape) != 1:
            raise TypeError("reshape: give a shape")
        if target != x._shape:
            target = infer_shape(target, prod(x._shape), "reshape")
        return _reshape.call(x, target)
    except MISTAKES as error:
        tell(error, "reshape", (x, *shape), {})
        raise


def reshaped(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """reshape for the engine, which gives x itself where nothing changes."""
    return x if shape == x._shape and x.is_contiguous() else reshape(x, shape)


@method()
@names_itself
def view(x: Tensor, *shape: Any, dtype: Any = None) -> Tensor:
    """reshape that never copies. ValueError if strides do not allow it. With a dtype: the bytes as that dtype."""
    try:
        if len(shape) == 1 and isinstance(shape[0], DType):
            return _view_as_dtype(x, shape[0])
        if dtype is not None and not shape:
            return _view_as_dtype(x, as_dtype(dtype))
        target = as_shape(shape)
        if target != x._shape:
            target = infer_shape(target, prod(x._shape), "view")
            if view_strides(x._shape, x.strides, target) is None:
                raise ValueError(
                    f"view: view size is not compatible with input tensor's size and stride: {describe(x)} with "
                    f"strides {x.strides} cannot be viewed as {target}; use .reshape(...) instead"
                )
        return _reshape.call(x, target)
    except MISTAKES as error:
        tell(error, "view", (x, *shape), {})
        raise


def _view_as_dtype(x: Tensor, dtype: DType) -> Tensor:
    """The last dim's bytes as elements of another dtype; outside any gradient computation."""
    old, new = x.dtype.itemsize, dtype.itemsize
    if old == new:
        return make(x._storage, x._shape, x.strides, dtype, x.offset)
    fits = bool(x.ndim and old and new) and x.strides[-1] == 1 and x._shape[-1] * old % new == 0
    wide = [x.offset, *x.strides[:-1]]
    if not fits or any(n * old % new for n in wide):
        raise ValueError(f"view: {describe(x)} with strides {x.strides} cannot be viewed as {dtype}")
    offset, *strides = (n * old // new for n in wide)
    return make(x._storage, (*x._shape[:-1], x._shape[-1] * old // new), (*strides, 1), dtype, offset)


@view_op(lambda g, _, x, dims: (g.permute(tuple(dims.index(i) for i in range(len(dims)))),), name="_permute")
def _permute(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    shape, strides = x._shape, x.strides
    if dims == (1, 0):  # a transpose, without loops
        return make(x._storage, shape[::-1], strides[::-1], x.dtype, x.offset)
    return make(x._storage, tuple([shape[d] for d in dims]), tuple([strides[d] for d in dims]), x.dtype, x.offset)


@lru_cache(1024)
def _order_of(dims: tuple[int, ...], rank: int) -> tuple[int, ...]:
    """Each of the dims once, counted from the front."""
    order = tuple([normalize_dim(d, rank, "permute") for d in dims])
    if sorted(order) != list(range(rank)):
        raise ValueError(f"permute: dims {order} do not name each of the {rank} dims once")
    return order


@lru_cache(1024)
def _swapped(dim0: int, dim1: int, rank: int) -> tuple[int, ...]:
    """The order of dims with two of them swapped."""
    order = list(range(rank))
    a, b = normalize_dim(dim0, rank, "transpose"), normalize_dim(dim1, rank, "transpose")
    if order:
        order[a], order[b] = order[b], order[a]
    return tuple(order)


@function(method=True)
@names_itself
def permute(x: Tensor, *order: Any, dims: Any = None) -> Tensor:
    """Dims in another order."""
    try:
        return _permute.call(x, _order_of(as_shape(order if dims is None else dims), len(x._shape)))
    except MISTAKES as error:
        tell(error, "permute", (x, *order), {} if dims is None else {"dims": dims})
        raise


@function(method=True, in_place="shape", synonyms="swapdims")
@names_itself
def transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    """Swaps two dims."""
    try:
        order = _swapped if type(dim0) is type(dim1) is int else _swapped.__wrapped__  # others may not be kept
        return _permute.call(x, order(dim0, dim1, len(x._shape)))
    except MISTAKES as error:
        tell(error, "transpose", (x, dim0, dim1), {})
        raise


@function(method=True, in_place="shape")
def swapaxes(x: Tensor, axis0: int, axis1: int) -> Tensor:
    """transpose, with NumPy's names."""
    return transpose(x, axis0, axis1)


@function(method=True, in_place="shape")
def t(x: Tensor) -> Tensor:
    """Transposes a matrix."""
    rank = len(x._shape)
    if rank > 2:
        raise ValueError(f"t: takes up to 2 dims, got {describe(x)}; use transpose or mT")
    return _permute.call(x, (1, 0) if rank == 2 else tuple(range(rank)))


@view_op(lambda g, _, x, shape: (_fold(g, x),), name="_expand")
def _expand(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    _no_blocks(x, "expand")
    strides = x.strides if shape == x._shape else _repeating(x._shape, x.strides, shape)
    return make(x._storage, shape, strides, x.dtype, x.offset)


@lru_cache(4096)
def _repeating(own: tuple[int, ...], strides: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The strides with which a tensor is read as if it had a shape that it expands to."""
    extra = len(shape) - len(own)
    kept = [s if n == m else 0 for n, m, s in zip(own, shape[extra:], strides, strict=True)]
    return (*(0,) * extra, *kept)


def _fold(gradient: Tensor, x: Tensor) -> Tensor:
    extra = gradient.ndim - x.ndim
    dims = [*range(extra), *(i + extra for i, n in enumerate(x._shape) if n == 1 and gradient._shape[i + extra] != 1)]
    return gradient.sum(dims, True).reshape(x._shape) if dims else gradient


@function(method=True)
@names_itself
def expand(x: Tensor, *shape: Any) -> Tensor:
    """Repeats dims of size one without copying; -1 keeps a size."""
    try:
        target = as_shape(shape)
        if target != x._shape:
            target = _expansion(x._shape, target) or _expanded_shape(x, target)
        return _expand.call(x, target)
    except MISTAKES as error:
        tell(error, "expand", (x, *shape), {})
        raise


@lru_cache(4096)
def _expansion(own: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...] | None:
    """_expanded_shape where each dim has the size of the target or one element; None elsewhere."""
    extra = len(target) - len(own)
    if extra < 0 or min(target, default=0) < 0:
        return None
    return target if all(n in (1, m) for n, m in zip(own, target[extra:], strict=True)) else None


def _expanded_shape(x: Tensor, target: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that x expands to, with the sizes that -1 keeps."""
    extra = len(target) - len(x._shape)
    if extra < 0:
        raise ValueError(f"expand: {describe(x)} has more dims than {target}")
    if -1 in target:
        kept = [n if m == -1 else m for n, m in zip(x._shape, target[extra:], strict=True)]
        target = (*target[:extra], *kept)
    if min(target, default=0) < 0:
        raise ValueError(f"expand: {target} is not a shape for {describe(x)}; -1 keeps the size of a dim that it has")
    if broadcast_shapes(x._shape, target, op="expand") != target:
        raise ValueError(f"expand: {describe(x)} does not expand to {target}")
    return target


def expanded(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    """expand for the engine, which gives x itself where nothing changes."""
    return x if shape == x._shape else expand(x, shape)


@function(method=True, arguments="input size")
def broadcast_to(x: Tensor, *shape: Any) -> Tensor:
    """expand to a whole shape: `broadcast_to(2, 3)` or `broadcast_to((2, 3))`."""
    return expand(x, as_shape(shape))


@op(saves="none")
def _spread(
    part: Tensor, size: tuple[int, ...], shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> Tensor:
    """Zeros, except a slice, which is `part`."""
    whole = zeros(size, dtype=part.dtype, device=part.device)
    _alias(whole, shape, strides, offset).copy_(part)
    return whole


def _place(gradient: Tensor, _: Any, x: Tensor, *where: Any) -> tuple[Tensor]:
    """The gradient of a slice."""
    return (_spread(gradient, x._shape, *where),)


@view_op(_place, name="_strided")
def _strided(x: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Tensor:
    """A view of a dense x: `offset` elements in, with these strides."""
    return make(x._storage, shape, strides, x.dtype, x.offset + offset)


_strided.slices = True


@_spread.gradient
def _d_spread(g: Tensor, _: Any, part: Tensor, size: tuple[int, ...], *where: Any) -> tuple[Tensor]:
    return (_strided(g.contiguous(), *where),)


@op(name="_place_view", saves="none")
def _place_view(part: Tensor, shape: tuple[int, ...], view: Op, rest: tuple[Any, ...]) -> Tensor:
    """Zeros, except the elements of a view, which are `part`."""
    whole = zeros(shape, dtype=part.dtype, device=part.device)
    view.forward(whole, *rest).copy_(part)
    return whole


@_place_view.gradient
def _d_place_view(g: Tensor, _: Any, part: Tensor, shape: tuple[int, ...], view: Op, rest: tuple[Any, ...]) -> Any:
    return (view(g, *rest),)


def place_back(view: Op) -> None:
    """The gradient of a view op whose result has each element at most once, and which does not need dense memory."""
    view.vjp = lambda g, _, x, *rest: (_place_view(g, x._shape, view, rest),)
    view.slices = True


@view_op(None, name="_narrow")
def _narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    _no_blocks(x, "narrow")
    return _alias(x, x._shape[:dim] + (length,) + x._shape[dim + 1 :], x.strides, x.offset + start * x.strides[dim])


place_back(_narrow)


def strided_slice(x: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Tensor:
    """A view given by shape, strides and offset relative to x, which must be dense under autograd."""
    if x.dtype.is_quantized:
        _no_blocks(x, "index")
    return _strided.call(x, shape, strides, offset)


@function(method=True)
def narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """`length` entries of one dim from `start`."""
    d = normalize_dim(dim, x.ndim, "narrow")
    if isinstance(start, Tensor) and start.ndim:
        raise ValueError(f"narrow: the start is an integer, or a tensor of one without dims, not {describe(start)}")
    start, length = index(start), index(length)
    if start < 0:
        start += x._shape[d]
    if not 0 <= start <= start + length <= x._shape[d]:
        raise IndexError(f"narrow: {start} .. {start + length} is outside dim {dim} of {describe(x)}")
    if STATE.enabled and not x.is_contiguous():
        return _narrow.call(x, d, start, length)
    return strided_slice(x, x._shape[:d] + (length,) + x._shape[d + 1 :], x.strides, start * x.strides[d])


@function(method=True, in_place="shape")
def squeeze(x: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Drops dims of size one: all of them, or those named."""
    if dim is None:
        return reshape(x, tuple(n for n in x._shape if n != 1))
    if not isinstance(dim, int):
        named = {normalize_dim(d, x.ndim, "squeeze") for d in dim}
        return reshape(x, tuple(n for i, n in enumerate(x._shape) if i not in named or n != 1))
    shape = x._shape
    d = normalize_dim(dim, len(shape), "squeeze")
    return _reshape.call(x, shape[:d] + shape[d + 1 :] if shape and shape[d] == 1 else shape)


@function(method=True, in_place="shape")
def unsqueeze(x: Tensor, dim: int) -> Tensor:
    """A new dim of size one."""
    shape = x._shape
    d = normalize_dim(dim, len(shape) + 1, "unsqueeze")
    return _reshape.call(x, shape[:d] + (1,) + shape[d:])


@function(method=True)
def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Joins dims start .. end. x itself where these are one dim, as in torch."""
    a, b = normalize_dim(start_dim, x.ndim, "flatten"), normalize_dim(end_dim, x.ndim, "flatten")
    if b < a:
        raise ValueError(f"flatten: dim {end_dim} comes before dim {start_dim} of {describe(x)}")
    if a == b and x.ndim:
        return x
    return _reshape.call(x, x._shape[:a] + (prod(x._shape[a : b + 1]),) + x._shape[b + 1 :])


def _as_pairs(x: Tensor) -> Tensor:
    """complex128 (...) as float64 (..., 2)."""
    return make(x._storage, (*x._shape, 2), (*[2 * s for s in x.strides], 1), x.dtype.part, 2 * x.offset)


def copy_strided(target: Tensor, source: Tensor) -> bool:
    """Copies elements of one dtype between layouts with a kernel; False when it cannot."""
    rank = len(target._shape)
    if target.dtype.is_quantized or target.dtype is not source.dtype or target._shape != source._shape:
        return False
    if rank > 6:
        if target.device is cpu:  # NumPy takes any number
            return False
        from ..many_dims import copy_in_pieces  # late: few tensors have so many

        copy_in_pieces(copy_strided, target, source)
        return True
    if target.dtype.itemsize > 8 and rank < 6 and target.device is not cpu:  # WebGPU's elements have at most 8 bytes
        return copy_strided(*[_as_pairs(x) for x in (target, source)])
    pad = (0,) * (6 - rank)
    _COPY.launch(target.numel() >> 10, target, source, target.dtype.itemsize, rank,
        *target._shape, *pad, *target.strides, *pad, *source.strides, *pad,
    )  # fmt: skip
    return True


def dense_copy(x: Tensor) -> Tensor:
    """A dense copy by the kernel, or NotImplemented; of a block format, a copy of the blocks."""
    if x.dtype.is_quantized:
        return clone_blocks(x)
    result = empty_contiguous(x._shape, x.dtype, x.device)
    return result if copy_strided(result, x) else NotImplemented


@function(method=True, synonyms="moveaxis")
def movedim(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Moves dims to other positions; the other dims keep their order."""
    origin = [normalize_dim(d, x.ndim, "movedim") for d in ((source,) if isinstance(source, int) else source)]
    target = [
        normalize_dim(d, x.ndim, "movedim") for d in ((destination,) if isinstance(destination, int) else destination)
    ]
    if len(origin) != len(target) or len(set(origin)) != len(origin) or len(set(target)) != len(target):
        raise ValueError(f"movedim: {source} and {destination} must name equally many distinct dims")
    rest = iter(d for d in range(x.ndim) if d not in origin)
    places = dict(zip(target, origin, strict=True))
    return permute(x, tuple(places[i] if i in places else next(rest) for i in range(x.ndim)))


@function(method=True)
def unflatten(x: Tensor, dim: int, sizes: Sequence[int]) -> Tensor:
    """Splits a dim into several; one size may be -1."""
    d = normalize_dim(dim, x.ndim, "unflatten")
    return reshape(x, x._shape[:d] + infer_shape(tuple(sizes), x._shape[d], "unflatten") + x._shape[d + 1 :])


@function()
def broadcast_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Each tensor expanded to the common shape."""
    shape = broadcast_shapes(*(t._shape for t in tensors), op="broadcast_tensors")
    return tuple(expanded(t, shape) for t in tensors)


def _each(tensors: tuple[Any, ...], one: Any) -> Any:
    """One tensor for one, a tuple for several or a list."""
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        return tuple(one(t) for t in tensors[0])
    return one(tensors[0]) if len(tensors) == 1 else tuple(one(t) for t in tensors)


@function()
def atleast_1d(*tensors: Any) -> Any:
    """The tensor with at least one dim."""
    return _each(tensors, lambda t: t if t.ndim else reshape(t, (1,)))


@function()
def atleast_2d(*tensors: Any) -> Any:
    """The tensor with at least two dims: vectors become rows."""
    return _each(tensors, lambda t: t if t.ndim > 1 else reshape(t, (1, t.numel())))


@function()
def atleast_3d(*tensors: Any) -> Any:
    """The tensor with at least three dims."""
    return _each(
        tensors, lambda t: t.unsqueeze(-1) if t.ndim == 2 else t if t.ndim > 2 else reshape(t, (1, t.numel(), 1))
    )


@function(method=True)
def ravel(x: Tensor) -> Tensor:
    """The elements as a vector, dense: a view where x is dense."""
    return reshape(x.contiguous(), -1)


def _places(size: Sequence[int], stride: Sequence[int], offset: int) -> Any:
    """The position of each element in the storage: int64, flat."""
    found = np.full((), offset, np.int64)
    for n, step in zip(size, stride, strict=True):
        found = found[..., None] + np.arange(n, dtype=np.int64) * step
    return found.reshape(-1)


def _d_as_strided(
    g: Tensor, _: Any, x: Tensor, size: tuple[int, ...], stride: tuple[int, ...], offset: int
) -> tuple[Tensor]:
    """The gradients of one position in memory are summed, and shared by the elements of x at that position, as in
    torch.
    """
    theirs, own = _places(size, stride, offset), _places(x._shape, x.strides, x.offset)
    memory = g.new_zeros(max(theirs.max(initial=-1), own.max(initial=-1)) + 1)
    memory = memory.index_add(0, from_numpy(theirs).to(g.device), g.reshape(-1))
    counts = np.bincount(own, minlength=1)
    found = memory.index_select(0, from_numpy(own).to(g.device))
    if counts.max() > 1:
        found = found / from_numpy(counts[own]).to(device=g.device, dtype=g.dtype)
    return (found.reshape(x._shape),)


@view_op(_d_as_strided)
def _as_strided(x: Tensor, size: tuple[int, ...], stride: tuple[int, ...], offset: int) -> Tensor:
    return make(x._storage, size, stride, x.dtype, offset)


_as_strided.reads_layout = True


def _check_whole(x: Tensor) -> None:
    """RuntimeError where the copy of an argument of a compiled function does not have the memory that it has."""
    if x.offset or not x.is_contiguous() or x._storage.nbytes != x.numel() * x.dtype.itemsize:
        raise RuntimeError(
            f"as_strided: a compiled function has a copy of its argument, {describe(x)}, without the rest of the "
            "memory of which that is a part: give it the whole tensor, or do not compile the function"
        )


@function(method=True, in_place="shape")
def as_strided(x: Tensor, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Tensor:
    """A view by sizes and strides (elements) from an offset into the storage (by default that of x)."""
    _no_blocks(x, "as_strided")
    active = recorder()
    if active is not None and id(x._storage) in active.copied:
        _check_whole(active.copied[id(x._storage)])
        stop_capture("as_strided looks into the memory of an argument, of which a replay has a copy")
    size, stride = as_shape((size,)), as_shape((stride,))
    start = x.offset if storage_offset is None else index(storage_offset)
    last = start + sum((n - 1) * s for n, s in zip(size, stride, strict=True))
    outside = min(stride, default=0) < 0 or start < 0 or (last + 1) * x.dtype.itemsize > x._storage.nbytes
    if 0 not in size and outside:
        raise ValueError(
            f"as_strided: {tuple(size)} with strides {tuple(stride)} from {start} is outside the memory of "
            f"{describe(x)}"
        )
    return _as_strided(x, size, stride, start)


@method("reshape_as")
def _reshape_as(x: Tensor, other: Tensor) -> Tensor:
    return x.reshape(other._shape)


@function(method=True)
def narrow_copy(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """A copy of narrow."""
    return x.narrow(dim, start, length)._row_major()


@attribute("T")
def _transposed(x: Tensor) -> Tensor:
    """All dims in reverse."""
    return _permute.call(x, tuple(range(len(x._shape) - 1, -1, -1)))


@method()
def expand_as(x: Tensor, other: Tensor) -> Tensor:
    """expand to the shape of another tensor."""
    return expand(x, other._shape)


@attribute("mT")
def _matrices_transposed(x: Tensor) -> Tensor:
    """The last two dims swapped. A number is its own transpose."""
    return _permute.call(x, (1, 0)) if len(x._shape) == 2 else transpose(x, -2, -1) if x._shape else x


@method()
def view_as(x: Tensor, other: Tensor) -> Tensor:
    """view in the shape of another tensor."""
    return view(x, other._shape)
