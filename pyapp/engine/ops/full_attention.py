"""Attention over whole sequences: q (B, T, H, D), k and v (B, T, KV, D)."""

from __future__ import annotations

from math import sqrt
from typing import Any

from .. import dtype as _dtype
from ..autocast import lower_precision
from ..autograd import STATE
from ..declare import function
from ..lazy import np
from ..numpy_arrays import tensor_of
from ..op import op
from ..tensor import Tensor
from ..user_errors import describe
from .composite_gradient import fused_gradient
from .create import arange, zeros
from .elementwise.select import where
from .random import rand
from .stacking import cat
from .view import transpose


def _check_heads(q: Tensor, k: Tensor, v: Tensor, axis: int) -> None:
    rank = 4 if axis == 2 else 3
    if q.ndim != rank or k.ndim != rank:
        raise ValueError(f"attention: takes tensors of {rank} dims, got q {describe(q)} and k {describe(k)}")
    fit = (
        k._shape[:-1] == v._shape[:-1]
        and q._shape[-1] == k._shape[-1]
        and k._shape[axis]
        and not q._shape[-2] % k._shape[axis]
    )
    if not fit or (axis == 0 and k._shape != v._shape):
        raise ValueError(f"attention: q {describe(q)}, k {describe(k)} and v {describe(v)} do not fit together")


def check_score_options(
    name: str, heads: int, window: int | None, softcap: float | None, slopes: Tensor | None, sinks: Tensor | None
) -> None:
    """ValueError for options of attention that mean nothing."""
    if window is not None and (type(window) is not int or window < 1):
        raise ValueError(f"{name}: window is {window!r}, expected the number of keys that a row sees, 1 or more")
    if softcap is not None and not 0 < softcap < float("inf"):
        raise ValueError(f"{name}: softcap is {softcap!r}, expected a positive number")
    for option, values in (("slopes", slopes), ("sinks", sinks)):
        if values is not None and values._shape != (heads,):
            raise ValueError(f"{name}: {option} are one for each of the {heads} heads, not {describe(values)}")


UNLIMITED = 2**40  # a number of keys before or after a row, of which it sees all


def visible(tokens: int, keys: int, before: int, after: int) -> Any:
    """Array (T, S) bool: row t attends to the keys t - before .. t + after."""
    apart = np.arange(keys) - np.arange(tokens)[:, None]
    return (apart >= -before) & (apart <= after)


def seen_keys(tokens: int, keys: int, before: int, after: int, device: Any) -> Tensor:
    """`visible` as a tensor; by ops while a call is written down, so that it is known how it follows from T and S."""
    if not STATE.traced:
        return tensor_of(visible(tokens, keys, before, after)).to(device)
    apart = arange(keys, device=device) - arange(tokens, device=device).reshape(-1, 1)  # (T, S)
    if before >= UNLIMITED:
        return apart <= after
    return apart >= -before if after >= UNLIMITED else (apart >= -before) & (apart <= after)


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
        drawn = rand(weights.shape, generator=generator, device=weights.device)
        kept = weights._beside(drawn, random=True) >= dropout_p
        weights = weights * (kept.to(weights.dtype) * (1 / (1 - dropout_p)))
    return weights.to(v.dtype) @ v


@op(saves="both", autocast=lower_precision)
def _masked_attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, before: int, after: int, scale: float,
    softcap: float | None = None,
) -> Tensor:  # fmt: skip
    """softmax(q kᵀ scale + mask) v for q (B, T, H, D), k (B, S, KV, D) and v (B, S, KV, Dv) → (B, T, H, Dv). softcap c
    turns scores into c tanh(score / c) before the mask.

    mask: four dims that broadcast to (B, H, T, S), bool (True: row t attends to key s) or floats, which are added. Row
    t attends only to keys t - before .. t + after. A row without any visible key gives 0.
    """
    batch, tokens, heads, size = q._shape
    keys, kv_heads = k._shape[1], k._shape[2]
    group = heads // kv_heads
    q5 = q.permute(0, 2, 1, 3).reshape(batch, kv_heads, group, tokens, size)
    k5, v5 = (x.permute(0, 2, 1, 3).unsqueeze(2) for x in (k, v))  # (B, KV, 1, S, D) and (B, KV, 1, S, Dv)
    if mask is not None:
        parts = (kv_heads, group) if mask._shape[1] != 1 else (1, 1)
        mask = mask.reshape((mask._shape[0], *parts, *mask._shape[2:]))
    if STATE.traced:  # a window may be wider than this text and narrower than others
        limited = before < UNLIMITED or after < UNLIMITED
    else:
        limited = before < tokens - 1 or after < keys - 1
    seen = seen_keys(tokens, keys, before, after, q.device) if limited else None
    mixed = weighed(q5, k5, v5, mask, seen, 0.0, scale, softcap, None)  # (B, KV, G, T, Dv)
    return mixed.reshape(batch, heads, tokens, v._shape[3]).permute(0, 2, 1, 3)


masked_attention_backward = fused_gradient(_masked_attention, of_result=True)


@op(saves="both", autocast=lower_precision)
def _attention(q: Tensor, k: Tensor, v: Tensor, causal: bool, scale: float) -> Tensor:
    """softmax(q kᵀ scale + mask) v for q (B, T, H, D), k and v (B, S, KV, D). causal: the last row attends
    to all keys.
    """
    tokens, keys = q._shape[1], k._shape[1]
    definition: Any = _masked_attention.definition
    result: Tensor = definition(q, k, v, None, UNLIMITED, keys - tokens if causal else UNLIMITED, scale)
    return result


attention_backward = fused_gradient(_attention, of_result=True)


@function()
def causal_mask(tokens: int, keys: int) -> Tensor:
    """(T, S) bool: row t attends to keys up to its own position, the last row to all of them."""
    return tensor_of(np.tri(tokens, keys, keys - tokens, dtype=bool))


def _attention_scores(
    q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, causal: bool, scale: float,
    window: int | tuple[int, int] | None, softcap: float | None, slopes: Tensor | None, sinks: Tensor | None,
) -> Tensor:  # fmt: skip
    """attention with all its options, by the ops that have kernels."""
    tokens, keys = q._shape[1], k._shape[1]
    if mask is None and window is None and softcap is None and slopes is None and sinks is None:
        return _attention(q, k, v, causal, scale)
    last = keys - tokens  # row t is the text's position `last` + t where attention is causal
    unlimited = (UNLIMITED, UNLIMITED) if STATE.traced else (tokens, keys)
    before, after = (unlimited[0], last) if causal else unlimited
    if isinstance(window, tuple):
        before, after = window[0], min(after, window[1])
    elif window is not None:
        before = window - 1 - last
    if slopes is not None:
        apart = arange(1 - keys, 1, device=q.device).to(slopes.dtype)  # (S,)
        if sinks is not None:  # without them, the row's own position would add the same to all of its scores
            apart = apart + arange(tokens - 1, -1, -1, device=q.device).to(slopes.dtype).reshape(-1, 1)  # (T, S)
        mask = _combined(mask, (slopes.reshape(1, -1, 1, 1) * apart).to(q.dtype))  # (1, H, 1 or T, S)
    if sinks is not None:
        seen = seen_keys(tokens, keys, before, after, q.device)
        zero = (q._shape[0], 1, k._shape[2])
        k, v = (cat([x, zeros(*zero, x._shape[3], dtype=x.dtype, device=x.device)], 1) for x in (k, v))
        mask, (before, after) = _with_sinks(mask, seen, sinks.to(q.dtype)), unlimited
    return _masked_attention(q, k, v, mask, before, after, scale, softcap)


def _with_sinks(mask: Tensor | None, seen: Tensor, sinks: Tensor) -> Tensor:
    """What is added to the scores (B or 1, H, T, S + 1) of one key more, whose score is a head's sink. seen (T, S)."""
    tokens, keys = seen._shape
    added = where(seen, 0.0, float("-inf")).to(sinks.dtype).reshape(1, 1, tokens, keys)
    if mask is not None:
        added = _combined(mask, added) if mask.dtype is _dtype.bool_ else mask + added
    shape = (added.shape[0], sinks._shape[0], tokens)
    return cat([added.expand(*shape, keys), sinks.reshape(1, -1, 1, 1).expand(*shape, 1)], 3)


def _combined(mask: Tensor | None, added: Tensor) -> Tensor:
    if mask is None:
        return added
    return where(mask, added, float("-inf")) if mask.dtype is _dtype.bool_ else mask + added


@function()
def attention(
    q: Tensor, k: Tensor, v: Tensor, causal: bool = True, scale: float | None = None,
    window: int | tuple[int, int] | None = None, softcap: float | None = None, slopes: Tensor | None = None,
    mask: Tensor | None = None, sinks: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Scaled dot-product attention (Vaswani et al. 2017, arXiv 1706.03762) with grouped heads.

    q (B, T, H, D), k (B, S, KV, D) and v (B, S, KV, Dv) with H a multiple of KV → (B, T, H, Dv). causal: the last row
    attends to all keys, the row before it to all but the last. scale defaults to 1 / sqrt(D).

    window w, for causal attention: each row attends to the last w keys at most, its own included (Mistral, Gemma);
    window (before, after): row t attends to the keys t - before .. t + after (ModernBERT). softcap c: scores become c
    tanh(score / c) (Gemma 2, arXiv 2408.00118). slopes (H,): slopes[h] * (key - row) is added to the scores of causal
    attention (ALiBi, Press et al. 2021, arXiv 2108.12409; slopes are positive). mask (B or 1, H or 1, T or 1, S): bool,
    True where attention is allowed, or added to the scores. A row without any visible key gives 0. sinks (H,): a score
    of each head for a key without a value, which takes a share of the weights (gpt-oss, arXiv 2508.10925).
    """
    _check_heads(q, k, v, 2)
    if q._shape[0] != k._shape[0]:
        raise ValueError(f"attention: takes (B, T, H, D), got q {describe(q)} and k {describe(k)}")
    check_score_options("attention", q._shape[2], None if isinstance(window, tuple) else window, softcap, slopes, sinks)
    if not causal and (slopes is not None or isinstance(window, int)):
        raise ValueError("attention: slopes and a window of one number are for causal attention; use (before, after)")
    if isinstance(window, tuple) and (len(window) != 2 or min(window) < 0):
        raise ValueError(f"attention: window is {window!r}, expected (before, after), 0 or more each")
    wanted = (q._shape[0], q._shape[2], q._shape[1], k._shape[1])
    if mask is not None and (mask.ndim != 4 or any(n not in (1, m) for n, m in zip(mask._shape, wanted, strict=True))):
        raise ValueError(f"attention: the mask {describe(mask)} does not broadcast to {list(wanted)}")
    if mask is not None and mask.dtype is not _dtype.bool_ and not mask.dtype.is_floating_point:
        raise ValueError(f"attention: a mask is bool (True: attend) or floats that are added, not {describe(mask)}")
    scale = 1.0 / sqrt(q._shape[-1]) if scale is None else scale
    return _attention_scores(q, k, v, mask, causal, scale, window, softcap, slopes, sinks)


@op()
def _cross_attention(q: Tensor, keys: Tensor, values: Tensor, scale: float) -> Tensor:
    k, v = (c.to(q.dtype).permute(1, 0, 2).unsqueeze(0) for c in (keys, values))  # (1, S, KV, D)
    return _attention(q.unsqueeze(0), k, v, False, scale).squeeze(0)


@function()
def cross_attention(q: Tensor, keys: Tensor, values: Tensor, scale: float | None = None) -> Tensor:
    """Attention of q (T, H, D) to all of another sequence, in the layout of a cache: keys and values (KV, S, D), which
    may be float16 beside float32 queries → (T, H, D).
    """
    _check_heads(q, keys, values, 0)
    return _cross_attention(q, keys, values, 1.0 / sqrt(q._shape[-1]) if scale is None else scale)
