"""Sums and means of rows of a table (native/embedding.c)."""

from __future__ import annotations

from typing import Any

from ..dtype import float32, int32, int64
from ..launch import KERNELS
from ..native import IN_BROWSER
from ..op import claims
from ..operands import dense
from ..tensor import Tensor, empty_contiguous
from .layouts import in_type

_BAGS = KERNELS["embedding_bag_f32"]


@claims("_embedding_bag")
def _embedding_bag(weight: Tensor, ids: Tensor, starts: Tensor | None, mean: bool) -> Any:
    if IN_BROWSER or weight.dtype is not float32 or ids.dtype not in (int32, int64) or len(weight._shape) != 2:
        return NotImplemented
    vocabulary, columns = weight._shape
    count, bags = ids.numel(), ids._shape[0] if starts is None else starts._shape[0]
    y = empty_contiguous((bags, columns), float32, weight.device)
    _BAGS.launch(
        count * columns >> 10, y, dense(weight), dense(ids), None if starts is None else dense(in_type(starts, int64)),
        bags, count, columns, vocabulary, ids.dtype.itemsize, int(mean),
    )  # fmt: skip
    return y
