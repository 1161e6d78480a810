"""Attention, rotary positions and the key/value cache."""

from __future__ import annotations

from math import sqrt
from typing import Any

from .. import dtype as _dtype
from ..autograd import STATE
from ..lazy import np
from ..op import describe, op, primitive
from ..tensor import Tensor, empty_contiguous
from .base import array_of, computed, definition_gradient, tensor_of
from .elementwise import where
from .view import cat, stack


def rope_table(positions: int, head_dim: int, theta: float = 10000.0) -> Tensor:
    """cos and sin of the rotary angles (Su et al. 2021, arXiv 2104.09864): (positions, head_dim / 2, 2), made without NumPy."""
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
        return stack([a * cos - b * sin, a * sin + b * cos], -1).reshape(x.shape)  # type: ignore[no-any-return]
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
    if x.ndim < 3 or x.shape[-1] != 2 * table.shape[1]:
        raise ValueError(f"rope: {describe(x)} is not (..., T, H, {2 * table.shape[1]}) as the table asks")
    return _rope(x, table, position, interleaved)  # type: ignore[no-any-return]


def _check_heads(q: Tensor, k: Tensor, v: Tensor, axis: int) -> None:
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


@_attention.gradient
def _d_attention(g: Tensor, _: Any, q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> Any:
    """One batch entry at a time, so that its (H, T, S) scores stay in the cache; probabilities are computed again."""
    if q.dtype is not _dtype.float32 or STATE.enabled:
        return definition_gradient(_attention, g, q, k, v, causal, scale)
    batch, tokens, heads, size = q.shape
    keys, kv_heads = k.shape[1], k.shape[2]
    shape_q = (kv_heads, heads // kv_heads, tokens, size)
    ga, qa, ka, va = (array_of(t) for t in (g, q, k, v))
    grads = [np.empty(t.shape, np.float32) for t in (q, k, v)]
    hidden = np.triu(np.ones((tokens, keys), bool), keys - tokens + 1) if causal else None
    for b in range(batch):
        gb, qb = (a[b].transpose(1, 0, 2).reshape(shape_q) for a in (ga, qa))
        kb, vb = (np.ascontiguousarray(a[b].transpose(1, 0, 2))[:, None] for a in (ka, va))  # (KV, 1, S, D)
        p = np.matmul(qb * np.float32(scale), kb.swapaxes(-1, -2))  # (KV, G, T, S)
        if hidden is not None:
            p[..., hidden] = -np.inf
        p -= p.max(-1, keepdims=True)
        np.exp(p, out=p)
        p /= p.sum(-1, keepdims=True)
        ds = np.matmul(gb, vb.swapaxes(-1, -2))
        ds -= (ds * p).sum(-1, keepdims=True)
        ds *= p
        ds *= np.float32(scale)
        grads[0][b] = np.matmul(ds, kb).reshape(heads, tokens, size).transpose(1, 0, 2)
        grads[1][b] = np.matmul(ds.swapaxes(-1, -2), qb).sum(1).transpose(1, 0, 2)
        grads[2][b] = np.matmul(p.swapaxes(-1, -2), gb).sum(1).transpose(1, 0, 2)
    return tuple(tensor_of(a) for a in grads)


def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool = True, scale: float | None = None) -> Tensor:
    """Scaled dot-product attention (Vaswani et al. 2017, arXiv 1706.03762) with grouped heads.

    q (B, T, H, D), k and v (B, S, KV, D) with H a multiple of KV → (B, T, H, D). scale defaults to 1 / sqrt(D).
    """
    _check_heads(q, k, v, 2)
    if q.ndim != 4 or k.ndim != 4 or q.shape[0] != k.shape[0]:
        raise ValueError(f"attention: takes (B, T, H, D), got q {describe(q)} and k {describe(k)}")
    return _attention(q, k, v, causal, scale or 1.0 / sqrt(q.shape[-1]))  # type: ignore[no-any-return]


@primitive(name="cache_write", method=False)
def cache_write(cache: Tensor, x: Tensor, position: Tensor) -> Tensor:
    """Writes x (T, KV, D) into cache (KV, capacity, D) at position[0] …, in place; returns the cache. IndexError past its end."""
    computed("cache_write")
    start, tokens = int(position.item()), x.shape[0]
    if start < 0 or start + tokens > cache.shape[1]:
        raise IndexError(f"cache_write: positions {start} .. {start + tokens - 1} are outside the cache of {cache.shape[1]}")
    cache.array()[:, start : start + tokens] = tensor_of(array_of(x).swapaxes(0, 1), cache.dtype).array()
    cache.storage.version += 1
    return cache


@op()
def _cached_attention(q: Tensor, k_cache: Tensor, v_cache: Tensor, position: Tensor, scale: float) -> Tensor:
    end = int(position.item()) + q.shape[0]
    if not q.shape[0] <= end <= k_cache.shape[1]:
        raise IndexError(f"cached_attention: position {end - q.shape[0]} is outside the cache of {k_cache.shape[1]}")
    k, v = (c[:, :end].permute(1, 0, 2).unsqueeze(0) for c in (k_cache, v_cache))  # (1, S, KV, D)
    return _attention(q.unsqueeze(0), k, v, True, scale).squeeze(0)  # type: ignore[no-any-return]


def cached_attention(q: Tensor, k_cache: Tensor, v_cache: Tensor, position: Tensor, scale: float | None = None) -> Tensor:
    """Causal attention of q (T, H, D) at positions position[0] … over caches (KV, capacity, D) → (T, H, D)."""
    _check_heads(q, k_cache, v_cache, 0)
    return _cached_attention(q, k_cache, v_cache, position, scale or 1.0 / sqrt(q.shape[-1]))  # type: ignore[no-any-return]
