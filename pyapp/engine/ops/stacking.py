"""Join tensors: cat, stack and their synonyms."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from ..declare import function
from ..dtype import result_dtype
from ..launch import KERNELS, Part
from ..lazy import np
from ..numpy_arrays import array_of, tensor_of
from ..op import primitive
from ..operands import common_dtype, same_device
from ..shape import normalize_dim
from ..tensor import Tensor, empty_contiguous
from ..user_errors import describe
from .splitting import split, unbind
from .view import _no_blocks, atleast_3d, reshape


def _in_types(parts: Sequence[Tensor], tensors: Sequence[Tensor]) -> list[Tensor]:
    """Each gradient in the dtype of its tensor: promotion may have widened it."""
    return [g if g.dtype is t.dtype else g.to(t.dtype) for g, t in zip(parts, tensors, strict=True)]


def _d_cat(g: Tensor, _: Any, *args: Any) -> Any:
    tensors, dim = args[:-1], args[-1]
    return _in_types(split(g.contiguous(), [t._shape[dim] for t in tensors], dim), tensors)


@primitive(vjp=_d_cat, saves="none", name="_cat")
def _cat(tensors: Sequence[Tensor], dim: int) -> Tensor:
    if _follow_each_other(tensors, dim):
        return _put_behind(tensors, dim)
    kind = tensors[0].dtype if len({t.dtype for t in tensors}) == 1 else common_dtype(*tensors)
    return tensor_of(np.concatenate([array_of(t, kind) for t in tensors], axis=dim), kind)


def _follow_each_other(tensors: Sequence[Tensor], dim: int) -> bool:
    """Whether the result's bytes are the concatenated bytes of the tensors."""
    dtype, others = tensors[0].dtype, [t._shape[:dim] + t._shape[dim + 1 :] for t in tensors]
    return (
        len(set(others)) == 1
        and prod(tensors[0]._shape[:dim]) == 1
        and all(t.dtype is dtype and t.is_contiguous() for t in tensors)
    )


def _put_behind(tensors: Sequence[Tensor], dim: int) -> Tensor:
    shape = list(tensors[0]._shape)
    shape[dim] = sum(t._shape[dim] for t in tensors)
    y = empty_contiguous(tuple(shape), tensors[0].dtype, tensors[0].device)
    start = 0
    for t in tensors:
        KERNELS["copy_bytes"].launch(t.nbytes >> 10, Part(y, start), t, t.nbytes)
        start += t.nbytes
    return y


def _not_joined(first: Sequence[int], other: Sequence[int], dim: int) -> str:
    """torch's words for two shapes that differ outside a dim."""
    if len(first) != len(other):
        return f"Tensors must have same number of dimensions: got {len(first)} and {len(other)}"
    a, b = next((a, b) for d, (a, b) in enumerate(zip(first, other, strict=True)) if d != dim and a != b)
    return f"Sizes of tensors must match except in dimension {dim}. Expected size {a} but got size {b}"


@function(synonyms="concat concatenate")
def cat(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Joins tensors along an existing dim."""
    given = tensors = list(tensors)
    for x in given:
        if x._shape == (0,):
            tensors = [t for t in given if t._shape != (0,)] or given[:1]
            break
    if not tensors:
        raise ValueError("cat: expected a non-empty list of Tensors: expects at least one tensor")
    first, shape = tensors[0], tensors[0]._shape
    if shape == (0,):  # nothing but empty vectors, which join along any dim
        dim = 0
    d = normalize_dim(dim, len(shape), "cat")
    for x in tensors:
        if x.dtype.is_quantized:
            _no_blocks(x, "cat")
        if x._shape != shape and x._shape[:d] + x._shape[d + 1 :] != shape[:d] + shape[d + 1 :]:
            raise ValueError(
                f"cat: {_not_joined(shape, x.shape, d)}: {describe(first)} and {describe(x)} differ outside dim {dim}"
            )
        if x.device is not first.device:
            same_device("cat", *tensors)
    joined = _cat.call(tensors, d)
    return joined if len(given) == len(tensors) else joined.to(common_dtype(*given))  # empty vectors count in dtype


def _d_stack(g: Tensor, _: Any, *args: Any) -> Any:
    return _in_types(unbind(g, args[-1]), args[:-1])


@primitive(vjp=_d_stack, saves="none", name="_stack")
def _stack(tensors: Sequence[Tensor], dim: int) -> Tensor:
    kind = result_dtype([(t.dtype, 2) for t in tensors])
    return tensor_of(np.stack([array_of(t, kind) for t in tensors], axis=dim), kind)


@function()
def stack(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
    """Joins tensors of one shape along a new dim."""
    tensors = list(tensors)
    if not tensors:
        raise ValueError("stack: expects a non-empty TensorList: expects at least one tensor")
    first = tensors[0]
    shape, device = first._shape, first.device
    d = normalize_dim(dim, len(shape) + 1, "stack")
    for x in tensors:
        if x.dtype.is_quantized:
            _no_blocks(x, "stack")
        if x._shape != shape:
            raise ValueError(
                f"stack: expects each tensor to be equal size: {describe(first)} and {describe(x)} differ in shape"
            )
        if x.device is not device:
            same_device("stack", *tensors)
    return _stack.call(tensors, d)


@function()
def hstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joins along dim 1; vectors along dim 0."""
    whole = [t if t.ndim else reshape(t, 1) for t in tensors]
    return cat(whole, 0 if whole and whole[0].ndim == 1 else 1)


@function(synonyms="row_stack")
def vstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joins along dim 0; vectors are rows."""
    return cat([t if t.ndim > 1 else reshape(t, 1, -1) for t in tensors], 0)


@function()
def dstack(tensors: Sequence[Tensor]) -> Tensor:
    """Joins along dim 2."""
    return cat([atleast_3d(t) for t in tensors], 2)


@function()
def column_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Joins along dim 1; vectors are columns."""
    return cat([t if t.ndim > 1 else reshape(t, (t.numel(), 1)) for t in tensors], 1)
