"""The indexer of sparse attention (native/indexer.c): it scores the tokens in a cache, not all of its places."""

from __future__ import annotations

from typing import Any

from ..dtype import float16, float32, int32
from ..element_types import CODES
from ..launch import KERNELS, Part
from ..native import IN_BROWSER
from ..op import claims
from ..operands import dense
from ..ops import indexer
from ..tensor import Tensor, empty_contiguous

_SCORES, _PLACES = KERNELS["indexer_scores"], KERNELS["indexer_places"]
_LARGEST_HEAD = 512


@claims("_indexed_places")
def _indexed_places(
    q: Tensor, weights: Tensor, keys: Tensor, position: Tensor, count: int, block_table: Tensor | None
) -> Any:
    tokens, heads, size = q._shape
    if IN_BROWSER or not q.dtype is weights.dtype is float32 or keys.dtype not in (float32, float16):
        return NotImplemented
    if size > _LARGEST_HEAD or position.dtype is not int32:
        return NotImplemented
    parts, blocks = (1, 0) if block_table is None else (block_table._shape[1], keys._shape[0])
    q, weights, keys, position = dense(q), dense(weights), dense(keys), dense(position)
    table, capacity = None if block_table is None else dense(block_table), keys._shape[-2]
    length = parts * capacity
    places = empty_contiguous((tokens, count), int32, q.device)
    for first, some in indexer.pieces(tokens, length, indexer.NUMBERS):
        scores = empty_contiguous((some, length), float32, q.device)
        _SCORES.launch(
            some * heads * size * length >> 12, scores, Part(q, 4 * first * heads * size),
            Part(weights, 4 * first * heads), keys, position, table, some, heads, size, capacity, CODES[keys.dtype],
            parts, blocks, first, count,
        )  # fmt: skip
        _PLACES.launch(
            some * length >> 9, Part(places, 4 * first * count), scores, position, some, length, first, count
        )  # fmt: skip
    return places
