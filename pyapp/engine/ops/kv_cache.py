"""Attention over keys and values in a cache.

A cache is (KV, capacity, D) for one text, or (B, KV, capacity, D) for B texts that are processed together. It holds
float32 or float16 numbers, or is uint8 (..., row_bytes(D)): rows in q8_0, which are D int8 numbers, then a float16
scale for each 32 of them. `position` is int32: (1,) for one text, (B,) for B texts. Row t of text b has the position
position[b] + t.

Paged caches (Kwon et al. 2023, arXiv 2309.06180): with a `block_table` (B, parts) int32, (1, parts) for one text, a
cache is (blocks, KV, capacity, D). Part i of text b, the positions i * capacity …, is in the block block_table[b, i].
"""

from __future__ import annotations

from math import sqrt
from typing import Any

from .. import dtype as _dtype
from ..declare import function
from ..lazy import np
from ..numpy_arrays import array_of, tensor_of
from ..op import op, primitive
from ..tensor import Tensor
from ..user_errors import describe
from .full_attention import _attention_scores, check_score_options
from .rotary import _check_table, _rope
from .stacking import stack

BLOCK = 32
"""Columns of a row in q8_0 that share a scale."""


def row_bytes(head_dim: int) -> int:
    """Bytes of `head_dim` numbers in q8_0 in a cache."""
    return head_dim + 2 * -(-head_dim // BLOCK)


def _columns(cache: Tensor, head_dim: int) -> int:
    """The size of the last dim of a cache of its dtype for heads of `head_dim`."""
    return row_bytes(head_dim) if cache.dtype is _dtype.uint8 else head_dim


def check_cache(
    name: str, cache: Tensor, texts: tuple[int, ...], head_dim: int, position: Tensor, block_table: Tensor | None = None
) -> None:
    """A cache (KV, capacity, D) and position (1,) for texts (), or (B, KV, capacity, D) and (B,) for texts (B,); with a
    block table (blocks, KV, capacity, D). Else ValueError.
    """
    if position._shape != (texts or (1,)) or position.dtype.category != 1:
        wanted = "the position is one integer, (1,)" if not texts else f"positions are integers, ({texts[0]},)"
        raise ValueError(f"{name}: {wanted}, not {describe(position)}")
    if block_table is not None:
        count = position._shape[0]
        if len(block_table._shape) != 2 or block_table._shape[0] != count or block_table.dtype is not _dtype.int32:
            raise ValueError(f"{name}: a block table is int32 ({count}, parts), not {describe(block_table)}")
        texts = cache._shape[:1]
    if (
        len(cache._shape) - 3 != len(texts)
        or cache._shape[:-3] != texts
        or cache._shape[-1] != _columns(cache, head_dim)
    ):
        raise ValueError(f"{name}: heads of {head_dim} for texts {list(texts)} do not fit the cache {describe(cache)}")


def encode_q8(x: Any) -> Any:
    """Array (..., D) → uint8 (..., row_bytes(D)), rounded as ggml rounds q8_0."""
    size, blocks = x.shape[-1], -(-x.shape[-1] // BLOCK)
    padded = np.zeros((*x.shape[:-1], blocks * BLOCK), np.float32)
    padded[..., :size] = x
    parts = padded.reshape(*x.shape[:-1], blocks, BLOCK)
    finite = np.isfinite(parts).all(-1, keepdims=True)
    scales = np.where(finite, np.abs(parts).max(-1, keepdims=True) / np.float32(127), np.float32(np.nan))
    with np.errstate(all="ignore"):
        inverse = np.where(scales > 1e-30, 1 / scales, 0)
        numbers = np.where(finite, np.rint(parts * inverse), 0).astype(np.int8).reshape(padded.shape)[..., :size]
        halves = np.ascontiguousarray(scales[..., 0].astype(np.float16))
    return np.concatenate([np.ascontiguousarray(numbers).view(np.uint8), halves.view(np.uint8)], -1)


def decode_q8(rows: Any, head_dim: int) -> Any:
    """Array uint8 (..., row_bytes(head_dim)) → float32 (..., head_dim)."""
    numbers = np.ascontiguousarray(rows[..., :head_dim]).view(np.int8).astype(np.float32)
    scales = np.ascontiguousarray(rows[..., head_dim:]).view(np.float16).astype(np.float32)
    return numbers * np.repeat(scales, BLOCK, -1)[..., :head_dim]


def check_write(cache: Tensor, x: Tensor, position: Tensor, block_table: Tensor | None = None) -> None:
    """ValueError where x cannot be written to the cache."""
    fits = x.ndim == cache.ndim if block_table is None else x.ndim in (3, 4) and cache.ndim == 4
    if not fits or x.ndim < 3 or x._shape[-2] != cache._shape[-3]:
        raise ValueError(f"cache_write: {describe(x)} is not (T, KV, D) for the cache {describe(cache)}")
    check_cache("cache_write", cache, x._shape[:-3], x._shape[-1], position, block_table)


def _starts(name: str, position: Tensor, tokens: int, capacity: int) -> list[int]:
    starts = [int(at) for at in position.tolist()]
    for at in starts:
        if at < 0 or at + tokens > capacity:
            raise IndexError(f"{name}: positions {at} .. {at + tokens - 1} are outside the cache of {capacity}")
    return starts


def _check_blocks(name: str, used: Any, blocks: int) -> None:
    """IndexError where a number of `used` is not of one of the blocks."""
    if wrong := [number for number in used if not 0 <= number < blocks]:
        raise IndexError(f"{name}: the block table has {wrong[0]}; there are {blocks} blocks")


@function()
@primitive(name="cache_write", writes=True)
def cache_write(cache: Tensor, x: Tensor, position: Tensor, block_table: Tensor | None = None) -> Tensor:
    """Writes x (T, KV, D) into cache (KV, capacity, D) at position[0] …, or x (B, T, KV, D) into (B, KV, capacity, D)
    at position[b] …, in place; returns the cache. With a block_table (B, parts) int32 the cache is (blocks, KV,
    capacity, D). A uint8 cache takes rows in q8_0. IndexError past its end.
    """
    check_write(cache, x, position, block_table)
    tokens = x._shape[-3]
    rows = array_of(x).swapaxes(-2, -3)  # (..., KV, T, D)
    encoded = encode_q8(rows) if cache.dtype is _dtype.uint8 else tensor_of(rows, cache.dtype).array()
    into = cache.array().reshape(-1, *cache._shape[-3:])
    if block_table is not None and tokens:
        size, table = cache._shape[-2], block_table.array()
        for b, at in enumerate(_starts("cache_write", position, tokens, size * table.shape[1])):
            places = np.arange(at, at + tokens)
            blocks = table[b, places // size]
            _check_blocks("cache_write", table[b, : (at + tokens - 1) // size + 1].tolist(), cache._shape[0])
            into[blocks, :, places % size] = encoded.reshape(-1, *encoded.shape[-3:])[b].swapaxes(0, 1)
        cache._storage.version += 1
        return cache
    for b, at in enumerate(_starts("cache_write", position, tokens, cache._shape[-2])):
        into[b, :, at : at + tokens] = encoded.reshape(-1, *encoded.shape[-3:])[b]
    cache._storage.version += 1
    return cache


@primitive(name="_cache_rows")
def _cache_rows(cache: Tensor, head_dim: int) -> Tensor:
    """uint8 (..., row_bytes(D)) → float32 (..., D)."""
    return tensor_of(decode_q8(cache.array(), head_dim))


def cached_rows(cache: Tensor, end: int, head_dim: int, block_table: Tensor | None) -> Tensor:
    """The first `end` rows of a cache (KV, capacity, D) of one text, or of one with a block table (1, parts) → (1, end,
    KV, D), float32 where it is in q8_0.
    """
    if block_table is not None:
        used = block_table[0, : -(-end // cache._shape[2])]  # (parts in use,)
        _check_blocks("cached_attention", used.tolist(), cache._shape[0])
        joined = cache.index_select(0, used).transpose(0, 1)  # (KV, parts, capacity, D)
        cache = joined.reshape(joined._shape[0], -1, joined._shape[3])
    seen = cache[:, :end]
    if cache.dtype is _dtype.uint8:
        seen = _cache_rows(seen.cpu(), head_dim).to(cache.device)
    return seen.permute(1, 0, 2).unsqueeze(0)


@op()
def _cached_attention(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, position: Tensor, scale: float, window: int | None,
    softcap: float | None, slopes: Tensor | None, sinks: Tensor | None, block_table: Tensor | None,
) -> Tensor:  # fmt: skip
    if q.ndim == 4:
        each = []  # (T, H, D) each
        for b in range(q._shape[0]):
            caches = (k_cache[b], v_cache[b]) if block_table is None else (k_cache, v_cache)
            blocks = None if block_table is None else block_table[b : b + 1]
            at = position[b : b + 1]
            each.append(_cached_attention(q[b], *caches, at, scale, window, softcap, slopes, sinks, blocks))
        return stack(each) if each else q
    capacity = k_cache._shape[-2] * (1 if block_table is None else block_table._shape[1])
    end = _starts("cached_attention", position, q._shape[0], capacity)[0] + q._shape[0]
    k, v = (cached_rows(c, end, q._shape[2], block_table).to(q.dtype) for c in (k_cache, v_cache))
    return _attention_scores(q.unsqueeze(0), k, v, None, True, scale, window, softcap, slopes, sinks).squeeze(0)


def _check_caches(name: str, heads: int, keys: Tensor, values: Tensor) -> None:
    if keys._shape != values._shape or keys.dtype is not values.dtype or not keys._shape[-3] or heads % keys._shape[-3]:
        raise ValueError(f"{name}: {heads} heads do not fit caches {describe(keys)} and {describe(values)}")


@function()
def cached_attention(
    q: Tensor, k_cache: Tensor, v_cache: Tensor, position: Tensor, scale: float | None = None,
    window: int | None = None, softcap: float | None = None, slopes: Tensor | None = None,
    block_table: Tensor | None = None, sinks: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Causal attention of q (T, H, D) at positions position[0] … over caches (KV, capacity, D) → (T, H, D); or of q (B,
    T, H, D) at position[b] … over (B, KV, capacity, D) → (B, T, H, D). H is a multiple of KV. With a block_table (B,
    parts) int32, or (1, parts) for one text, caches are (blocks, KV, capacity, D).

    scale defaults to 1 / sqrt(D). window: each row attends to the last `window` keys at most, its own included (Beltagy
    et al. 2020, arXiv 2004.05150; Mistral, Gemma). softcap c: scores become c tanh(score / c) (Gemma 2, arXiv
    2408.00118). slopes (H,) float32: slopes[h] * (position of the key - position of the row) is added to the scores
    (ALiBi, Press et al. 2021, arXiv 2108.12409; slopes are positive). sinks (H,): a score of each head for a key
    without a value, which takes a share of the weights (gpt-oss, arXiv 2508.10925).
    """
    if q.ndim not in (3, 4):
        raise ValueError(f"cached_attention: takes q (T, H, D) or (B, T, H, D), got {describe(q)}")
    check_cache("cached_attention", k_cache, q._shape[:-3], q._shape[-1], position, block_table)
    _check_caches("cached_attention", q._shape[-2], k_cache, v_cache)
    check_score_options("cached_attention", q._shape[-2], window, softcap, slopes, sinks)
    scale = 1.0 / sqrt(q._shape[-1]) if scale is None else scale
    return _cached_attention(q, k_cache, v_cache, position, scale, window, softcap, slopes, sinks, block_table)


@op()
def _cached_self_attention(
    qkv: Tensor, table: Tensor | None, position: Tensor, keys: Tensor, values: Tensor, size: int, interleaved: bool,
    scale: float, window: int | None, softcap: float | None, slopes: Tensor | None, sinks: Tensor | None,
    block_table: Tensor | None,
) -> Tensor:  # fmt: skip
    kv_heads = keys._shape[-3]
    lead, heads = qkv._shape[:-1], qkv._shape[-1] // size - 2 * kv_heads
    x = qkv.reshape(*lead, heads + 2 * kv_heads, size)  # (..., T, H + 2 KV, D)
    rotated = x[..., : heads + kv_heads, :]  # (..., T, H + KV, D)
    if table is not None and qkv.ndim == 3:
        each = [_rope(rotated[b], table, position[b : b + 1], interleaved) for b in range(qkv._shape[0])]
        rotated = stack(each) if each else rotated
    elif table is not None:
        rotated = _rope(rotated, table, position, interleaved)
    cache_write(keys, rotated[..., heads:, :], position, block_table)
    cache_write(values, x[..., heads + kv_heads :, :], position, block_table)
    q = rotated[..., :heads, :]
    y = _cached_attention(q, keys, values, position, scale, window, softcap, slopes, sinks, block_table)
    return y.reshape(*lead, heads * size)


@function()
def cached_self_attention(
    qkv: Tensor, table: Tensor | None, position: Tensor, keys: Tensor, values: Tensor, interleaved: bool = True,
    scale: float | None = None, window: int | None = None, softcap: float | None = None, slopes: Tensor | None = None,
    head_dim: int | None = None, block_table: Tensor | None = None, sinks: Tensor | None = None,
) -> Tensor:  # fmt: skip
    """Self-attention over a cache, from one projection. qkv (T, (H + 2 KV) * D) = [q, k, v] is overwritten; q and k are
    rotated by `table` as by rope (None: they are not); caches (KV, capacity, D) are written at position[0] … → (T, H *
    D). Or for B texts: qkv (B, T, (H + 2 KV) * D), caches (B, KV, capacity, D) and position (B,) → (B, T, H * D).

    The other arguments are those of cached_attention. head_dim is D; a cache in q8_0 needs it. IndexError past the end
    of the cache or the table.
    """
    name = "cached_self_attention"
    size = keys._shape[-1] if head_dim is None else head_dim
    if table is not None:
        _check_table(table)
        if 2 * table._shape[1] > size:
            raise ValueError(f"{name}: the table {describe(table)} does not fit heads of {size}")
    if head_dim is None and keys.dtype is _dtype.uint8:
        raise ValueError(f"{name}: a cache in q8_0 does not tell the size of a head; give head_dim")
    lead = len(keys._shape) - 1 if block_table is None else min(max(len(qkv._shape), 2), 3)
    if len(keys._shape) not in (3, 4) or len(qkv._shape) != lead or size < 1:
        raise ValueError(f"{name}: {describe(qkv)} does not fit caches {describe(keys)} and {describe(values)}")
    if qkv._shape[-1] % size or qkv._shape[-1] <= 2 * keys._shape[-3] * size:
        raise ValueError(f"{name}: {describe(qkv)} is not (T, (H + 2 KV) * D) for caches {describe(keys)}")
    heads = qkv._shape[-1] // size - 2 * keys._shape[-3]
    check_cache(name, keys, qkv._shape[:-2], size, position, block_table)
    _check_caches(name, heads, keys, values)
    check_score_options(name, heads, window, softcap, slopes, sinks)
    scale = 1.0 / sqrt(size) if scale is None else scale
    return _cached_self_attention(
        qkv, table, position, keys, values, size, interleaved, scale, window, softcap, slopes, sinks, block_table
    )
