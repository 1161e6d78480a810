"""com.microsoft: the fused layers of exported transformers. Sources: the operators' descriptions in onnxruntime's
ContribOperators.md.
"""

from __future__ import annotations

from math import sqrt
from typing import Any

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np

from ..registry import MICROSOFT, operator
from ..values import WATCH, array_of, axes_of, ints, made_of, scalar, text
from .activations import gelu, hard_sigmoid, leaky_relu
from .attention import heads_of, joined_heads, repeated, rotated, visible, weighed
from .matrices import gemm, product
from .normalization import layer_normalization, rms_normalization
from .windows import conv

operator("Gelu", domain=MICROSOFT)(lambda x: ops.gelu(x))
operator("BiasGelu", domain=MICROSOFT)(lambda x, bias: ops.gelu(x + bias))
operator("Inverse", domain=MICROSOFT)(lambda x: ops.inverse(x))
operator("BiasAdd", domain=MICROSOFT)(lambda x, bias, skip: x + bias + skip)


@operator("FastGelu", domain=MICROSOFT)
def fast_gelu(x: Tensor, bias: Any = None) -> Tensor:
    return gelu(x if bias is None else x + bias, approximate=b"tanh")


@operator("QuickGelu", domain=MICROSOFT)
def quick_gelu(x: Tensor, *, alpha: float = 1.702) -> Tensor:
    return x * ops.sigmoid(x * alpha)


operator("LayerNormalization", domain=MICROSOFT)(layer_normalization)


@operator("SimplifiedLayerNormalization")
@operator("SimplifiedLayerNormalization", domain=MICROSOFT)
def simplified_layer_normalization(
    x: Tensor, scale: Tensor, *, axis: int = -1, epsilon: float = 1e-5, stash_type: int = 1, outputs: int = 1
) -> Any:
    """RMS normalisation, and perhaps 1 / sqrt(mean(x²) + epsilon)."""
    y = rms_normalization(x, scale, axis=axis, epsilon=epsilon, stash_type=stash_type)
    if outputs == 1:
        return y
    dims = tuple(range(axes_of([axis], x.ndim)[0], x.ndim))
    return y, (x.to("float32").square().mean(dims, True) + epsilon).rsqrt()


def _skipped(x: Tensor, skip: Tensor, bias: Any) -> Tensor:
    total = x + skip
    return total if bias is None else total + bias


@operator("SkipLayerNormalization", domain=MICROSOFT)
def skip_layer_normalization(
    x: Tensor,
    skip: Tensor,
    gamma: Tensor,
    beta: Any = None,
    bias: Any = None,
    *,
    epsilon: float = 1e-12,
    outputs: int = 1,
) -> Any:
    """Normalises x + skip + bias, which is the fourth output."""
    total = _skipped(x, skip, bias)
    if outputs == 1 or outputs == 4:
        return layer_normalization(total, gamma, beta, epsilon=epsilon), None, None, total
    return *layer_normalization(total, gamma, beta, epsilon=epsilon, outputs=3), total


@operator("SkipSimplifiedLayerNormalization", domain=MICROSOFT)
def skip_simplified_layer_normalization(
    x: Tensor, skip: Tensor, gamma: Tensor, bias: Any = None, *, epsilon: float = 1e-12
) -> Any:
    total = _skipped(x, skip, bias)
    return rms_normalization(total, gamma, epsilon=epsilon), None, None, total


@operator("EmbedLayerNormalization", domain=MICROSOFT)
def embed_layer_normalization(
    ids: Tensor, segments: Any, words: Tensor, positions: Tensor, kinds: Any, gamma: Tensor, beta: Tensor,
        mask: Any = None,
    places: Any = None, *, epsilon: float = 1e-12, mask_index_type: int = 0,
) -> Any:  # fmt: skip
    """The sum of the embeddings of words, positions and segments (B, T) → (B, T, D), normalised."""
    total = ops.embedding(words, ids)
    total = total + (positions[: ids.shape[1]] if places is None else ops.embedding(positions, places))
    if segments is not None and kinds is not None:
        total = total + ops.embedding(kinds, segments)
    lengths = None
    if mask is not None:
        lengths = mask.to("int32").sum(1).to("int32")
    else:
        lengths = ops.zeros((ids.shape[0],), dtype="int32")
    return layer_normalization(total, gamma, beta, epsilon=epsilon), lengths, total


@operator("FusedMatMul", domain=MICROSOFT)
def fused_mat_mul(
    a: Tensor, b: Tensor, *, alpha: float = 1.0, transA: int = 0, transB: int = 0, transBatchA: int = 0,
    transBatchB: int = 0,
) -> Tensor:  # fmt: skip
    """alpha A B, where the matrices of each may be transposed, and its batch dims moved after the rows."""

    def arranged(x: Tensor, batch: int, flipped: int) -> Tensor:
        if batch and x.ndim > 2:
            x = x.movedim(0, x.ndim - 2)
        return x.transpose(-1, -2) if flipped and x.ndim > 1 else x

    y = product(arranged(a, transBatchA, transA), arranged(b, transBatchB, transB))
    return y * alpha if alpha != 1 else y


def _activated(x: Tensor, name: str, alpha: Any, beta: Any) -> Tensor:
    match name:
        case "":
            return x
        case "Relu":
            return ops.relu(x)
        case "Sigmoid":
            return ops.sigmoid(x)
        case "Tanh":
            return ops.tanh(x)
        case "Gelu":
            return ops.gelu(x)
        case "LeakyRelu":
            return leaky_relu(x, alpha=0.01 if alpha is None else alpha)
        case "HardSigmoid":
            return hard_sigmoid(x, alpha=0.2 if alpha is None else alpha, beta=0.5 if beta is None else beta)
        case "Clip":
            return ops.clamp(x, alpha, beta)
    raise ValueError(f"the activation {name!r} is unknown")


@operator("FusedConv", domain=MICROSOFT)
def fused_conv(
    x: Tensor, weight: Tensor, bias: Any = None, skip: Any = None, *, activation: bytes = b"",
    activation_params: Any = None, auto_pad: bytes = b"NOTSET", dilations: Any = None, group: int = 1,
    kernel_shape: Any = None, pads: Any = None, strides: Any = None,
) -> Tensor:  # fmt: skip
    y = conv(x, weight, bias, auto_pad=auto_pad, dilations=dilations, group=group, pads=pads, strides=strides)
    alpha, beta = (*(activation_params or []), None, None)[:2]
    return _activated(y if skip is None else y + skip, text(activation), alpha, beta)


@operator("FusedGemm", domain=MICROSOFT)
def fused_gemm(
    a: Tensor, b: Tensor, c: Any = None, *, activation: bytes = b"", activation_alpha: float | None = None,
    activation_beta: float | None = None, activation_gamma: float | None = None, alpha: float = 1.0, beta: float = 1.0,
    transA: int = 0, transB: int = 0,
) -> Tensor:  # fmt: skip
    y = gemm(a, b, c, alpha=alpha, beta=beta, transA=transA, transB=transB)
    return _activated(y, text(activation), activation_alpha, activation_beta)


@operator("RotaryEmbedding", domain=MICROSOFT)
def rotary_embedding(
    x: Tensor, positions: Tensor, cos: Tensor, sin: Tensor, *, interleaved: int = 0, is_packed_batching: int = 0,
    num_heads: int = 0, rotary_embedding_dim: int = 0, scale: float = 1.0,
) -> Tensor:  # fmt: skip
    """x (B, H, T, D) or (B, T, H D); positions (B, T), or (1,): the position of the first token."""
    if x.ndim == 3:
        size = 2 * cos.shape[1] if not rotary_embedding_dim else x.shape[2] // num_heads
        y = x.reshape(x.shape[0], x.shape[1], -1, size)
    else:
        y = x.transpose(1, 2)
    if positions.numel() == 1 and y.shape[0] * y.shape[1] > 1:
        places = (positions.reshape(1, 1) + ops.arange(y.shape[1]).to("int64")).expand(y.shape[0], y.shape[1])
    else:
        places = positions.reshape(y.shape[0], y.shape[1])
    width = rotary_embedding_dim or y.shape[3]
    tables = [ops.index_select(t, 0, places.reshape(-1)).reshape(*places.shape, 1, -1) for t in (cos, sin)]
    y = rotated(y, tables[0], tables[1], bool(interleaved), width)
    return y.reshape(x.shape) if x.ndim == 3 else y.transpose(1, 2)


def _key_mask(mask: Tensor, batch: int, keys: int) -> Any:
    """A mask of keys as (B, 1, 1 or T, S) bool: lengths (B,), begins and ends (2 B,), (B, S) or (B, T, S)."""
    array = array_of(mask)
    if array.ndim == 1:
        place = np.arange(keys)
        if array.size == batch:
            return place < array.reshape(-1, 1, 1, 1)
        ends, begins = array[:batch].reshape(-1, 1, 1, 1), array[batch : 2 * batch].reshape(-1, 1, 1, 1)
        return (place < ends) & (place >= begins)
    return (array != 0)[:, None, None, :] if array.ndim == 2 else (array != 0)[:, None]


def _attended(
    q: Tensor, k: Tensor, v: Tensor, mask: Any, bias: Any, causal: bool, factor: float, filter_value: float
) -> Tensor:
    """(B, H, T, D) each → (B, T, H Dv). Hidden keys get `filter_value`, as in onnxruntime, so that a row without any
    visible key is the mean of all."""
    tokens, keys = q.shape[2], k.shape[2]
    seen = None if mask is None else _key_mask(mask, q.shape[0], keys)
    if causal:
        near = visible(tokens, keys, keys - tokens, True, -1, -1)
        seen = near if seen is None else seen & near
    added = bias
    if seen is not None:
        hidden = made_of(np.where(seen, 0.0, filter_value), q.dtype.name, q.device)
        added = hidden if bias is None else hidden + bias
    if q.dtype.name == "float32":
        if added is not None and added.ndim < 4:
            added = added.reshape(*[1] * (4 - added.ndim), *added.shape)
        return joined_heads(ops.scaled_dot_product_attention(q, k, v, added, scale=factor))
    return joined_heads(weighed(q, k, v, added, None, factor)[0])


@operator("MultiHeadAttention", domain=MICROSOFT, reads=(4,))
def multi_head_attention(
    query: Tensor, key: Any = None, value: Any = None, bias: Any = None, mask: Any = None, attention_bias: Any = None,
    past_key: Any = None, past_value: Any = None, past_length: Any = None, cache_indirection: Any = None, *,
    num_heads: int, mask_filter_value: float = -10000.0, scale: float = 0.0, unidirectional: int = 0,
) -> Any:  # fmt: skip
    """query (B, T, H D), packed (B, T, H, 3, D) or with keys in (B, S, H, 2, D); keys and values (B, S, H D) or (B,
    H, S, D)."""
    if past_length is not None or cache_indirection is not None:
        raise ValueError("shared buffers of the past are not supported")
    if query.ndim == 5:
        q, k, v = (query[:, :, :, at].transpose(1, 2) for at in range(3))
    else:
        width = query.shape[2]
        if bias is not None:
            query = query + bias[:width]
        q = heads_of(query, num_heads, "query")
        if key.ndim == 5:
            k, v = key[:, :, :, 0].transpose(1, 2), key[:, :, :, 1].transpose(1, 2)
        else:
            if bias is not None and key.ndim == 3:
                key, value = key + bias[width : 2 * width], value + bias[2 * width :]
            k, v = heads_of(key, num_heads, "key"), heads_of(value, num_heads, "value")
    if past_key is not None:
        k, v = ops.cat([past_key, k], 2), ops.cat([past_value, v], 2)
    factor = scale or 1 / sqrt(q.shape[3])
    y = _attended(q, k, v, mask, attention_bias, bool(unidirectional), factor, mask_filter_value)
    return y, k, v


@operator("Attention", domain=MICROSOFT, reads=(3,))
def attention(
    x: Tensor, weight: Tensor, bias: Any = None, mask: Any = None, past: Any = None, attention_bias: Any = None,
    past_length: Any = None, *, num_heads: int, do_rotary: int = 0, mask_filter_value: float = -10000.0,
    past_present_share_buffer: int = 0, qkv_hidden_sizes: Any = None, rotary_embedding_dim: int = 0, scale: float = 0.0,
    unidirectional: int = 0,
) -> Any:  # fmt: skip
    """x (B, T, I) times a weight (I, Q + K + V) plus bias, then attention; past (2, B, H, P, D)."""
    if do_rotary or past_present_share_buffer or past_length is not None:
        raise ValueError("rotation and shared buffers of the past are not supported")
    joined = product(x, weight)
    joined = joined if bias is None else joined + bias
    widths = list(qkv_hidden_sizes or [weight.shape[1] // 3] * 3)
    q, k, v = (heads_of(part, num_heads, "x") for part in ops.split(joined, widths, 2))
    if past is not None:
        k, v = ops.cat([past[0], k], 2), ops.cat([past[1], v], 2)
    factor = scale or 1 / sqrt(q.shape[3])
    y = _attended(q, k, v, mask, attention_bias, bool(unidirectional), factor, mask_filter_value)
    return y, ops.stack([k, v], 0)


def _filled(past: Any, new: Tensor, lengths: list[int], size: int) -> Tensor:
    """A cache (B, KV, size, D): the first `lengths[b]` entries of the past, then the new ones."""
    if past is None or past.shape[2] == 0:
        if new.shape[2] == size:
            return new
        past = new[:, :, :0]
    elif all(length == past.shape[2] for length in lengths) and past.shape[2] + new.shape[2] == size:
        return ops.cat([past, new], 2)
    whole, own = ops.cat([past, new], 2), past.shape[2]
    rows = []
    for row, length in enumerate(lengths):
        index = [p if p < length else own + p - length for p in range(min(size, length + new.shape[2]))]
        index += [0] * (size - len(index))
        rows.append(ops.index_select(whole[row : row + 1], 2, made_of(np.array(index, np.int64), device=new.device)))
    return ops.cat(rows, 0)


def _turned(x: Tensor, cos: Tensor, sin: Tensor, positions: Tensor, interleaved: bool) -> Tensor:
    """x (B, T, H, D) rotated at positions (B, T); tables (P, R / 2)."""
    batch, tokens = x.shape[:2]
    if x.dtype.name == cos.dtype.name == "float32":
        table = WATCH.remember("rotation", (cos, sin), lambda: ops.stack([cos, sin], -1))  # (P, R / 2, 2)
        where = positions.reshape(batch, tokens).to("int32")
        return ops.rope(x, table, where[0] if batch == 1 else where, interleaved)
    tables = [ops.index_select(t, 0, positions.reshape(-1)).reshape(batch, tokens, 1, -1) for t in (cos, sin)]
    return rotated(x, tables[0], tables[1], interleaved, 2 * cos.shape[1])


@operator("GroupQueryAttention", domain=MICROSOFT, reads=(5, 6))
def group_query_attention(
    query: Tensor, key: Any, value: Any, past_key: Any, past_value: Any, lengths: Tensor, total: Tensor,
        cos: Any = None,
    sin: Any = None, positions: Any = None, attention_bias: Any = None, sinks: Any = None, k_scale: Any = None,
    v_scale: Any = None, q_norm: Any = None, k_norm: Any = None, *, num_heads: int, kv_num_heads: int,
        do_rotary: int = 0,
    local_window_size: int = -1, rotary_interleaved: int = 0, scale: float = 0.0, smooth_softmax: int = 0,
    softcap: float = 0.0, qk_output: int = 0, causal: int = 1, qk_norm_epsilon: float = 1e-6,
    k_quant_type: bytes = b"NONE", v_quant_type: bytes = b"NONE", kv_cache_bit_width: int = 0,
) -> Any:  # fmt: skip
    """Causal attention of grouped heads to a cache: query (B, T, H D), or with keys and values after it; lengths (B,):
    the keys of each text less one; the past (B, KV, P, D)."""
    if sinks is not None or smooth_softmax or k_scale is not None or v_scale is not None or qk_output:
        raise ValueError("attention sinks, smooth softmax, quantised caches and the output of scores are not supported")
    batch, tokens = query.shape[:2]
    if key is None:
        size = query.shape[2] // (num_heads + 2 * kv_num_heads)
        query, key, value = ops.split(query, [num_heads * size, kv_num_heads * size, kv_num_heads * size], 2)
    size = query.shape[2] // num_heads
    q, k, v = (x.reshape(batch, tokens, -1, size) for x in (query, key, value))  # (B, T, H or KV, D)
    if q_norm is not None:
        q, k = (rms_normalization(x, w, epsilon=qk_norm_epsilon) for x, w in ((q, q_norm), (k, k_norm)))
    ends = [n + 1 for n in ints(lengths)]
    # The tokens are the last ones; at the beginning of texts of several lengths, the padding follows them.
    whole = int(scalar(total))
    first = whole == tokens
    past_lengths = [0 if first else end - tokens for end in ends]
    if do_rotary:
        if positions is None:
            places = np.array(past_lengths)[:, None] + np.arange(tokens)
            positions = made_of(places.astype(np.int64), device=q.device)
        q, k = (_turned(x, cos, sin, positions, bool(rotary_interleaved)) for x in (q, k))
    capacity = max(whole, 0 if past_key is None else past_key.shape[2])
    keys = _filled(past_key, k.transpose(1, 2), past_lengths, capacity)
    values = _filled(past_value, v.transpose(1, 2), past_lengths, capacity)
    offsets = np.array(past_lengths)
    seen = visible(tokens, capacity, offsets, bool(causal), local_window_size - 1 if local_window_size > 0 else -1, -1)
    if not causal:
        seen = seen & (np.arange(capacity) < np.array(ends).reshape(-1, 1, 1, 1))
    factor = scale or 1 / sqrt(size)
    mask = made_of(np.ascontiguousarray(seen), device=q.device)
    heads = q.transpose(1, 2)
    if softcap or attention_bias is not None or q.dtype.name != "float32":
        group = num_heads // kv_num_heads
        y, _ = weighed(heads, repeated(keys, group), repeated(values, group), attention_bias, mask, factor, softcap)
    else:
        plain = None if seen.all() else mask
        y = ops.scaled_dot_product_attention(heads, keys, values, plain, scale=factor, enable_gqa=True)
    return joined_heads(y), keys, values
