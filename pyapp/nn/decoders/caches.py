"""Caches of attention: keys and values that are computed once and read by every query that follows.

A cache belongs to one attention layer. `write` stores keys and values (T, KV, D). `attend` computes the attention of
queries (T, H, D) to the stored keys and values; H is a multiple of KV.

- `LayerCache`: the text so far. `FixedCache` has memory for a number of tokens from the start, takes the position from
  a tensor and can be captured in a Graph; `GrowingCache` grows with the text; `RotatingCache` keeps the last tokens.
- `SequenceCache`: another sequence; every query attends to all of it. `CrossCache` in float32 or float16,
  `Int8CrossCache` in int8.
- `TextCache`: the `LayerCache`s of all layers of a decoder. `KVCache` has a `FixedCache` for each, `BatchCache` one for
  several texts, `PagedCache` one for several texts in blocks of a common memory, and `PackedCache` is that for a pass
  in which texts read unequal numbers of tokens.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from ...engine import Device, Tensor, no_grad, ops
from ...engine.buffers import int32_tensor
from ...engine.dtype import DType, as_dtype, float16, float32, int32, q8_0, uint8
from ...engine.ops import arange, cat, empty, where, zeros
from ...engine.ops.create import late_zeros
from ...engine.ops.full_attention import check_score_options
from ...engine.ops.int8_attention import LARGEST_HEAD, int8_attention, pack_keys_int8, pack_values_int8, packed_bytes
from ...engine.ops.kv_cache import cached_rows, row_bytes
from ...engine.user_errors import describe
from ...errors import ArgumentError
from ..heads import Heads

__all__ = [
    "BatchCache", "CrossCache", "FixedCache", "GrowingCache", "Int8CrossCache", "KVCache", "PackedCache",
    "PagedCache", "RotatingCache",
]  # fmt: skip


class LayerCache(Protocol):
    """The keys and values of the text so far, for one attention layer of a decoder."""

    def write(self, keys: Tensor, values: Tensor, position: Tensor) -> None:
        """Stores keys and values (T, KV, D) of the tokens at position[0] …; `position` is int32 (1,)."""
        ...

    def attend(self, q: Tensor, position: Tensor, heads: Heads | None = None) -> Tensor:
        """Causal attention of q (T, H, D) at position[0] … : each row attends to the stored tokens up to its own
        position → (T, H, D). The scale, window, softcap, slopes and sinks are those of `heads`; None: the scale 1 /
        sqrt(D) alone.
        """
        ...

    def rotary_attention(self, qkv: Tensor, heads: Heads, table: Tensor | None, position: Tensor) -> Tensor:
        """Rotates q and k of qkv (T, (H + 2 KV) * D) = [q, k, v] by `table` (ops.rope; None: not), stores k and v,
        attends → (T, H * D). qkv is overwritten.
        """
        ...


class TextCache(Protocol):
    """The caches of all layers of a decoder."""

    @property
    def layers(self) -> Sequence[LayerCache]: ...


class SequenceCache(Protocol):
    """The keys and values of another sequence, for one attention layer."""

    def write(self, keys: Tensor, values: Tensor) -> None:
        """Stores keys and values (S, KV, D) of the whole sequence in place, so captured Graphs keep reading the same
        memory.
        """
        ...

    def attend(self, q: Tensor) -> Tensor:
        """Attention of q (T, H, D) to all of the sequence → (T, H, D)."""
        ...


# -- the text so far


class _LayerCache:
    """Base of the caches of one layer. `length` counts the tokens that `append` has stored."""

    def __init__(self) -> None:
        self.length = 0
        self._visible: tuple[Tensor, Tensor] | None = None  # the keys and values of the last append

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Stores the keys and values (T, KV, D) of the next tokens; returns the keys and values to attend to, (KV, S,
        D) each.

        This is for attention written by hand. `mask` says which keys each token may attend to.
        """
        if keys.ndim != 3 or keys.shape != values.shape:
            raise ArgumentError(
                f"{type(self).__name__}: takes keys and values (T, KV, D), got {describe(keys)}, {describe(values)}"
            )
        with no_grad():
            found = self._append(*(t.detach().transpose(0, 1) for t in (keys, values)))
        self.length += keys.shape[0]
        self._visible = found
        return found

    def _append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        raise NotImplementedError

    def mask(self, tokens: int) -> Tensor:
        """(tokens, S) bool: the keys of the last append that each of the last `tokens` tokens may attend to."""
        own = arange(self.length - tokens, self.length).unsqueeze(1)
        return own >= arange(self.length)

    def reset(self) -> None:
        """Forgets everything."""
        self.length = 0
        self._visible = None

    def rewind(self, length: int) -> None:
        """Forgets the tokens from `length` on. ArgumentError if the cache no longer holds that state."""
        if length == 0:
            self.reset()
        elif length != self.length:
            raise ArgumentError(f"{type(self).__name__}: holds {self.length} tokens, the next ones begin at {length}")

    def write(self, keys: Tensor, values: Tensor, position: Tensor) -> None:
        """As LayerCache.write. Python reads `position`, so a Graph cannot replay the call."""
        self.rewind(int(position.item()))
        self.append(keys, values)

    def attend(self, q: Tensor, position: Tensor, heads: Heads | None = None) -> Tensor:
        """As LayerCache.attend, for the tokens that were written last."""
        if self._visible is None:
            raise ArgumentError(f"{type(self).__name__}: holds no tokens to attend to")
        tokens, count, size = q.shape
        heads = Heads(count, count, size) if heads is None else heads
        window, softcap, slopes = heads.window, heads.softcap, heads.slopes
        check_score_options(type(self).__name__, count, window, softcap, slopes, heads.sinks)
        keys, values = self._visible
        mask, positions = self.mask(tokens), self._positions()
        own = arange(self.length - tokens, self.length).unsqueeze(1)
        if window is not None:
            mask = mask.logical_and(own - positions < window)
        if heads.chunk is not None:
            mask = mask.logical_and(positions >= chunk_start(own, heads.chunk))
        if slopes is not None:
            apart = (positions - own).to(q.device, q.dtype).unsqueeze(0)  # (1, T, S)
            mask = where(mask.to(q.device), slopes.reshape(count, 1, 1) * apart, float("-inf"))
        keys, values = (x.to(q.dtype).transpose(0, 1).unsqueeze(0) for x in (keys, values))  # (1, S, KV, D)
        mask = mask.to(q.device).reshape(1, -1, *mask.shape[-2:])  # (1, 1 or H, T, S)
        return ops.attention(
            q.unsqueeze(0), keys, values, False, heads.scale, softcap=softcap, mask=mask, sinks=heads.sinks
        ).squeeze(0)

    def _positions(self) -> Tensor:
        """(S,): the positions of the keys of the last append."""
        return arange(self.length)

    def rotary_attention(self, qkv: Tensor, heads: Heads, table: Tensor | None, position: Tensor) -> Tensor:
        """As LayerCache.rotary_attention."""
        if qkv.shape[1] != heads.width:
            sizes = f"({heads.heads} + 2 * {heads.kv_heads}) * {heads.head_dim}"
            raise ArgumentError(f"{type(self).__name__}: {describe(qkv)} is not (T, {sizes})")
        count, kv = heads.heads, heads.kv_heads
        x = qkv.reshape(qkv.shape[0], count + 2 * kv, heads.head_dim)  # (T, H + 2 KV, D)
        qk = x.narrow(1, 0, count + kv)  # (T, H + KV, D)
        if table is not None:
            qk = ops.rope(qk, table, position, heads.interleaved)
        self.write(qk.narrow(1, count, kv), x.narrow(1, count + kv, kv), position)
        y = self.attend(qk.narrow(1, 0, count), position, heads)
        return y.reshape(qkv.shape[0], count * heads.head_dim)


class GrowingCache(_LayerCache):
    """Joins new tokens to the stored ones: memory grows with the text."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: tuple[Tensor, Tensor] | None = None

    def _append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        if self._kept is None:
            self._kept = keys.contiguous(), values.contiguous()
        else:
            old_keys, old_values = self._kept
            self._kept = cat([old_keys, keys], 1), cat([old_values, values], 1)
        return self._kept

    def reset(self) -> None:
        super().reset()
        self._kept = None

    def rewind(self, length: int) -> None:
        if self._kept is not None and 0 < length < self.length:
            keys, values = self._kept
            self._kept = self._visible = keys.narrow(1, 0, length), values.narrow(1, 0, length)
            self.length = length
        super().rewind(length)


def _cache_layout(name: str, dtype: Any, head_dim: int) -> tuple[Any, int]:
    """(dtype of the memory, size of its last dim) of a cache for heads of `head_dim`."""
    kind = as_dtype(dtype)
    if kind is q8_0:
        return uint8, row_bytes(head_dim)
    if not kind.is_floating_point or kind.is_quantized:
        raise ArgumentError(f"{name}: a cache holds float32, float16 or q8_0, not {kind.name}")
    return kind, head_dim


class FixedCache(_LayerCache):
    """Allocates memory for `capacity` tokens at the start: `keys` and `values` (KV, capacity, D).

    dtype "float16" halves the memory of "float32"; "q8_0" takes little more than a quarter, and `keys` and `values` are
    uint8 (KV, capacity, row_bytes(D)) (engine/ops/kv_cache.py). What is written is rounded, queries and results are
    float32. "bfloat16" is for CUDA; on other devices attention to it runs op by op, and a Graph cannot record it.

    `write`, `attend` and `rotary_attention` take the position from a tensor and do not change `length`, so a Graph can
    replay them; an earlier position takes the text back. `append` advances `length` and returns views of the memory,
    which a cache in q8_0 does not have. IndexError past the capacity.
    """

    def __init__(
        self, capacity: int, kv_heads: int, head_dim: int, dtype: Any = "float32", device: Device | str | None = None
    ) -> None:
        if min(capacity, kv_heads, head_dim) < 1:
            raise ArgumentError(
                f"{type(self).__name__}: {capacity} tokens of {kv_heads} heads of {head_dim}; each must be 1 or more"
            )
        kind, width = _cache_layout(type(self).__name__, dtype, head_dim)
        keys, values = (late_zeros(kv_heads, capacity, width, dtype=kind, device=device) for _ in range(2))
        self._take(keys, values, head_dim)

    @classmethod
    def over(
        cls, keys: Tensor, values: Tensor, head_dim: int | None = None, block_table: Tensor | None = None
    ) -> FixedCache:
        """An empty cache in existing memory: `keys` and `values` (KV, capacity, D), or (B, KV, capacity, D) for B
        texts, dense; with a block_table (B, parts) int32, (blocks, KV, block, D) (engine/ops/kv_cache.py). head_dim is
        D, which memory in q8_0 does not tell.
        """
        self = cls.__new__(cls)
        self._take(keys, values, keys.shape[-1] if head_dim is None else head_dim, block_table)
        return self

    def _take(self, keys: Tensor, values: Tensor, head_dim: int, block_table: Tensor | None = None) -> None:
        super().__init__()
        self.keys, self.values, self.head_dim, self.block_table = keys, values, head_dim, block_table
        self.capacity = keys.shape[-2] * (1 if block_table is None else block_table.shape[1])

    @property
    def nbytes(self) -> int:
        return self.keys.nbytes + self.values.nbytes

    def write(self, keys: Tensor, values: Tensor, position: Tensor) -> None:
        """As LayerCache.write."""
        ops.cache_write(self.keys, keys, position, self.block_table)
        ops.cache_write(self.values, values, position, self.block_table)

    def attend(self, q: Tensor, position: Tensor, heads: Heads | None = None) -> Tensor:
        """As LayerCache.attend."""
        if heads is None:
            return ops.cached_attention(q, self.keys, self.values, position, block_table=self.block_table)
        return ops.cached_attention(
            q, self.keys, self.values, position, heads.scale, heads.window, heads.softcap, heads.slopes,
            self.block_table, heads.sinks,
        )  # fmt: skip

    def attend_to_first(self, q: Tensor, count: Tensor) -> Tensor:
        """Attention of q (T, H, D) to the first count[0] of what is stored, or of q (B, T, H, D) of several texts to
        the first count[b] → as q. All rows of a text attend to the same; `count` is a float (1,) or (B,). Where it is
        0, the result means nothing.
        """
        tokens, heads, size = q.shape[-3:]
        kv, lead = self.keys.shape[-3], q.shape[:-3]
        rows = q.reshape(*lead, tokens, kv, heads // kv, size).transpose(-4, -3)  # as heads of one token
        rows = rows.reshape(*lead, 1, tokens * heads, size)
        y = self.attend(rows, (count - 1).clamp(0).to(int32))
        return y.reshape(*lead, kv, tokens, heads // kv, size).transpose(-4, -3).reshape(q.shape)

    def stored(self, end: int) -> tuple[Tensor, Tensor]:
        """The keys and values (1, end, KV, D) float32 of the first `end` tokens of one text."""
        found = (cached_rows(c, end, self.head_dim, self.block_table).to(float32) for c in (self.keys, self.values))
        keys, values = found
        return keys, values

    def rotary_attention(self, qkv: Tensor, heads: Heads, table: Tensor | None, position: Tensor) -> Tensor:
        """As LayerCache.rotary_attention, in one call of the kernels."""
        if heads.head_dim != self.head_dim or heads.kv_heads != self.keys.shape[-3]:
            raise ArgumentError(
                f"{type(self).__name__}: has {self.keys.shape[-3]} heads of {self.head_dim}, not {heads.kv_heads} of "
                f"{heads.head_dim}"
            )
        if heads.chunk is not None and self.capacity > heads.chunk:
            return self._within_chunks(qkv, heads, table, position)
        return ops.cached_self_attention(
            qkv, table, position, self.keys, self.values, heads.interleaved, heads.scale, heads.window, heads.softcap,
            heads.slopes, self.head_dim, self.block_table, heads.sinks,
        )  # fmt: skip

    def _within_chunks(self, qkv: Tensor, heads: Heads, table: Tensor | None, position: Tensor) -> Tensor:
        """As rotary_attention, of texts that may have several chunks. No kernel does this: all memory of a text is
        read, so that a Graph can replay it at any position.
        """
        if self.keys.dtype is uint8:
            raise ArgumentError(
                f"{type(self).__name__}: attention in chunks of {heads.chunk:,} tokens reads no cache in q8_0 of "
                "longer texts: take float16, or a smaller context"
            )
        several = qkv.ndim == 3
        found = [
            _of_chunk(own, heads, table, place, (cache.keys, cache.values), cache.block_table)
            for cache, place, own in self.by_texts(several, position, qkv)
        ]
        return ops.stack(found) if several else found[0]

    def by_texts(self, several: bool, position: Tensor, *inputs: Tensor) -> Iterator[tuple[Any, ...]]:
        """The cache of each text, its position (1,) and its inputs, of inputs (B, ...) if there are `several` texts:
        keys and values are (KV, capacity, D), or (blocks, KV, block, D) with a block table (1, parts).
        """
        if not several:
            yield self, position, *inputs
            return
        for text in range(position.shape[0]):
            keys, values, blocks = self.keys, self.values, self.block_table
            if blocks is None:
                keys, values = keys.select(0, text), values.select(0, text)
            else:
                blocks = blocks.narrow(0, text, 1)
            own = FixedCache.over(keys, values, self.head_dim, blocks)
            yield own, position.narrow(0, text, 1), *(x.select(0, text) for x in inputs)

    def _append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        if self.keys.ndim != 3 or self.keys.dtype is uint8:
            raise ArgumentError("FixedCache: of several texts, or in q8_0, it has write and attend, but no append")
        end = self.length + keys.shape[1]
        if end > self.capacity:
            raise IndexError(f"FixedCache: {end} tokens do not fit into {self.capacity}")
        self.keys[:, self.length : end].copy_(keys)
        self.values[:, self.length : end].copy_(values)
        return self.keys[:, :end], self.values[:, :end]


def chunk_start(places: Tensor, chunk: int) -> Tensor:
    """The first position of the chunks in which places are."""
    return ops.div(places, chunk, rounding_mode="floor") * chunk


def _of_chunk(
    qkv: Tensor, heads: Heads, table: Tensor | None, position: Tensor, memory: tuple[Tensor, Tensor],
    blocks: Tensor | None,
) -> Tensor:  # fmt: skip
    """Attention of a text's next tokens qkv (T, (H + 2 KV) * D) to those of their chunk, stored in `memory` (keys,
    values), which gets theirs → (T, H * D).
    """
    assert heads.chunk is not None
    tokens, count, kv = qkv.shape[0], heads.heads, heads.kv_heads
    x = qkv.reshape(tokens, count + 2 * kv, heads.head_dim)
    qk = x.narrow(1, 0, count + kv)  # (T, H + KV, D)
    if table is not None:
        qk = ops.rope(qk, table, position, heads.interleaved)
    stored = []
    for cache, new in zip(memory, (qk.narrow(1, count, kv), x.narrow(1, count + kv, kv)), strict=True):
        ops.cache_write(cache, new, position, blocks)
        if blocks is not None:  # (parts, KV, block, D) → (KV, parts * block, D)
            cache = cache.index_select(0, blocks.reshape(-1).to("int64")).transpose(0, 1).flatten(1, 2)
        stored.append(cache.to(qkv.dtype).transpose(0, 1).unsqueeze(0))  # (1, S, KV, D)
    own = (arange(tokens, dtype=int32, device=qkv.device) + position).unsqueeze(1)  # (T, 1)
    keys = arange(stored[0].shape[1], dtype=int32, device=qkv.device)  # (S,)
    seen = (keys <= own) & (keys >= chunk_start(own, heads.chunk))
    written = (keys < position + tokens).reshape(1, -1, 1, 1)  # the rest of the memory may have any bytes
    values = where(written, stored[1], 0.0)
    y = ops.attention(
        qk.narrow(1, 0, count).unsqueeze(0), where(written, stored[0], 0.0), values, False, heads.scale,
        softcap=heads.softcap, mask=seen.reshape(1, 1, *seen.shape), sinks=heads.sinks,
    )  # fmt: skip
    return y.reshape(tokens, count * heads.head_dim)


class RotatingCache(_LayerCache):
    """A ring of the last `capacity` tokens, for attention with a limited window.

    `keys` and `values` (KV, capacity, D) are the ring; `positions` (S,) are the positions in the text of the keys that
    the last append returned.
    """

    def __init__(
        self, capacity: int, kv_heads: int, head_dim: int, dtype: Any = "float32", device: Device | str | None = None
    ) -> None:
        super().__init__()
        if as_dtype(dtype) is q8_0:
            raise ArgumentError("RotatingCache: holds float32 or float16, not q8_0; take a FixedCache with a window")
        ring = FixedCache(capacity, kv_heads, head_dim, dtype, device)
        self.capacity, self.keys, self.values, self.nbytes = capacity, ring.keys, ring.values, ring.nbytes
        self.positions = arange(0)

    def _ring(self) -> Tensor:
        """The position that each slot of the ring holds (negative: none yet), for `length` tokens."""
        slots = arange(self.capacity)
        last = self.length - 1
        return last - (last - slots).remainder(self.capacity)

    def _append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        count = keys.shape[1]
        if count == 1:  # in place: views in the ring's order
            slot = self.length % self.capacity
            self.keys[:, slot : slot + 1].copy_(keys)
            self.values[:, slot : slot + 1].copy_(values)
            self.length += 1
            filled = min(self.length, self.capacity)
            self.positions = self._ring()[:filled]
            self.length -= 1
            return self.keys[:, :filled], self.values[:, :filled]
        known = min(self.length, self.capacity)  # the first tokens attend to keys that later ones overwrite
        order = (arange(known, device=keys.device) + (self.length - known)).remainder(self.capacity)
        seen = [cat([t.index_select(1, order), n], 1) for t, n in ((self.keys, keys), (self.values, values))]
        self.positions = arange(self.length - known, self.length + count)
        kept = min(known + count, self.capacity)
        slots = (arange(kept, device=keys.device) + (self.length + count - kept)).remainder(self.capacity)
        for ring, every in zip((self.keys, self.values), seen, strict=True):
            ring[:, slots] = every[:, known + count - kept :]
        return seen[0], seen[1]

    def _positions(self) -> Tensor:
        return self.positions

    def mask(self, tokens: int) -> Tensor:
        """(tokens, S) bool: each token attends to itself and to at most the `capacity` - 1 tokens before it."""
        own = arange(self.length - tokens, self.length).unsqueeze(1)
        distance = own - self.positions
        return (distance >= 0).logical_and(distance < self.capacity)


class KVCache:
    """The caches of a decoder's layers: `layers[i]` is the cache of layer i, with memory for `capacity` tokens.

    All are in `memory` (2 * layers, KV, capacity, D): the keys of layer i at 2 i, its values at 2 i + 1. dtype is
    "float32", "float16" or "q8_0", as in FixedCache.
    """

    def __init__(
        self, layers: int, kv_heads: int, capacity: int, head_dim: int, device: Device | str | None = None,
        dtype: Any = "float32",
    ) -> None:  # fmt: skip
        if min(layers, kv_heads, capacity, head_dim) < 1:
            raise ArgumentError(
                f"KVCache: {capacity} tokens of {layers} layers of {kv_heads} heads of {head_dim}; each must be 1 or "
                "more"
            )
        kind, width = _cache_layout("KVCache", dtype, head_dim)
        self._take(late_zeros(2 * layers, kv_heads, capacity, width, dtype=kind, device=device), head_dim, kv_heads)

    def _take(self, memory: Tensor, head_dim: int, kv_heads: int) -> KVCache:
        self.memory, self.head_dim, self.capacity = memory, head_dim, memory.shape[2]
        parts = [part.squeeze(0).narrow(0, 0, kv_heads) for part in memory.split(1)]  # (KV, capacity, D) each
        self.layers = [FixedCache.over(*pair, head_dim) for pair in zip(parts[::2], parts[1::2], strict=True)]
        return self

    @classmethod
    def over(cls, memory: Tensor, head_dim: int) -> KVCache:
        """A cache in existing memory (2 * layers, KV, capacity, D); each layer's is dense."""
        return cls.__new__(cls)._take(memory, head_dim, memory.shape[1])

    def of_heads(self, count: int) -> KVCache:
        """A cache of the first `count` key and value heads, over the same memory."""
        return KVCache.__new__(KVCache)._take(self.memory, self.head_dim, count)

    @property
    def keys(self) -> list[Tensor]:
        """The keys (KV, capacity, D) of each layer."""
        return [layer.keys for layer in self.layers]

    @property
    def values(self) -> list[Tensor]:
        """The values (KV, capacity, D) of each layer."""
        return [layer.values for layer in self.layers]

    @property
    def nbytes(self) -> int:
        return self.memory.nbytes


class BatchCache:
    """The caches of a decoder's layers for `texts` texts that are decoded together: a KVCache with one more dim.

    `layers[i]` takes keys, values and queries (B, T, heads, D) or qkv (B, T, columns), and `position` is int32 (B,):
    token t of text b has the position position[b] + t. So each text has its own length; linear layers run over all B *
    T rows at once, and attention for each text. A Graph can replay it.

    T tokens of texts of unequal lengths are padded at their ends: the keys and values of padding are after the text's
    own, where none of its tokens sees them, and its next tokens overwrite them; only the results of the padding must be
    ignored. `position[b] + T` may not exceed the capacity. To go back in a text, give an earlier position.

    All is in `memory` (2 * layers, B, KV, capacity, D): the keys of layer i at 2 i, its values at 2 i + 1. dtype is
    "float32", "float16" or "q8_0", as in FixedCache.
    """

    # Methods that change the memory, and those that give caches over it: processes that compute together share them.
    CHANGES, VIEWS = ("copy", "reorder"), ("text", "first", "paged")

    def __init__(
        self, texts: int, layers: int, kv_heads: int, capacity: int, head_dim: int, device: Device | str | None = None,
        dtype: Any = "float32",
    ) -> None:  # fmt: skip
        if min(texts, layers, kv_heads, capacity, head_dim) < 1:
            raise ArgumentError(
                f"BatchCache: {texts} texts of {capacity} tokens, {layers} layers of {kv_heads} heads of {head_dim}; "
                "each must be 1 or more"
            )
        kind, width = _cache_layout("BatchCache", dtype, head_dim)
        self._take(late_zeros(2 * layers, texts, kv_heads, capacity, width, dtype=kind, device=device), head_dim)

    def _take(self, memory: Tensor, head_dim: int) -> BatchCache:
        self.memory, self.head_dim = memory, head_dim
        self.texts, self.capacity = memory.shape[1], memory.shape[3]
        parts = [part.squeeze(0) for part in memory.split(1)]  # (B, KV, capacity, D) each
        self.layers = [FixedCache.over(*pair, head_dim) for pair in zip(parts[::2], parts[1::2], strict=True)]
        return self

    def text(self, index: int) -> KVCache:
        """The cache of one text over the same memory, for tokens (T,) of this text alone, such as a prompt."""
        return KVCache.over(self._slot(index).squeeze(1), self.head_dim)

    def first(self, count: int) -> BatchCache:
        """A cache of the first `count` texts over the same memory."""
        if not 1 <= count <= self.texts:
            raise ArgumentError(f"BatchCache: has {self.texts} texts, not {count}")
        return BatchCache.__new__(BatchCache)._take(self.memory.narrow(1, 0, count), self.head_dim)

    def paged(self, texts: int, blocks: int, block: int, capacity: int) -> PagedCache:
        """A cache of its own for `texts` texts of at most `capacity` tokens each, with memory for `blocks` blocks of
        `block` tokens; layers, heads and dtype are those of this one. All entries of its table are 0.
        """
        if min(texts, blocks, block, capacity) < 1:
            raise ArgumentError(
                f"PagedCache: {texts} texts of {capacity} tokens, {blocks} blocks of {block}; 1 or more each"
            )
        layers, _, kv_heads, _, width = self.memory.shape
        device = self.memory.device
        memory = empty(layers, blocks, kv_heads, block, width, dtype=self.memory.dtype, device=device)
        parts = -(-capacity // block)
        return PagedCache(memory, self.head_dim, zeros(texts, parts, dtype=int32, device=device), capacity)

    def _slot(self, index: int) -> Tensor:
        if not 0 <= index < self.texts:
            raise ArgumentError(f"BatchCache: has the texts 0 .. {self.texts - 1}, not {index}")
        return self.memory.narrow(1, index, 1)  # (2 layers, 1, KV, capacity, D)

    def copy(self, source: int, target: int, length: int | None = None) -> None:
        """Copies the first `length` tokens (all, by default) of text `source` to text `target`."""
        self._copy(self._slot(target), self._slot(source), length)

    def _copy(self, target: Tensor, source: Tensor, length: int | None) -> None:
        if length is None:
            length = self.capacity
        if not 0 <= length <= self.capacity:
            raise ArgumentError(f"BatchCache: {length} tokens are not within the capacity of {self.capacity}")
        with no_grad():
            target.narrow(3, 0, length).copy_(source.narrow(3, 0, length))

    def reorder(self, order: Sequence[int], length: int | None = None) -> None:
        """Text i becomes what text order[i] was, as beam search and samplers need it: the first `length` tokens (all,
        by default). Texts that stay are not touched.
        """
        if len(order) != self.texts:
            raise ArgumentError(f"BatchCache: the order has {len(order)} entries for {self.texts} texts")
        slots = [self._slot(index) for index in range(self.texts)]
        for source in order:
            self._slot(source)
        waiting = {target: source for target, source in enumerate(order) if source != target}
        while waiting:
            needed = set(waiting.values())
            free = [target for target in waiting if target not in needed]
            if free:
                self._copy(slots[free[0]], slots[waiting.pop(free[0])], length)
                continue
            target, source = waiting.popitem()  # what is left are rings: one text waits outside
            kept = slots[target].clone()
            self._copy(slots[target], slots[source], length)
            while source != target:
                place, source = source, waiting.pop(source)
                self._copy(slots[place], kept if source == target else slots[source], length)

    @property
    def nbytes(self) -> int:
        return self.memory.nbytes


class PagedCache:
    """The caches of a decoder's layers for several texts, in blocks of a common memory (Kwon et al. 2023, arXiv
    2309.06180): a BatchCache whose texts take memory as they grow, and may share blocks.

    `memory` is (2 * layers, blocks, KV, block, D): the keys of layer i at 2 i, its values at 2 i + 1. `block_table` (B,
    parts) int32 says where the texts lie: the positions i * block … of text b are in block block_table[b, i]. Whoever
    owns the cache writes the table, by `place`. What a block holds is undefined until tokens are written.
    """

    CHANGES, VIEWS = ("place",), ("beside", "first", "packed")  # as BatchCache's

    def __init__(self, memory: Tensor, head_dim: int, block_table: Tensor, capacity: int) -> None:
        self.memory, self.head_dim, self.block_table = memory, head_dim, block_table
        self.texts, self.capacity = block_table.shape[0], capacity
        parts = [part.squeeze(0) for part in memory.split(1)]  # (blocks, KV, block, D) each
        self.layers = [
            FixedCache.over(*pair, head_dim, block_table) for pair in zip(parts[::2], parts[1::2], strict=True)
        ]

    def beside(self, texts: int) -> PagedCache:
        """A cache of other texts in the same memory."""
        table = zeros(texts, self.block_table.shape[1], dtype=int32, device=self.memory.device)
        return PagedCache(self.memory, self.head_dim, table, self.capacity)

    def first(self, count: int) -> PagedCache:
        """A cache of the first `count` texts over the same memory and table."""
        if not 1 <= count <= self.texts:
            raise ArgumentError(f"PagedCache: has {self.texts} texts, not {count}")
        return PagedCache(self.memory, self.head_dim, self.block_table.narrow(0, 0, count), self.capacity)

    def packed(self, pieces: Sequence[tuple[int, int]], rows: Sequence[int]) -> PackedCache:
        """A cache over the same memory and table for one pass over pieces of several texts, each (text, tokens); `rows`
        of them all are those whose logits are wanted.
        """
        return PackedCache(self, pieces, rows)

    def place(self, text: int, start: int, blocks: Sequence[int]) -> None:
        """The parts start … of a text lie in these blocks."""
        if blocks:
            self.block_table.narrow(0, text, 1).narrow(1, start, len(blocks)).assign(blocks)

    @property
    def nbytes(self) -> int:
        return self.memory.nbytes


class PackedCache:
    """The caches of a decoder's layers for a pass that reads a piece of each of several texts, of any number of tokens:
    parts of prompts beside the next tokens of other texts (Agrawal et al. 2023, arXiv 2308.16369).

    All tokens are rows, one piece after another: tokens (N, 1), and `position` (N,) int32 has the position of each row.
    So linear layers run over all rows at once, and attention for each piece; neighbouring texts of the table with one
    token each attend together. With last_only the model gives the logits of `rows` (R,) alone.
    """

    def __init__(self, cache: PagedCache, pieces: Sequence[tuple[int, int]], rows: Sequence[int]) -> None:
        self.capacity = cache.capacity
        runs: list[list[int]] = []  # the first row, the first text, texts, tokens of each
        count = 0
        for text, tokens in pieces:
            if not (0 <= text < cache.texts and tokens >= 1):
                raise ArgumentError(
                    f"PackedCache: a piece of {tokens} tokens of text {text}; there are {cache.texts} texts"
                )
            if runs and tokens == runs[-1][3] == 1 and text == runs[-1][1] + runs[-1][2]:
                runs[-1][2] += 1
            else:
                runs.append([count, text, 1, tokens])
            count += tokens
        if not rows or not 0 <= min(rows) <= max(rows) < count:
            raise ArgumentError(f"PackedCache: the rows {list(rows)} of {count}")
        tables = [(row, texts, tokens, cache.block_table.narrow(0, text, texts)) for row, text, texts, tokens in runs]
        self.layers = [PackedLayer(layer, tables) for layer in cache.layers]
        self.rows = int32_tensor(rows, cache.memory.device)


class PackedLayer:
    """The cache of one layer of a PackedCache; of each run of pieces the first row, texts, tokens and block table."""

    def __init__(self, layer: FixedCache, runs: Sequence[tuple[int, int, int, Tensor]]) -> None:
        self._runs = [
            (row, texts, tokens, FixedCache.over(layer.keys, layer.values, layer.head_dim, table))
            for row, texts, tokens, table in runs
        ]

    def by_pieces(self, step: Callable[..., Tensor], position: Tensor, *inputs: Tensor) -> Tensor:
        """step(cache, position, *inputs) of each run, whose cache has several texts: of inputs (N, 1, ...) it gets
        (texts, tokens, ...), of position (N,) (texts,). Its results (texts, tokens, ...) together are (N, 1, ...).
        """
        found = []
        for row, texts, tokens, cache in self._runs:
            own = (x.narrow(0, row, texts * tokens).reshape(texts, tokens, *x.shape[2:]) for x in inputs)
            y = step(cache, position.narrow(0, row, texts), *own)
            found.append(y.reshape(texts * tokens, 1, *y.shape[2:]))
        return found[0] if len(found) == 1 else cat(found, 0)

    def rotary_attention(self, qkv: Tensor, heads: Heads, table: Tensor | None, position: Tensor) -> Tensor:
        """As LayerCache.rotary_attention, of qkv (N, 1, (H + 2 KV) * D) and position (N,) → (N, 1, H * D)."""
        return self.by_pieces(lambda cache, at, x: cache.rotary_attention(x, heads, table, at), position, qkv)

    def attend_to_first(self, q: Tensor, count: Tensor) -> Tensor:
        """As FixedCache.attend_to_first, of q (N, 1, H, D) and count (N,) → (N, 1, H, D)."""
        return self.by_pieces(lambda cache, many, x: cache.attend_to_first(x, many), count, q)


def last_tokens(x: Tensor, cache: Any) -> Tensor:
    """x (T, dim) → (1, dim) of the last token; with a PackedCache (N, 1, dim) → (R, 1, dim) of its `rows`."""
    rows = getattr(cache, "rows", None)
    if rows is not None:
        return x.index_select(0, rows)
    return x.narrow(0, x.shape[0] - 1, 1) if x.shape[0] > 1 else x


def decoder_cache(
    texts: int | None, layers: int, kv_heads: int, capacity: int, head_dim: int, device: Device | str | None = None,
    dtype: Any = "float32",
) -> KVCache | BatchCache:  # fmt: skip
    """A KVCache; for a number of texts that are decoded together a BatchCache."""
    if texts is None:
        return KVCache(layers, kv_heads, capacity, head_dim, device, dtype)
    return BatchCache(texts, layers, kv_heads, capacity, head_dim, device, dtype)


# -- another sequence


class CrossCache:
    """The keys and values of a sequence of `length` positions in float32 or float16: `keys` and `values` (KV, length,
    D)."""

    def __init__(
        self, length: int, kv_heads: int, head_dim: int, device: Device | str | None = None, dtype: Any = float32
    ) -> None:
        shape = kv_heads, length, head_dim
        self.keys, self.values = (empty(*shape, device=device, dtype=dtype) for _ in range(2))
        self._start = zeros(1, dtype=int32, device=device)

    def write(self, keys: Tensor, values: Tensor) -> None:
        """As SequenceCache.write."""
        kv_heads, length, head_dim = self.keys.shape
        for x in (keys, values):
            if x.shape != (length, kv_heads, head_dim):
                raise ArgumentError(f"CrossCache: takes [{length}, {kv_heads}, {head_dim}], got {describe(x)}")
        ops.cache_write(self.keys, keys, self._start)
        ops.cache_write(self.values, values, self._start)

    def attend(self, q: Tensor) -> Tensor:
        """As SequenceCache.attend."""
        return ops.cross_attention(q, self.keys, self.values)


class Int8CrossCache:
    """The keys and values of a sequence of `length` positions packed in int8, in about a quarter of CrossCache's
    memory.

    The result of `attend` is within a few per cent of exact attention (engine/ops/int8_attention.py). Heads have at
    most 256 columns. ValueError for other sizes, MemoryError for more bytes than can be addressed.
    """

    def __init__(self, length: int, kv_heads: int, head_dim: int, device: Device | str | None = None) -> None:
        self.length, self.kv_heads, self.head_dim = length, kv_heads, head_dim
        sizes = packed_bytes(length, kv_heads, head_dim)
        self.keys, self.values = (empty(n, dtype=uint8, device=device) for n in sizes)

    def write(self, keys: Tensor, values: Tensor) -> None:
        """As SequenceCache.write, of float32."""
        shape = (self.length, self.kv_heads, self.head_dim)
        for x in (keys, values):
            if x.shape != shape:
                raise ArgumentError(f"Int8CrossCache: takes float32{list(shape)}, got {describe(x)}")
        pack_keys_int8(self.keys, keys)
        pack_values_int8(self.values, values)

    def attend(self, q: Tensor, scale: float | None = None) -> Tensor:
        """As SequenceCache.attend, of float32. Scores are multiplied by `scale`, 1 / sqrt(D) by default."""
        if q.ndim != 3 or q.shape[2] != self.head_dim:
            raise ArgumentError(f"Int8CrossCache: takes queries (T, H, {self.head_dim}), got {describe(q)}")
        return int8_attention(q, self.keys, self.values, self.length, self.kv_heads, scale)


def attends_in_int8(weight: Tensor, head_dim: int) -> bool:
    """Whether attention with heads of `head_dim` runs in int8. It does if the weight of its projection is quantised,
    and its device has no tensor cores."""
    return weight.dtype.is_quantized and head_dim <= LARGEST_HEAD and not weight.device.backend.tensor_cores


def activation_dtype(weight: Tensor) -> DType:
    """The type of numbers that are multiplied with each other beside `weight`: 16 bits for tensor cores if it has no
    more itself, else float32."""
    if weight.dtype is float32 or not weight.device.backend.tensor_cores:
        return float32
    return float16 if weight.dtype.is_quantized else weight.dtype


def cross_cache(weight: Tensor, length: int, kv_heads: int, head_dim: int) -> CrossCache | Int8CrossCache:
    """The cache for a sequence whose keys and values `weight` projects, on its device."""
    if attends_in_int8(weight, head_dim):
        return Int8CrossCache(length, kv_heads, head_dim, weight.device)
    dtype = float32 if activation_dtype(weight) is float32 else float16
    return CrossCache(length, kv_heads, head_dim, weight.device, dtype)
