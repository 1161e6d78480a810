"""Rows of a table by index, and sums of them: embedding, embedding_bag, one_hot."""

from __future__ import annotations

from typing import Any

from .. import dtype as _dtype
from ..declare import function
from ..lazy import np
from ..numpy_arrays import array_of, tensor_of
from ..op import op, primitive
from ..quant import dequantize
from ..tensor import Tensor, adopt_array
from ..user_errors import describe
from .create import arange
from .stacking import cat


@function()
def one_hot(x: Tensor, num_classes: int = -1) -> Tensor:
    """Integers (...) → (..., classes) of 0 and 1 (int64); by default classes is the largest integer + 1."""
    if x.dtype.category != 1:
        raise TypeError(f"one_hot: takes integers, got {describe(x)}")
    if num_classes < -1:
        raise ValueError(f"one_hot: num_classes is -1 or at least 0, not {num_classes}")
    if num_classes < 0:
        num_classes = int(x.amax()) + 1 if x.numel() else 0
    try:
        return _one_hot(x, num_classes)
    except IndexError:
        least, most = int(x.amin()), int(x.amax())
        raise ValueError(f"one_hot: values {least} .. {most} are outside 0 .. {num_classes - 1}") from None


@primitive(vjp=None, name="_one_hot")
def _one_hot(x: Tensor, classes: int) -> Tensor:
    """IndexError for values outside 0 .. classes - 1."""
    ids = array_of(x)
    if ids.size and not (ids.min() >= 0 and ids.max() < classes):
        raise IndexError("one_hot: a value is out of range")
    return tensor_of(ids[..., None] == np.arange(classes), _dtype.int64)


@op()
def embedding_backward(g: Tensor, weight: Tensor, ids: Tensor) -> tuple[Tensor, None]:
    """The gradient of embedding in its weight (V, D): the rows of g (..., D) added up by id."""
    rows = g.reshape(ids.numel(), weight._shape[1])  # (N, D)
    return rows.new_zeros(weight._shape).index_add(0, ids.reshape(-1), rows).to(weight.dtype), None


@embedding_backward.kernel("cpu")
def _add_sorted_rows(g: Tensor, weight: Tensor, ids: Tensor) -> Any:
    """Rows sorted by id first: np.add.at on rows is ten times slower."""
    flat = array_of(g).reshape(ids.numel(), weight._shape[1])
    order = np.argsort(ids.array().reshape(-1), kind="stable")
    sorted_ids = ids.array().reshape(-1)[order]
    whole = np.zeros(weight._shape, flat.dtype)
    if len(order):
        starts = np.flatnonzero(np.r_[True, sorted_ids[1:] != sorted_ids[:-1]])
        whole[sorted_ids[starts]] = np.add.reduceat(flat[order], starts, axis=0)
    return tensor_of(whole, weight.dtype), None


@primitive(vjp=lambda g, _, weight, ids: embedding_backward(g, weight, ids), saves="none", name="_embedding")
def _embedding(weight: Tensor, ids: Tensor) -> Tensor:
    if weight.dtype.is_quantized:
        weight = dequantize(weight)
    array = ids.array()
    if array.size and (array.min() < 0 or array.max() >= weight._shape[0]):
        raise IndexError(f"embedding: ids {array.min()} .. {array.max()} are outside 0 .. {weight.shape[0] - 1}")
    rows = adopt_array(weight.array()[array], weight.dtype)
    return rows.to(_dtype.float32) if weight.dtype.itemsize == 2 else rows


@function()
def embedding(weight: Tensor, ids: Tensor) -> Tensor:
    """Rows of weight (V, D) by integer ids (...) → (..., D). float16, bfloat16 and block formats give float32 rows."""
    if ids.dtype.category != 1 or weight.ndim != 2:
        raise TypeError(
            "embedding: Expected tensor for argument 'indices' to have scalar type Long or Int: takes a weight (V, D) "
            f"and integer ids, got {describe(weight)} and {describe(ids)}; convert the ids with .long()"
        )
    return _embedding(weight, ids)


def _repeated(g: Tensor, ids: Tensor, starts: Tensor | None) -> Tensor:
    """Row b of g (bags, D) for each id of bag b: (N, D)."""
    if starts is None:
        return g.unsqueeze(1).expand(*ids._shape, g._shape[1]).reshape(-1, g._shape[1])
    from .sorted_search import searchsorted  # late: only bags need it

    return g.index_select(0, searchsorted(starts, arange(ids._shape[0], device=ids.device), right=True) - 1)


def _sizes(ids: Tensor, starts: Tensor | None, dtype: _dtype.DType) -> Any:
    """The number of ids in each bag, at least 1: a number for all, or (bags, 1)."""
    if starts is None:
        return max(ids._shape[1], 1)
    ends = cat([starts[1:], starts.new_full((1,), ids._shape[0])])
    return (ends - starts).clamp(1).to(dtype).unsqueeze(1)


def _d_embedding_bag(g: Tensor, _: Any, weight: Tensor, ids: Tensor, starts: Tensor | None, mean: bool) -> Any:
    if mean:
        g = g / _sizes(ids, starts, g.dtype)
    return embedding_backward(_repeated(g, ids, starts), weight, ids.reshape(-1))[0], None


@op(vjp=_d_embedding_bag, name="_embedding_bag")
def embedding_bag(weight: Tensor, ids: Tensor, starts: Tensor | None, mean: bool) -> Tensor:
    """Sums, or means, of rows of weight (V, D) by bags of ids → (bags, D): the rows of ids (bags, N); or of ids (N,)
    from each of starts (bags,) int64, which ascend from 0, to the next. An empty bag is 0.
    """
    rows = embedding(weight, ids)
    if starts is None:
        total = rows.sum(1)
    else:
        from .sorted_search import searchsorted  # late, as above

        bags = searchsorted(starts, arange(ids._shape[0], device=ids.device), right=True) - 1
        total = rows.new_zeros((starts._shape[0], rows._shape[1])).index_add(0, bags, rows)
    return total / _sizes(ids, starts, total.dtype) if mean else total
