"""Split a tensor along a dim into views."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate, repeat
from operator import index
from typing import Any

from ..autograd import STATE
from ..declare import function
from ..op import link_to_base
from ..shape import normalize_dim
from ..tensor import Tensor, make
from ..user_errors import describe
from .view import _no_blocks, _strided, narrow

MOST_EMPTY = 1 << 20  # sections of a dim that has fewer elements


@function(method=True, arguments="tensor split_size_or_sections")
def split(x: Tensor, split_size: int | Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of one size (the last may be smaller) or of the sizes given."""
    size = split_size
    d = normalize_dim(dim, x.ndim, "split")
    total = x._shape[d]
    if isinstance(size, int):
        if size < 0 or (size == 0 and total):
            raise ValueError(f"split: size {size} is not positive")
        sizes = [min(size, total - start) for start in range(0, max(total, 1), size or 1)]
    else:
        sizes = [index(n) for n in size]
        if sum(sizes) != total:
            raise ValueError(
                f"split: expects split_sizes to sum exactly to {total}: sizes {sizes} do not add up to {total}, dim "
                f"{dim} of {describe(x)}"
            )
        if sizes and min(sizes) < 0:
            raise ValueError(f"split: sizes are not negative, got {sizes}")
    starts = accumulate(sizes, initial=0)
    if STATE.enabled and not x.is_contiguous():
        return tuple([narrow(x, d, start, length) for start, length in zip(starts, sizes)])  # noqa: B905
    before, after, strides, step = x._shape[:d], x._shape[d + 1 :], x.strides, x.strides[d]
    shapes = [(*before, length, *after) for length in sizes]
    return _slices(x, strides, zip(shapes, [start * step for start in starts]))  # noqa: B905 (one start more, the end)


def _slices(x: Tensor, strides: tuple[int, ...], parts: Iterable[tuple[tuple[int, ...], int]]) -> tuple[Tensor, ...]:
    """The views of these shapes, at these offsets, of a tensor that is dense under autograd."""
    if x.dtype.is_quantized:
        _no_blocks(x, "index")
    if x._requires_grad:
        return tuple([_strided.call(x, shape, strides, offset) for shape, offset in parts])
    storage, kind, first = x._storage, x.dtype, x.offset
    if not STATE.enabled:
        return tuple([make(storage, shape, strides, kind, first + offset) for shape, offset in parts])
    return tuple([
        link_to_base(_strided, (x, shape, strides, offset), make(storage, shape, strides, kind, first + offset))
        for shape, offset in parts
    ])  # fmt: skip


@function(method=True)
def chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Up to `chunks` pieces of equal size."""
    if chunks < 1:
        raise ValueError(f"chunk: cannot divide {describe(x)} into {chunks} chunks")
    total = x._shape[normalize_dim(dim, x.ndim, "chunk")]
    if not total:
        return tuple(narrow(x, dim, 0, 0) for _ in range(chunks))
    return split(x, max(1, -(-total // chunks)), dim)


@function(method=True)
def unbind(x: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """The slices along a dim, without that dim."""
    d = normalize_dim(dim, x.ndim, "unbind")
    if not x.ndim:
        raise IndexError("unbind: takes a tensor with dims, got a 0-dim one")
    if STATE.enabled and not x.is_contiguous():
        return tuple([x[(slice(None),) * d + (i,)] for i in range(x._shape[d])])
    shape, strides = x._shape, x.strides
    shape, strides, step = shape[:d] + shape[d + 1 :], strides[:d] + strides[d + 1 :], strides[d]
    return _slices(x, strides, zip(repeat(shape), [i * step for i in range(x._shape[d])]))


@function(method=True)
def tensor_split(x: Tensor, indices_or_sections: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """Pieces of nearly equal size, or cut at the given indices."""
    size = x._shape[normalize_dim(dim, x.ndim, "tensor_split")]
    if isinstance(indices_or_sections, Tensor):
        indices_or_sections = indices_or_sections.tolist()
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if count < 1:
            raise ValueError(f"tensor_split: needs 1 section or more, got {count}")
        if count > max(size, MOST_EMPTY):
            raise MemoryError(f"tensor_split: {count:,} sections of {size:,} elements are more than can be made")
        return split(x, [size // count + (i < size % count) for i in range(count)], dim)
    cuts = [min(max(i + size if i < 0 else i, 0), size) for i in indices_or_sections]
    ends = [*cuts, size]
    return tuple(narrow(x, dim, a, max(b - a, 0)) for a, b in zip([0, *cuts], ends, strict=True))


def _equal_split(name: str, x: Tensor, indices_or_sections: Any, dim: int, least: int = 1) -> tuple[Tensor, ...]:
    if x.ndim < least:
        raise ValueError(f"{name}: takes tensors of {least} or more dims, not {describe(x)}")
    count = indices_or_sections
    if isinstance(count, int) and count > 0 and x._shape[dim] % count:
        raise ValueError(f"{name}: dim {dim} of {describe(x)} cannot be cut into {count} equal parts")
    return tensor_split(x, count, dim)


@function(method=True)
def hsplit(x: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """tensor_split along dim 1 (0 for vectors), into equal parts."""
    return _equal_split("hsplit", x, indices_or_sections, 1 if x.ndim > 1 else 0)


@function(method=True)
def vsplit(x: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """tensor_split along dim 0 of two dims or more, into equal parts."""
    return _equal_split("vsplit", x, indices_or_sections, 0, 2)


@function(method=True)
def dsplit(x: Tensor, indices_or_sections: Any) -> tuple[Tensor, ...]:
    """tensor_split along dim 2, into equal parts."""
    return _equal_split("dsplit", x, indices_or_sections, 2, 3)


@function(method=True)
def split_with_sizes(x: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """split into parts of these sizes."""
    return split(x, list(split_sizes), dim)


@function(method=True)
def unsafe_chunk(x: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """The same as chunk."""
    return chunk(x, chunks, dim)


@function(method=True)
def unsafe_split(x: Tensor, split_size: Any, dim: int = 0) -> tuple[Tensor, ...]:
    """The same as split."""
    return split(x, split_size, dim)


@function(method=True)
def unsafe_split_with_sizes(x: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """The same as split_with_sizes."""
    return split(x, list(split_sizes), dim)
