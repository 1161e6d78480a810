"""Attention over whole sequences: q (B, T, H, D), k and v (B, T, KV, D)."""

from __future__ import annotations

from math import sqrt
from typing import Any

from .. import dtype as _dtype
from ..declare import function
from ..lazy import np
from ..numpy_arrays import tensor_of
from ..op import op
from ..tensor import Tensor
from ..user_errors import describe
from .composite_gradient import fused_gradient
from .elementwise.select import where
from .random import rand
from .view import transpose


def _check_heads(q: Tensor, k: Tensor, v: Tensor, axis: int) -> None:
    rank = 4 if axis == 2 else 3
    if q.ndim != rank or k.ndim != rank:
        raise ValueError(f"attention: takes tensors of {rank} dims, got q {describe(q)} and k {describe(k)}")
    if k.shape != v.shape or q.shape[-1] != k.shape[-1] or k.shape[axis] == 0 or q.shape[-2] % k.shape[axis]:
        raise ValueError(f"attention: q {describe(q)}, k {describe(k)} and v {describe(v)} do not fit together")


def visible(tokens: int, keys: int, before: int, after: int) -> Any:
    """Array (T, S) bool: row t attends to the keys t - before .. t + after."""
    apart = np.arange(keys) - np.arange(tokens)[:, None]
    return (apart >= -before) & (apart <= after)


def weighed(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, seen: Tensor | None, dropout_p: float, factor: float,
    softcap: float | None, generator: Any,
) -> Tensor:  # fmt: skip
    """softmax(q kᵀ factor + mask) v for q (..., T, D), k (..., S, D), v (..., S, Dv); seen (T, S) bool. With a mask, a
    row without any visible key gives 0, and gradients of 0.
    """
    scores = (q @ transpose(k, -1, -2)) * factor  # (..., T, S)
    if softcap is not None:
        scores = (scores / softcap).tanh() * softcap
    if mask is not None and mask.dtype is _dtype.bool_:
        scores = where(mask, scores, float("-inf"))
    elif mask is not None:
        scores = scores + mask
    if seen is not None:
        scores = where(seen, scores, float("-inf"))
    if (mask is None and seen is None) or not scores.numel():
        weights = scores.softmax(-1)
    else:
        blind = scores.detach().amax(-1, True) == float("-inf")  # (..., T, 1)
        weights = where(blind, 0.0, where(blind, 0.0, scores).softmax(-1))
    if dropout_p:
        kept = rand(weights.shape, generator=generator, device=weights.device) >= dropout_p
        weights = weights * (kept.to(weights.dtype) * (1 / (1 - dropout_p)))
    return weights.to(v.dtype) @ v


@op()
def _masked_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, before: int, after: int, scale: float
) -> Tensor:
    """softmax(q kᵀ scale + mask) v for q (B, T, H, D), k (B, S, KV, D) and v (B, S, KV, Dv) → (B, T, H, Dv).

    mask: four dims that broadcast to (B, H, T, S), bool (True: row t attends to key s) or floats, which are added. Row
    t attends only to keys t - before .. t + after. A row without any visible key gives 0.
    """
    batch, tokens, heads, size = q.shape
    keys, kv_heads = k.shape[1], k.shape[2]
    group = heads // kv_heads
    q5 = q.permute(0, 2, 1, 3).reshape(batch, kv_heads, group, tokens, size)
    k5, v5 = (x.permute(0, 2, 1, 3).unsqueeze(2) for x in (k, v))  # (B, KV, 1, S, D) and (B, KV, 1, S, Dv)
    if mask is not None:
        parts = (kv_heads, group) if mask.shape[1] != 1 else (1, 1)
        mask = mask.reshape((mask.shape[0], *parts, *mask.shape[2:]))
    limited = before < tokens - 1 or after < keys - 1
    seen = tensor_of(visible(tokens, keys, before, after)).to(q.device) if limited else None
    mixed = weighed(q5, k5, v5, mask, seen, 0.0, scale, None, None)  # (B, KV, G, T, Dv)
    return mixed.reshape(batch, heads, tokens, v.shape[3]).permute(0, 2, 1, 3)


masked_attention_backward = fused_gradient(_masked_attention)


@op()
def _attention(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> Tensor:
    """softmax(q kᵀ scale + mask) v for q (B, T, H, D), k and v (B, S, KV, D). causal: the last row attends
    to all keys.
    """
    tokens, keys = q.shape[1], k.shape[1]
    definition: Any = _masked_attention.definition
    result: Tensor = definition(q, k, v, None, tokens, keys - tokens if causal else keys, scale)
    return result


attention_backward = fused_gradient(_attention)


@function()
def causal_mask(tokens: int, keys: int) -> Tensor:
    """(T, S) bool: row t attends to keys up to its own position, the last row to all of them."""
    return tensor_of(np.tri(tokens, keys, keys - tokens, dtype=bool))


@function()
def attention(q: Tensor, k: Tensor, v: Tensor, causal: bool = True, scale: float | None = None) -> Tensor:
    """Scaled dot-product attention (Vaswani et al. 2017, arXiv 1706.03762) with grouped heads.

    q (B, T, H, D), k and v (B, S, KV, D) with H a multiple of KV → (B, T, H, D). scale defaults to 1 / sqrt(D).
    """
    _check_heads(q, k, v, 2)
    if q.shape[0] != k.shape[0]:
        raise ValueError(f"attention: takes (B, T, H, D), got q {describe(q)} and k {describe(k)}")
    return _attention(q, k, v, causal, scale or 1.0 / sqrt(q.shape[-1]))


@op()
def _cross_attention(q: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    k, v = (c.permute(1, 0, 2).unsqueeze(0) for c in (keys, values))  # (1, S, KV, D)
    return _attention(q.unsqueeze(0), k, v, False, scale).squeeze(0)


@function()
def cross_attention(q: Tensor, keys: Tensor, values: Tensor, scale: float | None = None) -> Tensor:
    """Attention of q (T, H, D) to all of another sequence, in the layout of a cache: keys and values (KV, S, D) → (T,
    H, D).
    """
    _check_heads(q, keys, values, 0)
    return _cross_attention(q, keys, values, scale or 1.0 / sqrt(q.shape[-1]))
