"""The indexer of sparse attention (DeepSeek-AI 2025, https://github.com/deepseek-ai/DeepSeek-V3.2-Exp), which chooses
the tokens that each attends to.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from .. import dtype as _dtype
from ..declare import function
from ..op import op
from ..tensor import Tensor
from ..user_errors import describe
from .create import arange
from .elementwise.select import where
from .kv_cache import check_cache
from .stacking import cat

NUMBERS = 1 << 24  # of scores that are in memory at a time


def pieces(tokens: int, numbers: int, most: int) -> Iterable[tuple[int, int]]:
    """The first of some of the tokens, and how many: of each there are `numbers` numbers, of all of them `most`."""
    some = max(1, most // max(numbers, 1))
    return ((first, min(some, tokens - first)) for first in range(0, tokens, some))


@op()
def _indexed_places(
    q: Tensor, weights: Tensor, keys: Tensor, position: Tensor, count: int, block_table: Tensor | None
) -> Tensor:
    tokens, heads, size = q._shape
    if block_table is not None:  # (blocks, 1, block, D) → (parts, 1, block, D)
        keys = keys.index_select(0, block_table.reshape(-1))
    memory = keys.reshape(-1, size).to(q.dtype).transpose(0, 1)  # (D, S)
    places = arange(memory._shape[1], dtype=_dtype.int32, device=q.device)
    own = (arange(tokens, dtype=_dtype.int32, device=q.device) + position).unsqueeze(1)  # (T, 1)
    found = []
    for first, some in pieces(tokens, heads * memory._shape[1], NUMBERS):
        scores = (q.narrow(0, first, some).reshape(-1, size) @ memory).relu().reshape(some, heads, -1)  # (t, H, S)
        total = (weights.narrow(0, first, some).unsqueeze(1) @ scores).squeeze(1)  # (t, S)
        total = where(places <= own.narrow(0, first, some), total, -inf)
        found.append(total.topk(count, -1)[1].to(_dtype.int32))
    return found[0] if len(found) == 1 else cat(found, 0)


@function()
def indexed_places(
    q: Tensor, weights: Tensor, keys: Tensor, position: Tensor, count: int, block_table: Tensor | None = None
) -> Tensor:
    """The places in a cache of the `count` tokens that score most for each of q (T, H, D) at position[0] …, in any
    order → (T, count) int32; all places before and some after its own where there are fewer. A score is the sum over
    the heads of weights (T, H) times the positive products with the keys (1, capacity, D), or with a block_table (1,
    parts) int32 (blocks, 1, capacity, D). ValueError where they do not fit, or where count is more than the places.
    """
    name = "indexed_places"
    if q.ndim != 3 or weights._shape != q._shape[:2] or keys.ndim < 3 or keys._shape[-3] != 1:
        raise ValueError(
            f"{name}: queries are (T, H, D), weights (T, H) and keys have one head, not {describe(q)}, "
            f"{describe(weights)} and {describe(keys)}"
        )
    check_cache(name, keys, (), q._shape[2], position, block_table)
    most = keys._shape[-2] * (1 if block_table is None else block_table._shape[1])
    if not 1 <= count <= most or not keys.dtype.is_floating_point:
        raise ValueError(f"{name}: count is 1 to the {most} places of floats, not {count} of {keys.dtype}")
    return _indexed_places(q, weights, keys, position, count, block_table)
