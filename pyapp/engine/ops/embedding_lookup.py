"""Rows of a table by index: embedding, one_hot."""

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
    rows = g.reshape(-1, weight.shape[1])  # (N, D)
    return rows.new_zeros(weight.shape).index_add(0, ids.reshape(-1), rows).to(weight.dtype), None


@embedding_backward.kernel("cpu")
def _add_sorted_rows(g: Tensor, weight: Tensor, ids: Tensor) -> Any:
    """Rows sorted by id first: np.add.at on rows is ten times slower."""
    flat = array_of(g).reshape(-1, weight.shape[1])
    order = np.argsort(ids.array().reshape(-1), kind="stable")
    sorted_ids = ids.array().reshape(-1)[order]
    whole = np.zeros(weight.shape, flat.dtype)
    if len(order):
        starts = np.flatnonzero(np.r_[True, sorted_ids[1:] != sorted_ids[:-1]])
        whole[sorted_ids[starts]] = np.add.reduceat(flat[order], starts, axis=0)
    return tensor_of(whole, weight.dtype), None


@primitive(vjp=lambda g, _, weight, ids: embedding_backward(g, weight, ids), saves="none", name="_embedding")
def _embedding(weight: Tensor, ids: Tensor) -> Tensor:
    if weight.dtype.is_quantized:
        weight = dequantize(weight)
    array = ids.array()
    if array.size and (array.min() < 0 or array.max() >= weight.shape[0]):
        raise IndexError(f"embedding: ids {array.min()} .. {array.max()} are outside 0 .. {weight.shape[0] - 1}")
    rows = adopt_array(weight.array()[array], weight.dtype)
    return rows.to(_dtype.float32) if weight.dtype.itemsize == 2 else rows


@function()
def embedding(weight: Tensor, ids: Tensor) -> Tensor:
    """Rows of weight (V, D) by integer ids (...) → (..., D). float16, bfloat16 and block formats give float32 rows."""
    if ids.dtype.category != 1 or weight.ndim != 2:
        raise TypeError(f"embedding: takes a weight (V, D) and integer ids, got {describe(weight)} and {describe(ids)}")
    return _embedding(weight, ids)
