"""Ops that only rearrange shape, strides and offset; and those that join or repeat."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from math import prod
from typing import Any

from ..autograd import STATE
from ..dtype import DType
from ..launch import KERNELS, launch
from ..lazy import np
from ..mistakes import MISTAKES, names_itself, tell
from ..op import Op, describe, op, primitive, view_op
from ..shape import (
    as_shape,
    broadcast_shapes,
    contiguous_strides,
    infer_shape,
    normalize_dim,
    view_strides,
)
from ..tensor import Tensor, empty_contiguous, make
from .base import array_of, common_dtype, computed, same_device, tensor_of

_COPY = KERNELS["copy_strided"]


def _alias(x: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int | None = None) -> Tensor:
    return make(x.storage, shape, strides, x.dtype, x.offset if offset is None else offset, x.device)


def _no_blocks(x: Tensor, name: str) -> None:
    if x.dtype.is_quantized:
        raise TypeError(f"{name}: {describe(x)} is block-quantised and cannot be rearranged; dequantize it first")


@view_op(lambda g, _, x, shape: (g.reshape(x.shape),), name="_reshape")
def _reshape(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    _no_blocks(x, "reshape")
    strides = view_strides(x.shape, x.strides, shape)
    if strides is None:
        x = x.clone()
        strides = contiguous_strides(shape)
    return _alias(x, shape, strides)


@names_itself
def reshape(x: Tensor, *shape: Any) -> Tensor:
    """The same elements in another shape; one size may be -1. A view where strides allow it."""
    try:
        target = as_shape(shape)
        if not shape and prod(x.shape) != 1:
            raise TypeError("reshape: give a shape")
        if -1 in target or target != x.shape:
            target = infer_shape(target, prod(x.shape), "reshape")
        return x if target == x.shape and x.is_contiguous() else _reshape(x, target)
    except MISTAKES as error:
        tell(error, "reshape", (x, *shape), {})
        raise


def view(x: Tensor, *shape: Any) -> Tensor:
    """reshape that never copies. ValueError where strides do not allow it. By a dtype: its bytes as that."""
    if len(shape) == 1 and isinstance(shape[0], DType):
        return _view_as_dtype(x, shape[0])
    target = infer_shape(as_shape(shape), prod(x.shape), "view")
    if view_strides(x.shape, x.strides, target) is None:
        raise ValueError(f"view: {describe(x)} with strides {x.strides} cannot be viewed as {target}; use reshape")
    return _reshape(x, target)


def _view_as_dtype(x: Tensor, dtype: DType) -> Tensor:
    """The last dim's bytes as elements of another dtype; outside any gradient computation."""
    old, new = x.dtype.itemsize, dtype.itemsize
    if old == new:
        return make(x.storage, x.shape, x.strides, dtype, x.offset, x.device)
    fits = bool(x.ndim and old and new) and x.strides[-1] == 1 and x.shape[-1] * old % new == 0
    wide = [x.offset, *x.strides[:-1]]
    if not fits or any(n * old % new for n in wide):
        raise ValueError(f"view: {describe(x)} with strides {x.strides} cannot be viewed as {dtype}")
    offset, *strides = (n * old // new for n in wide)
    return make(x.storage, (*x.shape[:-1], x.shape[-1] * old // new), (*strides, 1), dtype, offset, x.device)


@view_op(lambda g, _, x, dims: (g.permute(tuple(dims.index(i) for i in range(len(dims)))),), name="_permute")
def _permute(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    _no_blocks(x, "permute")
    return _alias(x, tuple(x.shape[d] for d in dims), tuple(x.strides[d] for d in dims))


@names_itself
def permute(x: Tensor, *order: Any, dims: Any = None) -> Tensor:
    """Dims in another order."""
    try:
        order = tuple(normalize_dim(d, x.ndim, "permute") for d in as_shape(order if dims is None else dims))
        if sorted(order) != list(range(x.ndim)):
            raise ValueError(f"permute: dims {order} do not name each of the {x.ndim} dims once")
        return _permute(x, order)
    except MISTAKES as error:
        tell(error, "permute", (x, *order), {} if dims is None else {"dims": dims})
        raise


@names_itself
def transpose(x: Tensor, dim0: int, dim1: int) -> Tensor:
    """Swaps two dims."""
    try:
        order = list(range(x.ndim))
        a, b = normalize_dim(dim0, x.ndim, "transpose"), normalize_dim(dim1, x.ndim, "transpose")
        order[a], order[b] = order[b], order[a]
        return _permute(x, tuple(order))
    except MISTAKES as error:
        tell(error, "transpose", (x, dim0, dim1), {})
        raise


def t(x: Tensor) -> Tensor:
    """Transposes a matrix."""
    if x.ndim > 2:
        raise ValueError(f"t: takes up to 2 dims, got {describe(x)}; use transpose or mT")
    return x if x.ndim < 2 else transpose(x, 0, 1)


@view_op(lambda g, _, x, shape: (_fold(g, x),), name="_expand")
def _expand(x: Tensor, shape: tuple[int, ...]) -> Tensor:
    _no_blocks(x, "expand")
    extra = len(shape) - x.ndim
    strides = (0,) * extra + tuple(
        s if n == m else 0 for n, m, s in zip(x.shape, shape[extra:], x.strides, strict=True)
    )
    return _alias(x, shape, strides)


def _fold(gradient: Tensor, x: Tensor) -> Tensor:
    extra = gradient.ndim - x.ndim
    dims = [*range(extra), *(i + extra for i, n in enumerate(x.shape) if n == 1 and gradient.shape[i + extra] != 1)]
    return gradient.sum(dims, keepdim=True).reshape(x.shape) if dims else gradient


@names_itself
def expand(x: Tensor, *shape: Any) -> Tensor:
    """Repeats dims of size one without copying; -1 keeps a size."""
    try:
        target = as_shape(shape)
        extra = len(target) - x.ndim
        if extra < 0:
            raise ValueError(f"expand: {describe(x)} has more dims than {target}")
        target = tuple(x.shape[i - extra] if n == -1 and i >= extra else n for i, n in enumerate(target))
        if broadcast_shapes(x.shape, target, op="expand") != target:
            raise ValueError(f"expand: {describe(x)} does not expand to {target}")
        return x if target == x.shape else _expand(x, target)
    except MISTAKES as error:
        tell(error, "expand", (x, *shape), {})
        raise


def broadcast_to(x: Tensor, shape: Sequence[int]) -> Tensor:
    """expand to a whole shape."""
    return expand(x, tuple(shape))


@op(saves="none")
def _spread(
    part: Tensor, size: tuple[int, ...], shape: tuple[int, ...], strides: tuple[int, ...], offset: int
) -> Tensor:
    """Zeros but for a slice, which is `part`."""
    from .create import zeros

    whole = zeros(size, dtype=part.dtype, device=part.device)
    _alias(whole, shape, strides, offset).copy_(part)
    return whole


def _place(gradient: Tensor, _: Any, x: Tensor, *where: Any) -> tuple[Tensor]:
    """The gradient of a slice."""
    return (_spread(gradient, x.shape, *where),)


@view_op(_place, name="_strided")
def _strided(x: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Tensor:
    """A view of a dense x: `offset` elements in, with these strides."""
    return _alias(x, shape, strides, x.offset + offset)


_strided.slices = True


@_spread.gradient
def _d_spread(g: Tensor, _: Any, part: Tensor, size: tuple[int, ...], *where: Any) -> tuple[Tensor]:
    return (_strided(g.contiguous(), *where),)


@primitive(name="_place_view", saves="none", method=False)
def _place_view(part: Tensor, shape: tuple[int, ...], view: Op, rest: tuple[Any, ...]) -> Tensor:
    """Zeros but for the place that a view op shows, which is `part`."""
    from .create import zeros

    whole = zeros(shape, dtype=part.dtype, device=part.device)
    view.forward(whole, *rest).copy_(part)
    return whole


@_place_view.gradient
def _d_place_view(g: Tensor, _: Any, part: Tensor, shape: tuple[int, ...], view: Op, rest: tuple[Any, ...]) -> Any:
    return (view(g, *rest),)


def place_back(view: Op) -> None:
    """The gradient of a view op that shows each element at most once, and does not ask for dense memory."""
    view.vjp = lambda g, _, x, *rest: (_place_view(g, x.shape, view, rest),)
    view.slices = True


@view_op(None, name="_narrow")
def _narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    _no_blocks(x, "narrow")
    return _alias(x, x.shape[:dim] + (length,) + x.shape[dim + 1 :], x.strides, x.offset + start * x.strides[dim])


place_back(_narrow)


def strided_slice(x: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], offset: int) -> Tensor:
    """A view given by shape, strides and offset relative to x, which is dense under autograd."""
    _no_blocks(x, "index")
    if STATE.enabled and x.requires_grad and not x.is_contiguous():
        raise AssertionError("strided_slice takes dense tensors under autograd")
    return _strided(x, shape, strides, offset)


def narrow(x: Tensor, dim: int, start: int, length: int) -> Tensor:
    """`length` entries of one dim from `start`."""
    d = normalize_dim(dim, x.ndim, "narrow")
    if start < 0:
        start += x.shape[d]
    if not 0 <= start <= start + length <= x.shape[d]:
        raise IndexError(f"narrow: {start} .. {start + length} is outside dim {dim} of {describe(x)}")
    if STATE.enabled and not x.is_contiguous():
        return _narrow(x, d, start, length)
    return strided_slice(x, x.shape[:d] + (length,) + x.shape[d + 1 :], x.strides, start * x.strides[d])


def split(x: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of one size (the last may be smaller) or of the sizes given."""
    size = split_size
    d = normalize_dim(dim, x.ndim, "split")
    total = x.shape[d]
    if isinstance(size, int):
        if size < 0 or (size == 0 and total):
            raise ValueError(f"split: size {size} is not positive")
        sizes = [min(size, total - start) for start in range(0, max(total, 1), size or 1)]
    else:
        sizes = list(size)
        if sum(sizes) != total:
            raise ValueError(f"split: sizes {sizes} do not add up to {total}, dim {dim} of {describe(x)}")
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return tuple(narrow(x, d, start, length) for start, length in zip(starts, sizes, strict=True))


def chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Up to `chunks` pieces of equal size."""
    if chunks < 1:
        raise ValueError(f"chunk: {chunks} chunks of {describe(x)} are none")
    total = x.shape[normalize_dim(dim, x.ndim, "chunk")]
    if not total:
        return tuple(narrow(x, dim, 0, 0) for _ in range(chunks))
    return split(x, max(1, -(-total // chunks)), dim)


def squeeze(x: Tensor, dim: int | Sequence[int] | None = None) -> Tensor:
    """Drops dims of size one: all of them, or those named."""
    if dim is None:
        return reshape(x, tuple(n for n in x.shape if n != 1))
    if not isinstance(dim, int):
        named = {normalize_dim(d, x.ndim, "squeeze") for d in dim}
        return reshape(x, tuple(n for i, n in enumerate(x.shape) if i not in named or n != 1))
    d = normalize_dim(dim, x.ndim, "squeeze")
    return reshape(x, x.shape[:d] + x.shape[d + 1 :]) if x.ndim and x.shape[d] == 1 else x


def unsqueeze(x: Tensor, dim: int) -> Tensor:
    """A new dim of size one."""
    d = normalize_dim(dim, x.ndim + 1, "unsqueeze")
    return reshape(x, x.shape[:d] + (1,) + x.shape[d:])


def flatten(x: Tensor, start_dim: int = 0, end_dim: int = -1) -> Tensor:
    """Joins dims start .. end."""
    a, b = normalize_dim(start_dim, x.ndim, "flatten"), normalize_dim(end_dim, x.ndim, "flatten")
    if b < a:
        raise ValueError(f"flatten: dim {end_dim} comes before dim {start_dim} of {describe(x)}")
    return reshape(x, x.shape[:a] + (prod(x.shape[a : b + 1]),) + x.shape[b + 1 :])


def _d_cat(g: Tensor, _: Any, *args: Any) -> Any:
    tensors, dim = args[:-1], args[-1]
    return split(g.contiguous(), [t.shape[dim] for t in tensors], dim)


@primitive(vjp=_d_cat, saves="none", name="_cat", method=False)
def _cat(tensors: Sequence[Tensor], dim: int) -> Tensor:
    computed("cat")
    if _follow_each_other(tensors, dim):
        return _put_behind(tensors, dim)
    kind = tensors[0].dtype if len({t.dtype for t in tensors}) == 1 else common_dtype(*tensors)
    return tensor_of(np.concatenate([array_of(t, kind) for t in tensors], axis=dim), kind)


def _follow_each_other(tensors: Sequence[Tensor], dim: int) -> bool:
    """Whether the bytes of the tensors, one behind the other, are those of the result."""
    dtype, others = tensors[0].dtype, [t.shape[:dim] + t.shape[dim + 1 :] for t in tensors]
    return (
        len(set(others)) == 1
        and prod(tensors[0].shape[:dim]) == 1
        and all(t.dtype is dtype and t.is_contiguous() for t in tensors)
    )


def _put_behind(tensors: Sequence[Tensor], dim: int) -> Tensor:
    shape = list(tensors[0].shape)
    shape[dim] = sum(t.shape[dim] for t in tensors)
    y = empty_contiguous(tuple(shape), tensors[0].dtype)
    address = y.address
    for t in tensors:
        ctypes.memmove(address, t.address, t.nbytes)
        address += t.nbytes
    return y


def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Joins tensors along an existing dim."""
    tensors = [t for t in tensors if t.shape != (0,)] or list(tensors)[:1]
    if not tensors:
        raise ValueError("cat: expects at least one tensor")
    for x in tensors:
        _no_blocks(x, "cat")
    d = normalize_dim(dim, tensors[0].ndim, "cat")
    for other in tensors[1:]:
        if other.shape[:d] + other.shape[d + 1 :] != tensors[0].shape[:d] + tensors[0].shape[d + 1 :]:
            raise ValueError(f"cat: {describe(tensors[0])} and {describe(other)} differ outside dim {dim}")
    same_device("cat", *tensors)
    return _cat(list(tensors), d)


def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Joins tensors of one shape along a new dim."""
    return cat([unsqueeze(t, dim) for t in tensors], normalize_dim(dim, tensors[0].ndim + 1, "stack"))


@primitive(vjp=lambda g, _, x, dims: (g.flip(dims),), saves="none", name="_flip", method=False)
def _flip(x: Tensor, dims: tuple[int, ...]) -> Tensor:
    computed("flip")
    return (
        tensor_of(np.flip(x.array(), dims).copy(), x.dtype)
        if not x.dtype.is_bits
        else tensor_of(np.flip(array_of(x), dims), x.dtype)
    )


def flip(x: Tensor, *along: Any, dims: Any = None) -> Tensor:
    """Reverses the order along dims."""
    return _flip(x, tuple(normalize_dim(d, x.ndim, "flip") for d in as_shape(along if dims is None else dims)))


def repeat(x: Tensor, *times: Any) -> Tensor:
    """Copies side by side, `times` for each dim."""
    counts = as_shape(times)
    if len(counts) < x.ndim:
        raise ValueError(f"repeat: {counts} names fewer dims than {describe(x)} has")
    shape = (1,) * (len(counts) - x.ndim) + x.shape
    spread = [size for n, count in zip(shape, counts, strict=True) for size in (count, n)]
    ones = [size for n in shape for size in (1, n)]
    wide = expand(reshape(x, tuple(ones)), tuple(spread))
    found = reshape(wide, tuple(n * c for n, c in zip(shape, counts, strict=True)))
    return found.clone() if found.storage is x.storage else found


def copy_strided(target: Tensor, source: Tensor) -> bool:
    """Copies elements of one dtype between layouts with a kernel; False when it cannot."""
    rank = len(target.shape)
    if target.dtype.is_quantized or rank > 6 or target.dtype is not source.dtype or target.shape != source.shape:
        return False
    pad = (0,) * (6 - rank)
    launch(
        _COPY, target.numel() >> 10, target.address, source.address, target.dtype.itemsize, rank,
        *target.shape, *pad, *target.strides, *pad, *source.strides, *pad,
    )  # fmt: skip
    return True


def dense_copy(x: Tensor) -> Tensor:
    """A dense copy by the kernel, or NotImplemented."""
    result = empty_contiguous(x.shape, x.dtype)
    return result if copy_strided(result, x) else NotImplemented


for _function in (
    reshape, view, permute, transpose, t, expand, broadcast_to, narrow, split, chunk, squeeze, unsqueeze,
    flatten, flip, repeat,
):  # fmt: skip
    setattr(Tensor, _function.__name__, _function)
Tensor.T = property(lambda self: permute(self, *reversed(range(self.ndim))))  # type: ignore[attr-defined]
Tensor.mT = property(lambda self: transpose(self, -2, -1))  # type: ignore[attr-defined]
Tensor.expand_as = lambda self, other: expand(self, other.shape)  # type: ignore[attr-defined]
Tensor.view_as = lambda self, other: view(self, other.shape)  # type: ignore[attr-defined]
