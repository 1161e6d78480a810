"""Attention, rotary positions and the key/value cache."""

from __future__ import annotations

from math import sqrt
from typing import Any

from .. import dtype as _dtype
from ..lazy import np
from ..op import describe, op, primitive
from ..tensor import Tensor, empty_contiguous
from .base import array_of, computed, tensor_of
from .elementwise import where
from .view import cat, stack


def rope_table(positions: int, head_dim: int, theta: float = 10000.0) -> Tensor:
    """cos and sin of the rotary angles (Su et al. 2021, arXiv 2104.09864): (positions, head_dim / 2, 2)."""
    from math import cos, sin

    half = head_dim // 2
    table = empty_contiguous((positions, half, 2), _dtype.float32)
    view = table.data_view()
    steps = [theta ** (-2.0 * i / head_dim) for i in range(half)]
    at = 0
    for position in range(positions):
        for step in steps:
            angle = position * step
            view[at] = cos(angle)
            view[at + 1] = sin(angle)
            at += 2
    return table


@op()
def _rope(x: Tensor, table: Tensor, position: Tensor | None, interleaved: bool) -> Tensor:
    """Rotates pairs of features of x (..., T, H, D) by the angles of their positions."""
    start = 0 if position is None else int(position.item())
    tokens, half = x.shape[-3], x.shape[-1] // 2
    if start < 0 or start + tokens > table.shape[0]:
        raise IndexError(f"rope: positions {start} .. {start + tokens - 1} are outside the table of {table.shape[0]}")
    angles = table[start : start + tokens].unsqueeze(1)  # (T, 1, D / 2, 2)
    cos, sin = angles[..., 0], angles[..., 1]
    if interleaved:
        pairs = x.reshape(*x.shape[:-1], half, 2)
        a, b = pairs[..., 0], pairs[..., 1]
        return stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)
    a, b = x[..., :half], x[..., half:]
    return cat([a * cos - b * sin, a * sin + b * cos], -1)


@_rope.gradient
def _d_rope(g: Tensor, _: Any, x: Tensor, table: Tensor, position: Tensor | None, interleaved: bool) -> Any:
    """A rotation's gradient is the rotation back."""
    back = table.detach().clone()
    back[..., 1] = -table.detach()[..., 1]
    return (_rope(g, back, position, interleaved),)


def rope(x: Tensor, table: Tensor, position: Tensor | None = None, interleaved: bool = True) -> Tensor:
    """Rotary position embedding of x (..., T, H, D) with `table` from rope_table; row t stands at position[0] + t.

    interleaved: pairs are neighbours (Meta's and llama2.c's layout), else halves (Hugging Face's).
    """
    _check_table(table)
    if x.ndim < 3 or x.shape[-1] != 2 * table.shape[1]:
        raise ValueError(f"rope: {describe(x)} is not (..., T, H, {2 * table.shape[1]}) as the table asks")
    if position is not None:
        _check_position(position)
    return _rope(x, table, position, interleaved)


def _check_position(position: Tensor) -> None:
    if position.shape != (1,) or position.dtype.category != 1:
        raise ValueError(f"the position is one integer, (1,), not {describe(position)}")


def _check_table(table: Tensor) -> None:
    if table.ndim != 3 or table.shape[2] != 2:
        raise ValueError(f"a table is (P, D / 2, 2), not {describe(table)}")


def _check_heads(q: Tensor, k: Tensor, v: Tensor, axis: int) -> None:
    rank = 4 if axis == 2 else 3
    if q.ndim != rank or k.ndim != rank:
        raise ValueError(f"attention: takes tensors of {rank} dims, got q {describe(q)} and k {describe(k)}")
    if k.shape != v.shape or q.shape[-1] != k.shape[-1] or k.shape[axis] == 0 or q.shape[-2] % k.shape[axis]:
        raise ValueError(f"attention: q {describe(q)}, k {describe(k)} and v {describe(v)} do not fit together")


@op()
def _attention(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> Tensor:
    """softmax(q kᵀ scale + mask) v for q (B, T, H, D), k and v (B, S, KV, D)."""
    batch, tokens, heads, size = q.shape
    keys, kv_heads = k.shape[1], k.shape[2]
    group = heads // kv_heads
    q5 = q.permute(0, 2, 1, 3).reshape(batch, kv_heads, group, tokens, size)
    k5 = k.permute(0, 2, 3, 1).unsqueeze(2)  # (B, KV, 1, D, S)
    v5 = v.permute(0, 2, 1, 3).unsqueeze(2)  # (B, KV, 1, S, D)
    scores = (q5 @ k5) * scale  # (B, KV, G, T, S)
    if causal:
        scores = where(causal_mask(tokens, keys), scores, float("-inf"))
    mixed = scores.softmax(-1) @ v5  # (B, KV, G, T, D)
    return mixed.reshape(batch, heads, tokens, size).permute(0, 2, 1, 3)


def causal_mask(tokens: int, keys: int) -> Tensor:
    """(T, S) bool: row t sees keys up to its own, the last row all of them."""
    return tensor_of(np.tri(tokens, keys, keys - tokens, dtype=bool))


def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool = True, scale: float | None = None) -> Tensor:
    """Scaled dot-product attention (Vaswani et al. 2017, arXiv 1706.03762) with grouped heads.

    q (B, T, H, D), k and v (B, S, KV, D) with H a multiple of KV → (B, T, H, D). scale defaults to 1 / sqrt(D).
    """
    _check_heads(q, k, v, 2)
    if q.shape[0] != k.shape[0]:
        raise ValueError(f"attention: takes (B, T, H, D), got q {describe(q)} and k {describe(k)}")
    return _attention(q, k, v, causal, scale or 1.0 / sqrt(q.shape[-1]))


def check_cache(cache: Tensor, x: Tensor, position: Tensor) -> None:
    """x (T, KV, D) and cache (KV, capacity, D), position (1,); else ValueError."""
    _check_position(position)
    if x.ndim != 3 or cache.ndim != 3 or x.shape[1] != cache.shape[0] or x.shape[2] != cache.shape[2]:
        raise ValueError(f"cache_write: {describe(x)} is not (T, KV, D) for the cache {describe(cache)}")


@primitive(name="cache_write", method=False)
def cache_write(cache: Tensor, x: Tensor, position: Tensor) -> Tensor:
    """Writes x (T, KV, D) into cache (KV, capacity, D) at position[0] …, in place; returns the cache. IndexError past
    its end.
    """
    check_cache(cache, x, position)
    computed("cache_write")
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


def cached_attention(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, position: Tensor, scale: float | None = None
) -> Tensor:
    """Causal attention of q (T, H, D) at positions position[0] … over caches (KV, capacity, D) → (T, H, D)."""
    _check_heads(q, k_cache, v_cache, 0)
    _check_position(position)
    return _cached_attention(q, k_cache, v_cache, position, scale or 1.0 / sqrt(q.shape[-1]))


@op()
def _cross_attention(q: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    k, v = (c.permute(1, 0, 2).unsqueeze(0) for c in (keys, values))  # (1, S, KV, D)
    return _attention(q.unsqueeze(0), k, v, False, scale).squeeze(0)


def cross_attention(q: Tensor, keys: Tensor, values: Tensor, scale: float | None = None) -> Tensor:
    """q (T, H, D) attends to all of another sequence, laid out as a cache: keys and values (KV, S, D) → (T, H, D)."""
    _check_heads(q, keys, values, 0)
    return _cross_attention(q, keys, values, scale or 1.0 / sqrt(q.shape[-1]))


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


def cached_self_attention(
    qkv: Tensor,
    table: Tensor,
    position: Tensor,
    keys: Tensor,
    values: Tensor,
    interleaved: bool = True,
    scale: float | None = None,
) -> Tensor:
    """Rotary self-attention over a cache, from one projection. qkv (T, (H + 2 KV) * D) = [q, k, v], used up; caches
    (KV, capacity, D), written at position[0] … → (T, H * D). IndexError past the end of the cache or the table."""
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
