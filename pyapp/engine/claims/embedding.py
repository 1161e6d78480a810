"""Rows of a table by ids, and the gradient of the table."""

from __future__ import annotations

from typing import Any

from .. import dtype as _dtype
from ..blocks.layout import BLOCK_TYPES
from ..element_types import CODES
from ..launch import KERNELS as K
from ..op import claims
from ..operands import dense, is_half
from ..quant import is_transposed
from ..tensor import Tensor, empty_contiguous
from .layouts import in_type

_F32 = _dtype.float32
_I32 = _dtype.int32

_EMBEDDING: dict[Any, tuple[Any, tuple[int, ...]]] = {
    kind: (K["embedding_blocks"], (BLOCK_TYPES[name].code,)) for name, kind in _dtype.GGML.items()
}
_EMBEDDING |= {
    _dtype.DTYPES[name]: (K["embedding_" + kernel], ())
    for name, kernel in (("float16", "f16"), ("bfloat16", "bf16"), ("q8_0", "q8_0"), ("q8_group", "q8_group"))
}
# Rows that are copied as they are; the ids may be of 64 bits.
_COPIED = {_F32, _dtype.float64, _dtype.int8, _dtype.uint8, _dtype.int32, _dtype.int64, _dtype.bool_}
_COPY = K["embedding_copy"]


@claims("_embedding")
def _embedding(weight: Tensor, ids: Tensor) -> Any:
    kind, by = weight.dtype, ids.dtype
    if not weight.is_contiguous() or by not in (_I32, _dtype.int64) or (kind.is_quantized and is_transposed(weight)):
        return NotImplemented
    ids = dense(ids)
    vocabulary, columns = weight._shape
    count = ids.numel()
    sizes = (count, columns, vocabulary, columns)
    if kind in _COPIED:
        rows = empty_contiguous((*ids._shape, columns), kind, weight.device)
        _COPY.launch(count * columns >> 10, rows, weight, ids, *sizes, kind.itemsize, by.itemsize)
        return rows
    if kind.is_quantized and by is not _I32:  # what is out of range stays so
        ids, by = in_type(ids.clamp(-1, vocabulary), _I32), _I32
    found = _EMBEDDING.get(kind) if by is _I32 else None
    if found is None:
        if kind.itemsize != 2 or not kind.is_floating_point:
            return NotImplemented
        halves = empty_contiguous((*ids._shape, columns), kind, weight.device)  # the kernels of halves take int32 only
        _COPY.launch(count * columns >> 10, halves, weight, ids, *sizes, kind.itemsize, by.itemsize)
        return in_type(halves, _F32)
    kernel, more = found
    y = empty_contiguous((*ids._shape, columns), _F32, weight.device)
    kernel.launch(count * columns >> 10, y, weight, ids, *sizes, *more)
    return y


@claims("_one_hot")
def _one_hot(x: Tensor, classes: int) -> Any:
    if x.dtype not in CODES:
        return NotImplemented
    index = dense(x if x.dtype in (_I32, _dtype.int64) else in_type(x, _dtype.int64))
    y = empty_contiguous((*x._shape, classes), _dtype.int64, x.device)
    count = x.numel()
    K["one_hot"].launch(
        count * classes >> 10, y, index, CODES[_dtype.int64], CODES[index.dtype], count, classes
    )  # fmt: skip
    return y


@claims("embedding_backward")
def _embedding_backward(g: Tensor, weight: Tensor, ids: Tensor) -> Any:
    if g.dtype is not _F32 or not (weight.dtype is _F32 or is_half(weight)) or ids.dtype not in (_I32, _dtype.int64):
        return NotImplemented
    g, ids = dense(g), dense(ids)
    grad = empty_contiguous(weight._shape, _F32, weight.device)
    K["embedding_backward_f32"].launch(
        g.numel() >> 10,
        grad,
        g,
        ids,
        ids.numel(),
        weight._shape[1],
        weight._shape[0],
        ids.dtype.itemsize,
    )
    return in_type(grad, weight.dtype), None
