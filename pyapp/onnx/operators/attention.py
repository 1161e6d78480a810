"""Attention, and rotary positions."""

from __future__ import annotations

from math import sqrt
from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np

from ..registry import PREVIEW, operator
from ..values import element_name, ints, made_of, text


def heads_of(x: Tensor, heads: int | None, name: str) -> Tensor:
    """(B, T, H D) → (B, H, T, D); a tensor of four dims as it is."""
    if x.ndim == 4:
        return x
    if x.ndim != 3 or not heads or x.shape[2] % heads:
        raise ValueError(f"{name} of shape {tuple(x.shape)} is not {heads} heads")
    return x.reshape(x.shape[0], x.shape[1], heads, x.shape[2] // heads).transpose(1, 2)


def joined_heads(x: Tensor) -> Tensor:
    """(B, H, T, D) → (B, T, H D)."""
    return x.transpose(1, 2).reshape(x.shape[0], x.shape[2], x.shape[1] * x.shape[3])


def repeated(x: Tensor, times: int) -> Tensor:
    """(B, KV, S, D) → (B, KV · times, S, D): each head for a group of others."""
    if times == 1:
        return x
    b, h, s, d = x.shape
    return x.unsqueeze(2).expand(b, h, times, s, d).reshape(b, h * times, s, d)


def visible(tokens: int, keys: int, offset: Any, causal: bool, left: int, right: int) -> Any:
    """(T, S) or, with offsets of texts, (B, 1, T, S) bool: what row t, at position offset + t, attends to."""
    shift = np.asarray(offset)
    where = np.arange(tokens)[:, None] + (shift.reshape(-1, 1, 1, 1) if shift.ndim else shift)
    apart = np.arange(keys) - where
    seen = apart <= 0 if causal else np.ones(apart.shape, bool)
    seen = seen & (apart >= -left) if left >= 0 else seen
    return seen & (apart <= right) if right >= 0 else seen


@operator("Attention", reads=(6,))
def attention(
    q: Tensor, k: Tensor, v: Tensor, mask: Any = None, past_key: Any = None, past_value: Any = None,
    lengths: Any = None, *, is_causal: int = 0, kv_num_heads: int | None = None, q_num_heads: int | None = None,
    qk_matmul_output_mode: int = 0, scale: float | None = None, softcap: float = 0.0,
    softmax_precision: int | None = None, left_window_size: int = -1, right_window_size: int = -1, outputs: int = 1,
) -> Any:  # fmt: skip
    """softmax(Q Kᵀ scale + mask) V for (B, H, T, D) or (B, T, H D). A row that sees no key gives 0."""
    if min(left_window_size, right_window_size) < -1:
        raise ValueError(f"a window of {left_window_size} and {right_window_size}, expected -1 or more")
    if (past_key is None) != (past_value is None) or (past_key is not None and lengths is not None):
        raise ValueError("past_key and past_value belong together, without nonpad_kv_seqlen")
    flat = q.ndim == 3
    q, k, v = heads_of(q, q_num_heads, "Q"), heads_of(k, kv_num_heads, "K"), heads_of(v, kv_num_heads, "V")
    offset: Any = 0
    if past_key is not None:
        offset = past_key.shape[2]
        k, v = ops.cat([past_key, k], 2), ops.cat([past_value, v], 2)
    if q.shape[1] % k.shape[1]:
        raise ValueError(f"{q.shape[1]} heads of Q do not share {k.shape[1]} heads of K")
    present, tokens, keys = (k, v), q.shape[2], k.shape[2]
    seen = None
    if lengths is not None:
        sizes = np.array(ints(lengths))
        offset = sizes - tokens
        seen = np.arange(keys) < sizes.reshape(-1, 1, 1, 1)
    if is_causal or left_window_size >= 0 or right_window_size >= 0:
        near = visible(tokens, keys, offset, bool(is_causal), left_window_size, right_window_size)
        seen = near if seen is None else seen & near
    if mask is not None and mask.shape[-1] < keys:
        fill = False if mask.dtype.category == 0 else float("-inf")
        rest = ops.full((*mask.shape[:-1], keys - mask.shape[-1]), fill, dtype=mask.dtype, device=mask.device)
        mask = ops.cat([mask, rest], -1)
    factor = 1 / sqrt(q.shape[3]) if scale is None else scale
    allowed = None if seen is None else made_of(seen, device=q.device)
    plain = outputs < 4 and not softcap and softmax_precision is None and q.dtype.name == "float32"
    if plain:
        combined = allowed if mask is None else mask if allowed is None else _both(mask, allowed)
        wide = combined if combined is None else combined.reshape(*[1] * (4 - combined.ndim), *combined.shape)
        y = ops.scaled_dot_product_attention(q, k, v, wide, scale=factor, enable_gqa=True)
        return joined_heads(y) if flat else y, *present, None
    group = q.shape[1] // k.shape[1]
    y, scores = weighed(
        q, repeated(k, group), repeated(v, group), mask, allowed, factor, softcap, softmax_precision,
        qk_matmul_output_mode,
    )  # fmt: skip
    return joined_heads(y) if flat else y, *present, scores


def _both(mask: Tensor, allowed: Tensor) -> Tensor:
    """Both masks as one."""
    if mask.dtype.category == 0:
        return ops.logical_and(mask, allowed)
    return ops.where(allowed, mask, made_of(np.array(-np.inf), mask.dtype.name, mask.device))


def weighed(
    q: Tensor, k: Tensor, v: Tensor, mask: Any, allowed: Any, factor: float, softcap: float = 0.0,
    precision: int | None = None, mode: int = 0,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """softmax(q kᵀ factor + mask) v, and the scores: 0 raw, 1 after the cap, 2 with the mask, 3 after softmax."""
    root = sqrt(abs(factor))
    stages = [(q * root) @ (k * (root if factor >= 0 else -root)).transpose(-1, -2)]
    capped = ops.tanh(stages[0] / softcap) * softcap if softcap else stages[0]
    stages.append(capped)
    nothing = made_of(np.array(-np.inf), q.dtype.name, q.device)
    if mask is not None:
        capped = ops.where(mask, capped, nothing) if mask.dtype.category == 0 else capped + mask
    if allowed is not None:
        capped = ops.where(allowed, capped, nothing)
    stages.append(capped)
    wide = capped if precision is None else capped.to(element_name(precision))
    chances = ops.softmax(wide, -1)
    if mask is not None or allowed is not None:
        blind = ops.isneginf(ops.amax(wide, -1, True))
        chances = ops.where(blind, ops.zeros_like(chances), chances)
    chances = chances.to(q.dtype)
    stages.append(chances)
    return chances @ v, stages[mode]


def rotated(
    x: Tensor, cos: Tensor, sin: Tensor, interleaved: bool, size: int
) -> Tensor:  # x (B, T, H, D), cos and sin (B or 1, T, 1, size / 2)
    """The first `size` features of each head rotated (Su et al. 2021, arXiv 2104.09864)."""
    part, rest = x[..., :size], x[..., size:]
    if interleaved:
        a, b = part[..., 0::2], part[..., 1::2]
        turned = ops.stack([a * cos - b * sin, b * cos + a * sin], -1).reshape(part.shape)
    else:
        a, b = part[..., : size // 2], part[..., size // 2 :]
        turned = ops.cat([a * cos - b * sin, b * cos + a * sin], -1)
    return turned if size == x.shape[-1] else ops.cat([turned, rest], -1)


@operator("RotaryEmbedding")
def rotary_embedding(
    x: Tensor, cos: Tensor, sin: Tensor, positions: Any = None, *, interleaved: int = 0, num_heads: int = 0,
    rotary_embedding_dim: int = 0,
) -> Tensor:  # fmt: skip
    """x (B, H, T, D) or (B, T, H D); tables (P, R / 2) at positions (B, T), or (B, T, R / 2)."""
    if x.ndim == 3 and (num_heads < 1 or x.shape[2] % num_heads):
        raise ValueError(f"x of shape {tuple(x.shape)} is not {num_heads} heads")
    y = x.transpose(1, 2) if x.ndim == 4 else x.reshape(*x.shape[:2], num_heads, -1)
    size = rotary_embedding_dim or y.shape[3]
    if positions is not None:
        cos, sin = (ops.index_select(t, 0, positions.reshape(-1)).reshape(*positions.shape, -1) for t in (cos, sin))
    if cos.shape[-1] != size // 2 or sin.shape != cos.shape:
        raise ValueError(f"tables of shape {tuple(cos.shape)} and {tuple(sin.shape)} do not rotate {size} features")
    y = rotated(y, cos.unsqueeze(2), sin.unsqueeze(2), bool(interleaved), size)
    return y.transpose(1, 2) if x.ndim == 4 else y.reshape(x.shape)


@operator("LinearAttention")
def linear_attention(
    query: Tensor, key: Tensor, value: Tensor, past: Any = None, decay: Any = None, beta: Any = None, *,
    kv_num_heads: int, q_num_heads: int, chunk_size: int = 64, scale: float = 0.0, update_rule: bytes = b"gated_delta",
) -> Any:  # fmt: skip
    """A recurrent state (B, KV, Dk, Dv) in place of softmax (Katharopoulos et al. 2020, arXiv 2006.16236; the delta
    rule:
    Yang et al. 2024, arXiv 2412.06464): (B, T, H D) each; gives (B, T, H Dv) and the state."""
    rule = text(update_rule)
    if rule not in ("linear", "gated", "delta", "gated_delta"):
        raise ValueError(f"update_rule is {rule!r}, expected linear, gated, delta or gated_delta")
    if ("gated" in rule) != (decay is not None) or ("delta" in rule) != (beta is not None):
        raise ValueError(f"update_rule {rule!r} does not fit the inputs decay and beta")
    if kv_num_heads < 1 or q_num_heads % kv_num_heads:
        raise ValueError(f"{q_num_heads} heads of the query do not share {kv_num_heads} heads")
    kind = "float32"
    q = heads_of(query, q_num_heads, "query").to(kind)
    k, v = (heads_of(x, kv_num_heads, name).to(kind) for x, name in ((key, "key"), (value, "value")))
    batch, tokens, group = q.shape[0], q.shape[2], q_num_heads // kv_num_heads
    factor = scale or 1 / sqrt(q.shape[3])
    if past is None:
        state = ops.zeros((batch, kv_num_heads, k.shape[3], v.shape[3]), dtype=kind, device=q.device)
    else:
        state = past.to(kind)
    gates = None if decay is None else ops.exp(heads_of(decay.to(kind), kv_num_heads, "decay"))  # (B, KV, T, 1 or Dk)
    rates = None if beta is None else beta.to(kind).transpose(1, 2).unsqueeze(-1)  # (B, KV or 1, T, 1)
    found = []
    for t in range(tokens):
        kt, vt = k[:, :, t, :, None], v[:, :, t, None, :]
        if gates is not None:
            state = state * gates[:, :, t, :, None]
        if rates is not None:
            vt = (vt - kt.transpose(-1, -2) @ state) * rates[:, :, t, :, None]
        state = state + kt * vt
        found.append(q[:, :, t, None, :] @ repeated(state, group) * factor)
    y = joined_heads(ops.cat(found, 2)).to(query.dtype)
    return y, state.to(query.dtype if past is None else past.dtype)


@operator("FlexAttention", domain=PREVIEW)
def flex_attention(
    q: Tensor, k: Tensor, v: Tensor, *, scale: float | None = None, softmax_precision: int | None = None,
    score_mod: Any = None, prob_mod: Any = None,
) -> Tensor:  # fmt: skip
    """Attention of (B, H, T, D) whose scores and probabilities graphs may change."""
    if any(x.ndim != 4 for x in (q, k, v)) or q.shape[1] % k.shape[1]:
        raise ValueError(
            f"Q, K and V of shapes {tuple(q.shape)}, {tuple(k.shape)}, {tuple(v.shape)} do not fit together"
        )
    kind = (
        element_name(softmax_precision) if softmax_precision else "float64" if q.dtype.name == "float64" else "float32"
    )
    group, factor = q.shape[1] // k.shape[1], 1 / sqrt(q.shape[3]) if scale is None else scale
    scores = ((q @ repeated(k, group).transpose(-1, -2)) * factor).to(kind)
    if score_mod is not None:
        scores = score_mod(scores)[0]
    chances = ops.softmax(scores, -1)
    if prob_mod is not None:
        chances = prob_mod(chances)[0]
    return (chances @ repeated(v, group).to(kind)).to(q.dtype)
