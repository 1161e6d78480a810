"""Biases of attention by the distance of key and query: in buckets (Raffel et al. 2019, arXiv 1910.10683), or each
(Dai et al. 2019, arXiv 1901.02860).
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from ...engine.grad_mode import STATE
from ...engine.lazy import np


def distance_buckets(
    tokens: int, keys: int, buckets: int, most: int, both_sides: bool = True, first: int = 0
) -> Tensor:
    """The bucket (T, S) int32 of key s for the query at position `first` + t.

    The nearer half of the buckets hold one distance each, the others ranges that grow up to the distance `most`. With
    `both_sides`, keys after the query have the second half of all buckets; without, they count as the distance 0. If
    `most` is not above the nearer half, so that the ranges have no size, distances without a range have the last
    bucket.
    """
    if STATE.traced:  # by ops, so that it is known how the buckets follow from T and S
        far = max(most, buckets)  # all distances beyond it are in one bucket
        table = ops.from_numpy(_buckets(np.arange(-far, far + 1), buckets, most, both_sides))  # (2 far + 1,)
        apart = ops.arange(keys) - (ops.arange(tokens) + first).unsqueeze(1)  # (T, S)
        return table.index_select(0, (apart.clamp(-far, far) + far).reshape(-1)).reshape(tokens, keys)
    after = np.arange(keys)[None, :] - (first + np.arange(tokens))[:, None]  # (T, S)
    return ops.from_numpy(_buckets(after, buckets, most, both_sides))


def _buckets(after: Any, buckets: int, most: int, both_sides: bool) -> Any:
    """The buckets, int32, of distances: key - query."""
    start = np.zeros_like(after)
    if both_sides:
        buckets //= 2
        start = (after > 0) * buckets
        far = np.abs(after)
    else:
        far = np.maximum(-after, 0)
    exact = buckets // 2
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.log(far.astype(np.float32) / np.float32(exact)) / np.float32(np.log(most / exact))
        ranges = np.trunc(ratio * np.float32(buckets - exact)) + exact
    large = np.where((ranges >= 0) & (ranges < buckets), ranges, buckets - 1)
    found = start + np.where(far < exact, far, large.astype(np.int64))
    return found.astype(np.int32)


def distance_bias(table: Tensor, buckets: Tensor) -> Tensor:
    """Rows of table (buckets, H) by the buckets (T, S) → (1, H, T, S), to add to scores."""
    return ops.embedding(table, buckets.to(table.device)).permute(2, 0, 1).unsqueeze(0)


def by_distance(scores: Tensor) -> Tensor:
    """Scores (B, H, T, 2 T - 1) of queries and distances to keys, from T - 1 before them down to 1 - T, → (B, H, T, T)
    of queries and keys.
    """
    batch, heads, tokens, count = scores.shape
    x = ops.pad(scores, (1, 0)).reshape(batch, heads, count + 1, tokens)
    x = x.narrow(2, 1, count).reshape(batch, heads, tokens, count)
    return x.narrow(3, 0, tokens)
