"""Attention over keys and values in a cache."""

from __future__ import annotations

from math import sqrt

from ..declare import function
from ..numpy_arrays import array_of, tensor_of
from ..op import op, primitive
from ..tensor import Tensor
from ..user_errors import describe
from .full_attention import _attention, _check_heads
from .rotary import _check_position, _check_table, _rope


def check_cache(cache: Tensor, x: Tensor, position: Tensor) -> None:
    """x (T, KV, D) and cache (KV, capacity, D), position (1,); else ValueError."""
    _check_position(position)
    if x.ndim != 3 or cache.ndim != 3 or x.shape[1] != cache.shape[0] or x.shape[2] != cache.shape[2]:
        raise ValueError(f"cache_write: {describe(x)} is not (T, KV, D) for the cache {describe(cache)}")


@function()
@primitive(name="cache_write")
def cache_write(cache: Tensor, x: Tensor, position: Tensor) -> Tensor:
    """Writes x (T, KV, D) into cache (KV, capacity, D) at position[0] …, in place; returns the cache. IndexError past
    its end.
    """
    check_cache(cache, x, position)
    start, tokens = int(position.item()), x.shape[0]
    if start < 0 or start + tokens > cache.shape[1]:
        raise IndexError(
            f"cache_write: positions {start} .. {start + tokens - 1} are outside the cache of {cache.shape[1]}"
        )
    cache.array()[:, start : start + tokens] = tensor_of(array_of(x).swapaxes(0, 1), cache.dtype).array()
    cache.storage.version += 1
    return cache


@op()
def _cached_attention(q: Tensor, k_cache: Tensor, v_cache: Tensor, position: Tensor, scale: float) -> Tensor:
    end = int(position.item()) + q.shape[0]
    if not q.shape[0] <= end <= k_cache.shape[1]:
        raise IndexError(f"cached_attention: position {end - q.shape[0]} is outside the cache of {k_cache.shape[1]}")
    k, v = (c[:, :end].permute(1, 0, 2).unsqueeze(0) for c in (k_cache, v_cache))  # (1, S, KV, D)
    return _attention(q.unsqueeze(0), k, v, True, scale).squeeze(0)


@function()
def cached_attention(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, position: Tensor, scale: float | None = None
) -> Tensor:
    """Causal attention of q (T, H, D) at positions position[0] … over caches (KV, capacity, D) → (T, H, D)."""
    _check_heads(q, k_cache, v_cache, 0)
    _check_position(position)
    return _cached_attention(q, k_cache, v_cache, position, scale or 1.0 / sqrt(q.shape[-1]))


@op()
def _cached_self_attention(
    qkv: Tensor, table: Tensor, position: Tensor, keys: Tensor, values: Tensor, interleaved: bool, scale: float
) -> Tensor:
    kv_heads, _, size = keys.shape
    heads = qkv.shape[-1] // size - 2 * kv_heads
    x = qkv.reshape(qkv.shape[0], heads + 2 * kv_heads, size)  # (T, H + 2 KV, D)
    rotated = _rope(x[:, : heads + kv_heads], table, position, interleaved)
    cache_write(keys, rotated[:, heads:], position)
    cache_write(values, x[:, heads + kv_heads :], position)
    return _cached_attention(rotated[:, :heads], keys, values, position, scale).reshape(qkv.shape[0], heads * size)


@function()
def cached_self_attention(
    qkv: Tensor,
    table: Tensor,
    position: Tensor,
    keys: Tensor,
    values: Tensor,
    interleaved: bool = True,
    scale: float | None = None,
) -> Tensor:
    """Rotary self-attention over a cache, from one projection. qkv (T, (H + 2 KV) * D) = [q, k, v] is overwritten;
    caches (KV, capacity, D) are written at position[0] … → (T, H * D). IndexError past the end of the cache or the
    table.
    """
    _check_position(position)
    _check_table(table)
    size = keys.shape[-1]
    if 2 * table.shape[1] != size or keys.ndim != 3:
        raise ValueError(f"cached_self_attention: the table {describe(table)} does not fit caches {describe(keys)}")
    if qkv.ndim != 2 or qkv.shape[1] % size or qkv.shape[1] <= 2 * keys.shape[0] * size or keys.shape != values.shape:
        raise ValueError(
            f"cached_self_attention: {describe(qkv)} is not (T, (H + 2 KV) * D) for caches {describe(keys)}"
        )
    return _cached_self_attention(qkv, table, position, keys, values, interleaved, scale or 1.0 / sqrt(size))
