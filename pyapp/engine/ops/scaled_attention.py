"""scaled_dot_product_attention in torch's layout, heads before tokens; with soft caps and windows."""

from __future__ import annotations

from math import sqrt
from typing import Any

from .. import dtype as _dtype
from ..lazy import np
from ..op import describe
from ..tensor import Tensor
from .attention import _attention
from .base import tensor_of
from .elementwise import where
from .view import reshape, transpose


def _visible(tokens: int, keys: int, causal: bool, window: int | tuple[int, int] | None) -> Tensor | None:
    """(L, S) bool, or None where all is seen. Row t of `causal` sees the first t + 1 keys, as in torch; a window counts
    from there.
    """
    if not causal and window is None:
        return None
    apart = np.arange(keys) - np.arange(tokens)[:, None]
    seen = apart <= 0 if causal else np.ones((tokens, keys), dtype=bool)
    if window is not None:
        before, after = (window, window) if isinstance(window, int) else window
        if before >= 0:
            seen = seen & (apart >= -before)
        if after >= 0:
            seen = seen & (apart <= after)
    return tensor_of(seen)


def _check(q: Tensor, k: Tensor, v: Tensor, grouped: bool) -> None:
    fit = (
        min(q.ndim, k.ndim, v.ndim) >= 2
        and q.shape[-1] == k.shape[-1]
        and k.shape[-2] == v.shape[-2]
        and (not grouped or (q.ndim >= 3 and k.shape[-3] > 0 and q.shape[-3] % k.shape[-3] == 0))
        and (not grouped or k.shape[-3] == v.shape[-3])
    )
    if not fit:
        raise ValueError(
            f"scaled_dot_product_attention: query {describe(q)}, key {describe(k)} and value {describe(v)} do not fit"
        )


def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False, *, softcap: float | None = None,
    window: int | tuple[int, int] | None = None, generator: Any = None,
) -> Tensor:  # fmt: skip
    """softmax(query keyᵀ scale + mask) value (Vaswani et al. 2017, arXiv 1706.03762).

    query (..., H, L, E), key (..., H, S, E), value (..., H, S, Ev) → (..., H, L, Ev); with `enable_gqa` key and
    value may have fewer heads, each for a group of the query's. attn_mask: bool, True where one may look, or added to
    the scores.
    `softcap` c limits scores to c tanh(score / c) (Gemma 2); `window` w (or (before, after), -1: no limit) hides keys
    that are further away. scale defaults to 1 / sqrt(E). A row that sees nothing gives 0, as in torch.
    """
    _check(query, key, value, enable_gqa)
    if is_causal and attn_mask is not None:
        raise ValueError("scaled_dot_product_attention: give attn_mask or is_causal, not both")
    factor = 1.0 / sqrt(query.shape[-1]) if scale is None else scale
    tokens, keys = query.shape[-2], key.shape[-2]
    plain = attn_mask is None and not dropout_p and softcap is None and window is None
    same = query.ndim == key.ndim == value.ndim == 4 and key.shape == value.shape and query.shape[0] == key.shape[0]
    grouped = same and (query.shape[1] == key.shape[1] or enable_gqa)
    if plain and grouped and (not is_causal or tokens == keys) and query.shape[-1] == value.shape[-1]:
        return _attention(*(t.transpose(1, 2) for t in (query, key, value)), is_causal, factor).transpose(1, 2)
    if enable_gqa:
        return _grouped(query, key, value, attn_mask, dropout_p, is_causal, factor, softcap, window, generator)
    return _weighed(
        query, key, value, attn_mask, _visible(tokens, keys, is_causal, window), dropout_p, factor, softcap, generator
    )  # fmt: skip


def _grouped(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float, causal: bool, factor: float,
    softcap: float | None, window: Any, generator: Any,
) -> Tensor:  # fmt: skip
    heads, kv_heads = q.shape[-3], k.shape[-3]
    group = heads // kv_heads
    wide = reshape(q, (*q.shape[:-3], kv_heads, group, *q.shape[-2:]))
    if mask is not None and mask.ndim >= 3:
        own = mask.shape[-3]
        parts = (1, 1) if own == 1 else (kv_heads, group)
        mask = reshape(mask, (*mask.shape[:-3], *parts, *mask.shape[-2:]))
    seen = _visible(q.shape[-2], k.shape[-2], causal, window)
    y = _weighed(wide, k.unsqueeze(-3), v.unsqueeze(-3), mask, seen, dropout_p, factor, softcap, generator)
    return reshape(y, (*y.shape[:-4], heads, *y.shape[-2:]))


def _weighed(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, seen: Tensor | None, dropout_p: float, factor: float,
    softcap: float | None, generator: Any,
) -> Tensor:  # fmt: skip
    from .random import rand

    scores = (q @ transpose(k, -1, -2)) * factor  # (..., H, L, S)
    if softcap is not None:
        scores = (scores / softcap).tanh() * softcap
    if mask is not None and mask.dtype is _dtype.bool_:
        scores = where(mask, scores, float("-inf"))
    elif mask is not None:
        scores = scores + mask
    if seen is not None:
        scores = where(seen, scores, float("-inf"))
    weights = scores.softmax(-1)
    if mask is not None or seen is not None:  # a row that sees nothing
        weights = where(scores.detach() == float("-inf"), 0.0, weights)
    if dropout_p:
        kept = rand(weights.shape, generator=generator) >= dropout_p
        weights = weights * (kept.to(weights.dtype) * (1 / (1 - dropout_p)))
    return weights @ v
