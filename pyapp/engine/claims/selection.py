"""Choosing, gathering, scattering and sorting elements."""

from __future__ import annotations

from math import prod
from typing import Any

from .. import dtype as _dtype
from ..device import cpu
from ..dtype import DType
from ..element_types import CODES, element_bits, number_slot, opcodes, padded
from ..launch import KERNELS as K
from ..launch import capturing
from ..native import get_num_threads
from ..op import OPS, claims, claims_in_place
from ..operands import check_number, common_dtype, dense
from ..ops.view import reshaped
from ..shape import Shape, broadcast_shapes, dense_layout, normalize_dim
from ..storage import Storage
from ..tensor import Tensor, empty_contiguous, make
from .elementwise import broadcast_strides
from .layouts import in_type, is_turned

_SET, _ADD = (opcodes("scatter")[name].code for name in ("set", "add"))
_INDEX_TYPES = (_dtype.int64, _dtype.int32)
_FEW = 1 << 12  # elements that are read where they lie, whatever their order
_WHERE, _GATHER = K["where"], K["gather"]
_NO_DIMS = (0,) * 4


def _flat(x: Any) -> Any:
    """The elements of a tensor without gaps in the order of its memory; a number itself."""
    return make(x._storage, (x.numel(),), (1,), x.dtype, x.offset) if isinstance(x, Tensor) else x


@claims("_where")
def _where(condition: Tensor, a: Any, b: Any) -> Any:
    if condition.dtype not in (_dtype.bool_, _dtype.uint8):
        return NotImplemented
    if isinstance(a, Tensor) and isinstance(b, Tensor) and a.dtype is b.dtype in CODES:
        shape = a._shape
        if shape == b._shape == condition._shape and len(shape) < 6:
            count, strides = dense_layout(shape)
            if a.strides == b.strides == condition.strides == strides:  # one row
                y = empty_contiguous(shape, a.dtype, condition.device)
                _WHERE.launch(
                    count >> 9, y, condition, a, b, a.dtype.itemsize, 1, count, *_NO_DIMS, 1, *_NO_DIMS, 1, *_NO_DIMS,
                    1, *_NO_DIMS, 0, 0,
                )  # fmt: skip
                return y
    kind = common_dtype(a, b)
    tensors = [t for t in (condition, a, b) if isinstance(t, Tensor)]
    shape = broadcast_shapes(*[t._shape for t in tensors], op="where")
    if is_turned(condition) and kind in CODES:
        a, b = (in_type(t, kind) if isinstance(t, Tensor) and t.dtype is not kind else t for t in (a, b))
        tensors, strides = [t for t in (condition, a, b) if isinstance(t, Tensor)], condition.strides
        if all(t._shape == shape and t.strides == strides for t in tensors):  # in the order of the memory
            y = choose(_flat(condition), _flat(a), _flat(b), (prod(shape),), kind)
            return y if y is NotImplemented else make(y._storage, shape, strides, kind)
    return choose(condition, a, b, shape, kind)


def choose(condition: Tensor, a: Any, b: Any, shape: Shape, kind: DType, into: Tensor | None = None) -> Any:
    """Elements of a or b, by a condition of bools, broadcast to the shape, in a dtype; `into` a dense tensor, which may
    be a or b itself."""
    rank = len(shape)
    if kind not in CODES or rank > 5:
        return NotImplemented
    pad = (0,) * (5 - rank)
    left, right = _operand(a, shape, kind), _operand(b, shape, kind)
    if left is None or right is None:
        return NotImplemented
    y = empty_contiguous(shape, kind, condition.device) if into is None else into
    _WHERE.launch(
        prod(shape) >> 9, y, condition, left[0], right[0], kind.itemsize, rank, *shape, *pad,
        *broadcast_strides(condition, shape), *pad, *left[1], *pad, *right[1], *pad, left[2], right[2],
    )  # fmt: skip
    return y


def _operand(value: Any, shape: Shape, kind: DType) -> tuple[Tensor | None, tuple[int, ...], int] | None:
    """(tensor, strides, bits of the number) of an operand of `where`; None for a number that the dtype cannot hold."""
    if not isinstance(value, Tensor):
        bits = element_bits(value, kind)
        return None if bits is None else (None, (0,) * len(shape), bits)
    if value.dtype is not kind:
        value = in_type(value, kind)
    return value, broadcast_strides(value, shape), 0


@claims_in_place("masked_fill")
def _masked_fill(x: Tensor, mask: Any, value: Any) -> bool:
    """By one launch, for a dense tensor and a mask that broadcasts to it."""
    if not isinstance(mask, Tensor) or mask.dtype is not _dtype.bool_ or not x.is_contiguous():
        return False
    if mask._storage is x._storage or isinstance(value, Tensor) or len(mask._shape) > len(x._shape):
        return False
    if mask._shape != x._shape and broadcast_shapes(mask._shape, x._shape, op="masked_fill_") != x._shape:
        return False
    check_number("masked_fill_", value, x.dtype)
    if choose(mask, int(value) if x.dtype.category == 1 else value, x, x._shape, x.dtype, x) is NotImplemented:
        return False
    x._storage.version += 1
    return True


@claims("masked_fill")
def _with_number_where(x: Tensor, mask: Any, value: Any) -> Any:
    """Of a number, and a mask that broadcasts to x."""
    if not isinstance(mask, Tensor) or mask.dtype is not _dtype.bool_ or isinstance(value, Tensor):
        return NotImplemented
    if mask.device is not x.device or x.dtype.is_quantized or not isinstance(value, (int, float)):
        return NotImplemented
    if mask._shape != x._shape and broadcast_shapes(mask._shape, x._shape, op="masked_fill") != x._shape:
        return NotImplemented
    if x.numel() > _FEW and not (x.is_contiguous() and mask.is_contiguous()):
        return NotImplemented  # the definition keeps the order in memory
    check_number("masked_fill", value, x.dtype)
    return choose(mask, int(value) if x.dtype.category == 1 else value, x, x._shape, x.dtype)


def _with_rank(x: Tensor, index: Tensor) -> tuple[Tensor, Tensor]:
    """Zero-dimensional tensors as vectors of one element."""
    return (x, index) if x._shape else (x.reshape(1), index.reshape(1))


def _fits(x: Tensor, index: Tensor, dim: int, rank: int) -> bool:
    """Whether the index has the rank of x and is not longer along other dims."""
    if len(index._shape) != len(x._shape) or len(x._shape) > rank or x.dtype not in CODES:
        return False
    for d, (i, n) in enumerate(zip(index._shape, x._shape, strict=True)):
        if i > n and d != dim:
            return False
    return True


def _index_of_rows(x: Tensor, d: int, index: Tensor) -> Tensor | None:
    """A vector of places along dim d, where the index repeats it for all of x's other dims, as `expand` does: then
    whole rows are moved. None elsewhere, and where they may be negative."""
    if x.device is not cpu or capturing() or index.numel() <= _FEW or x._shape[d + 1 :] != index._shape[d + 1 :]:
        return None
    if index._shape[:d] != x._shape[:d] or index._shape[d] == index.numel():
        return None
    for i, (n, step) in enumerate(zip(index._shape, index.strides, strict=True)):
        if step and n > 1 and i != d:
            return None
    places = dense(make(index._storage, (index._shape[d],), (index.strides[d],), index.dtype, index.offset))
    return places if places.amin().item() >= 0 else None


@claims("gather")
def _gather(x: Tensor, dim: int, index: Tensor) -> Any:
    d = normalize_dim(dim, len(x._shape), "gather")
    if index.dtype not in _INDEX_TYPES or not _fits(x, index, d, 6):
        return NotImplemented
    source, places = _with_rank(x, index)
    try:
        if (rows := _index_of_rows(x, d, index)) is not None:
            return OPS["_index_select"].forward(x, d, rows)
        y = empty_contiguous(places._shape, x.dtype, x.device)
        _GATHER.launch(
            places.numel() >> 8, y, source, places, x.dtype.itemsize, CODES[index.dtype], len(source._shape), d,
            source._shape[d], *padded(places._shape), *padded(source.strides), *padded(places.strides),
        )  # fmt: skip
    except IndexError:
        if x.device is not cpu:
            raise
        return NotImplemented  # NumPy's way says which index it is
    return y if index._shape else reshaped(y, ())


def _scatter_into(x: Tensor, dim: int, index: Tensor, source: Any, code: int) -> Any:
    """A copy of x with the source combined into it."""
    d = normalize_dim(dim, len(x._shape), "scatter")
    if index.dtype not in _INDEX_TYPES or not _fits(x, index, d, 4) or x.dtype.is_quantized:
        return NotImplemented
    number: int | None = 0
    if isinstance(source, Tensor):
        if source.dtype is not x.dtype or len(source._shape) != len(x._shape):
            return NotImplemented
        if any(i > n for i, n in zip(index._shape, source._shape, strict=True)):
            return NotImplemented
    else:
        number, source = number_slot(source, x.dtype), None
        if number is None:
            return NotImplemented
    y = dense(x)._row_major()
    target, places = _with_rank(y, index)
    steps = (0,) * len(places._shape) if source is None else source.strides or (1,)
    try:
        K["scatter"].launch(
            places.numel() >> 8, target, places, source, code, CODES[x.dtype], CODES[index.dtype],
            len(places._shape), d, target._shape[d], *padded(places._shape, 4), *padded(target.strides, 4),
            *padded(places.strides, 4), *padded(steps, 4), number,
        )  # fmt: skip
    except IndexError:
        if x.device is not cpu:
            raise
        return NotImplemented
    return y


@claims("scatter")
def _scatter(x: Tensor, dim: int, index: Tensor, source: Any) -> Any:
    return _scatter_into(x, dim, index, source, _SET)


@claims("scatter_add")
def _scatter_add(x: Tensor, dim: int, index: Tensor, src: Tensor) -> Any:
    if src._shape == index._shape and src.dtype is x.dtype and index.dtype in _INDEX_TYPES and _fits(x, index, dim, 4):
        d = normalize_dim(dim, len(x._shape), "scatter")
        if (rows := _index_of_rows(x, d, index)) is not None:
            try:
                return OPS["_index_add"].forward(x, d, rows, src)
            except IndexError:
                return NotImplemented  # NumPy's way says which index it is
    return _scatter_into(x, dim, index, src, _ADD) if x.dtype in opcodes("scatter")["add"].types else NotImplemented


def _first_indices(x: Tensor, count: int, dim: int, descending: bool) -> Any:
    """Indices (int64) of the first `count` elements along a dim in sorted order."""
    if x.dtype not in CODES or x.dtype.is_storage_only:
        return NotImplemented
    x = dense(x)
    shape = x._shape or (1,)
    length = shape[dim]
    outer, inner = prod(shape[:dim]), prod(shape[dim + 1 :])
    indices = empty_contiguous((*shape[:dim], count, *shape[dim + 1 :]) if x._shape else (), _dtype.int64, x.device)
    workers = max(1, min(outer * inner, 2 * get_num_threads()))
    own = x.device.backend.own_workspaces
    scratch = x if own else Storage(32 * min(length, 2 * count + 128) * workers, x.device)
    K["sort"].launch(
        x.numel() >> (4 if count == length else 8), None, indices, x, scratch, CODES[x.dtype], outer, length, inner,
        count, int(descending), length * inner, inner, 1, workers,
    )  # fmt: skip
    return indices


@claims("argsort")
def _argsort(x: Tensor, dim: int = -1, descending: bool = False) -> Any:
    d = normalize_dim(dim, len(x._shape), "argsort")
    return _first_indices(x, x._shape[d] if x._shape else 1, d, descending)


@claims("_first_indices")
def _topk(x: Tensor, count: int, dim: int, largest: bool) -> Any:
    return _first_indices(x, count, dim, bool(largest))


def _claim_triangle(name: str) -> None:
    @claims(name)
    def _(x: Tensor, diagonal: int = 0) -> Any:
        if len(x._shape) < 2 or x.dtype not in CODES or type(diagonal) is not int:
            return NotImplemented
        x = dense(x)
        rows, columns = x._shape[-2:]
        y = empty_contiguous(x._shape, x.dtype, x.device)
        K["triangular"].launch(
            x.numel() >> 10, y, x, x.dtype.itemsize, prod(x._shape[:-2]), rows, columns, diagonal, int(name == "triu"),
            rows * columns, columns, 1,
        )  # fmt: skip
        return y


_claim_triangle("tril")
_claim_triangle("triu")
