"""scaled_dot_product_attention in torch's layout, heads before tokens; with soft caps and windows."""

from __future__ import annotations

from math import sqrt
from typing import Any

from .. import dtype as _dtype
from ..autograd import STATE
from ..declare import function
from ..tensor import Tensor, make
from ..user_errors import describe
from .full_attention import UNLIMITED, _attention, _masked_attention, seen_keys, weighed
from .view import _permute, reshape


def _limits(causal: bool, window: int | tuple[int, int] | None) -> tuple[int, int]:
    """(before, after): row t attends to keys t - before .. t + after. With `causal` to none after t, as in torch."""
    before, after = (window, window) if isinstance(window, int) else (-1, -1) if window is None else window
    before, after = (UNLIMITED if n < 0 else n for n in (before, after))
    return before, min(after, 0) if causal else after


def _seen(tokens: int, keys: int, causal: bool, window: int | tuple[int, int] | None, device: Any) -> Tensor | None:
    """(L, S) bool, or None if nothing is masked."""
    if not causal and window is None:
        return None
    return seen_keys(tokens, keys, *_limits(causal, window), device)


def _has_heads(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, grouped: bool) -> bool:
    """Whether (..., H, L, E) are at most one batch of heads, with a mask that broadcasts to them: _masked_attention."""
    rank = q.ndim
    if rank > 4 or k.ndim != rank or v.ndim != rank or k._shape[:-1] != v._shape[:-1]:
        return False
    if q._shape[:-2] != k._shape[:-2] and not (grouped and q._shape[:-3] == k._shape[:-3]):
        return False
    if mask is None:
        return True
    wanted = (*q._shape[:-1], k._shape[-2])
    fits = mask.ndim <= rank and all(n in (1, m) for n, m in zip(mask._shape[::-1], wanted[::-1], strict=False))
    return fits and (mask.dtype is _dtype.bool_ or mask.dtype.is_floating_point)


def _four(x: Tensor) -> Tensor:
    """x with leading dims of size one, up to four dims."""
    return x if x.ndim == 4 else reshape(x, (1,) * (4 - x.ndim) + x._shape)


def _swapped(x: Tensor) -> Tensor:
    """(B, H, T, D) → (B, T, H, D), and back."""
    return _permute.call(x, (0, 2, 1, 3))


def _tokens_first(x: Tensor, learns: bool) -> Tensor:
    """(..., H, T, D), up to four dims, → (B, T, H, D)."""
    if learns:
        return _swapped(_four(x))
    shape, strides = x._shape, x.strides  # without views that autograd would follow
    while len(shape) < 4:
        shape, strides = (1, *shape), (0, *strides)
    (b, h, t, d), (of_b, of_h, of_t, of_d) = shape, strides
    return make(x._storage, (b, t, h, d), (of_b, of_t, of_h, of_d), x.dtype, x.offset)


def _heads_first(y: Tensor, shape: tuple[int, ...], learns: bool) -> Tensor:
    """(B, T, H, D), which is new, → (..., H, T, D)."""
    if learns:
        y = _swapped(y)
        return y if len(shape) == 4 else reshape(y, shape)
    b, t, h, d = y.strides
    return make(y._storage, shape, (b, h, t, d)[-len(shape) :], y.dtype, y.offset)


def _check(q: Tensor, k: Tensor, v: Tensor, grouped: bool) -> None:
    fit = (
        min(q.ndim, k.ndim, v.ndim) >= 2
        and q._shape[-1] == k._shape[-1]
        and k._shape[-2] == v._shape[-2]
        and (not grouped or (q.ndim >= 3 and k._shape[-3] > 0 and q._shape[-3] % k._shape[-3] == 0))
        and (not grouped or k._shape[-3] == v._shape[-3])
    )
    if not fit:
        raise ValueError(
            f"scaled_dot_product_attention: query {describe(q)}, key {describe(k)} and value {describe(v)} do not fit"
        )


@function()
def scaled_dot_product_attention(
    query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None = None, dropout_p: float = 0.0,
    is_causal: bool = False, scale: float | None = None, enable_gqa: bool = False, *, softcap: float | None = None,
    window: int | tuple[int, int] | None = None, generator: Any = None,
) -> Tensor:  # fmt: skip
    """softmax(query keyᵀ scale + mask) value (Vaswani et al. 2017, arXiv 1706.03762).

    query (..., H, L, E), key (..., H, S, E), value (..., H, S, Ev) → (..., H, L, Ev); with `enable_gqa` key and
    value may have fewer heads, each for a group of the query's. attn_mask: bool, True where attention is allowed, or
    added to the scores; with `is_causal` both count.
    `softcap` c limits scores to c tanh(score / c) (Gemma 2); `window` w (or (before, after), -1: no limit) hides keys
    that are further away. scale defaults to 1 / sqrt(E). A row without any visible key gives 0, as in torch.
    """
    _check(query, key, value, enable_gqa)
    factor = 1.0 / sqrt(query._shape[-1] or 1) if scale is None else scale
    tokens, keys = query._shape[-2], key._shape[-2]
    if not dropout_p and _has_heads(query, key, value, attn_mask, enable_gqa):
        learns = STATE.enabled and (query._requires_grad or key._requires_grad or value._requires_grad)
        learns = learns or STATE.traced or not query.dense  # by views that an observer sees, or a DTensor divides
        q, k, v = (_tokens_first(t, learns) for t in (query, key, value))
        if (
            attn_mask is None
            and window is None
            and softcap is None
            and k._shape == v._shape
            and (not is_causal or tokens == keys)
        ):
            y = _attention(q, k, v, is_causal, factor)
        else:
            mask = None if attn_mask is None else _four(attn_mask)
            learns = learns or (mask is not None and mask._requires_grad)
            y = _masked_attention(q, k, v, mask, *_limits(is_causal, window), factor, softcap)
        return _heads_first(y, (*query._shape[:-1], value._shape[-1]), learns)
    if enable_gqa:
        return _grouped(query, key, value, attn_mask, dropout_p, is_causal, factor, softcap, window, generator)
    seen = _seen(tokens, keys, is_causal, window, query.device)
    return weighed(query, key, value, attn_mask, seen, dropout_p, factor, softcap, generator)


def _grouped(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, dropout_p: float, causal: bool, factor: float,
    softcap: float | None, window: Any, generator: Any,
) -> Tensor:  # fmt: skip
    heads, kv_heads = q._shape[-3], k._shape[-3]
    group = heads // kv_heads
    wide = reshape(q, (*q._shape[:-3], kv_heads, group, *q._shape[-2:]))
    if mask is not None and mask.ndim >= 3:
        own = mask._shape[-3]
        parts = (1, 1) if own == 1 else (kv_heads, group)
        mask = reshape(mask, (*mask._shape[:-3], *parts, *mask._shape[-2:]))
    seen = _seen(q._shape[-2], k._shape[-2], causal, window, q.device)
    y = weighed(wide, k.unsqueeze(-3), v.unsqueeze(-3), mask, seen, dropout_p, factor, softcap, generator)
    return reshape(y, (*y._shape[:-4], heads, *y._shape[-2:]))
