"""DeepSeek's sparse attention (DeepSeek-AI 2025, https://github.com/deepseek-ai/DeepSeek-V3.2-Exp): an indexer chooses
the tokens to which latent attention attends.
"""

from __future__ import annotations

from math import inf
from typing import Any

from ...engine import Device, Tensor, no_grad, ops
from ...engine.dtype import as_dtype, float16, float32, int8, int32, q8_0, uint8
from ...engine.grad_mode import STATE
from ...engine.ops.indexer import pieces
from ...engine.ops.kv_cache import BLOCK
from ..heads import Heads, split_heads
from ..layers.linear import Linear
from ..layers.normalization import LayerNorm
from ..module import Module
from ..recurrent.hybrid import MixedCache
from .caches import FixedCache, PackedLayer, TextCache, decoder_cache
from .decoder import CachedText, RotaryTable, Text, WholeText
from .latent_attention import LatentAttention

EPSILON = 1e-6  # of the norm of the indexer's keys
NUMBERS = 1 << 24  # of chosen keys that are in memory at a time


class IndexedCache(MixedCache):
    """The caches of `layers` layers, and after them those of the keys of `indexers` indexers, in float16 where the
    others are in q8_0: a cache has the keys of two indexers, one's in the place of values.
    """

    def __init__(
        self, layers: int, indexers: int, kv_heads: int, head_dim: int, index_dim: int, capacity: int,
        texts: int | None, device: Device, dtype: Any,
    ) -> None:  # fmt: skip
        pairs = -(-indexers // 2)
        kept = float16 if as_dtype(dtype) is q8_0 else dtype
        super().__init__([0] * layers + [1] * pairs, [
            decoder_cache(texts, layers, kv_heads, capacity, head_dim, device, dtype),
            decoder_cache(texts, pairs, 1, capacity, index_dim, device, kept),
        ])  # fmt: skip


class CachedIndexedText(CachedText):
    """The tokens (T,) at position[0] … of a text, or those of several texts, with the earlier ones in an IndexedCache.
    `chosen` is as that of WholeText, but the places (..., T, count) of the tokens.
    """

    def __init__(self, position: Tensor, cache: TextCache) -> None:
        super().__init__(position, cache)
        self.chosen: Tensor | None = None

    def narrowed(self, seen: Tensor) -> Text:
        """The text where each token sees those at the places (..., T, count), if they are not after its own."""
        return ChosenText(self, seen)


class ChosenText(CachedText):
    """A text whose tokens see those at the places `seen` (..., T, count), if they are not after their own."""

    def __init__(self, text: CachedText, seen: Tensor) -> None:
        self.position, self.layers, self.length, self._seen = text.position, text.layers, text.length, seen

    def attention(self, layer: int, qkv: Tensor, heads: Heads, rotary: RotaryTable | None) -> Tensor:
        """As Text.attention, of one head of keys whose values are the keys."""
        table = None if rotary is None else rotary.upto(self.length, qkv.device)

        def attend(cache: FixedCache, position: Tensor, qkv: Tensor, seen: Tensor) -> Tensor:
            texts = cache.by_texts(qkv.ndim == 3, position, qkv, seen)
            found = [_attention_to_chosen(own, place, x, heads, table, places) for own, place, x, places in texts]
            return ops.stack(found) if qkv.ndim == 3 else found[0]

        y = by_pieces(self.layers[layer], attend, self.position, qkv.to(float32), self._seen)
        return y.to(qkv.dtype)


def by_pieces(layer: Any, step: Any, position: Tensor, *inputs: Tensor) -> Tensor:
    """PackedLayer.by_pieces, or the step of the only piece."""
    if isinstance(layer, PackedLayer):
        return layer.by_pieces(step, position, *inputs)
    y: Tensor = step(layer, position, *inputs)
    return y


def _attention_to_chosen(
    cache: FixedCache, position: Tensor, qkv: Tensor, heads: Heads, table: Tensor | None, chosen: Tensor
) -> Tensor:
    """Attention of a text's next tokens qkv (T, (H + 2) * D), whose keys are written to the cache, to those at the
    places chosen (T, count) → (T, H * D). So it takes as long in a text of any length.
    """
    tokens, count, size = qkv.shape[0], chosen.shape[1], heads.head_dim
    q, k, _ = split_heads(qkv, heads)  # (T, H, D), (T, 1, D)
    if table is not None:
        q, k = (ops.rope(x, table, position, heads.interleaved) for x in (q, k))
    ops.cache_write(cache.keys, k, position, cache.block_table)
    own = (ops.arange(tokens, dtype=int32, device=position.device) + position).unsqueeze(1)  # (T, 1)
    seen = chosen <= own
    places = rows_of_cache(cache, ops.where(seen, chosen, own))  # what has not been written may have any bytes
    memory, found = cache.keys.reshape(-1, cache.keys.shape[-1]), []
    for first, some in pieces(tokens, count * size, NUMBERS):
        kept = memory.index_select(0, places.narrow(0, first, some).reshape(-1))  # (t * count, D)
        keys = numbers_of(kept, size).to(q.dtype).reshape(some, count, 1, size)
        mask = seen.narrow(0, first, some).reshape(some, 1, 1, count)
        rows = q.narrow(0, first, some).unsqueeze(3)  # (t, H, 1, D): heads as tokens, which have one head of keys
        rows = rows.reshape(some, heads.heads, 1, size)
        found.append(ops.attention(rows, keys, keys, False, heads.scale, mask=mask))
    y = found[0] if len(found) == 1 else ops.cat(found, 0)
    return y.reshape(tokens, heads.heads * size)


def rows_of_cache(cache: FixedCache, places: Tensor) -> Tensor:
    """The rows in a text's cache, one head's, of tokens at some places (...) int32 → (...) int32."""
    if cache.block_table is None:
        return places
    block = cache.keys.shape[2]
    parts = ops.div(places, block, rounding_mode="floor")
    blocks = cache.block_table.reshape(-1).index_select(0, parts.reshape(-1))
    return blocks.reshape(places.shape) * block + (places - parts * block)


def numbers_of(rows: Tensor, size: int) -> Tensor:
    """Rows (M, row_bytes(size)) of a cache in q8_0 → (M, size) float32; of another type: as they are."""
    if rows.dtype is not uint8:
        return rows
    numbers, scales = rows.narrow(1, 0, size), rows.narrow(1, size, rows.shape[1] - size)
    each = scales.contiguous().view(float16).to("float32").repeat_interleave(BLOCK, 1).narrow(1, 0, size)
    return numbers.contiguous().view(int8).to("float32") * each


class Indexer(Module):
    """Scores of the tokens before each: small heads of queries of the compressed ones, one head of keys, and a weight
    for each head. `config` has index_topk, index_n_heads and index_head_dim; `number` counts a model's indexers. It
    gets no gradients.
    """

    def __init__(self, config: Any, number: int, rotary: RotaryTable) -> None:
        super().__init__()
        self.heads, self.head_dim, self.count = config.index_n_heads, config.index_head_dim, config.index_topk
        self.layer, self.part = config.num_hidden_layers + number // 2, number % 2
        self.rotary, self.interleaved = rotary, config.index_interleaved
        self.wq_b = Linear(config.q_lora_rank, self.heads * self.head_dim, bias=False)
        self.wk = Linear(config.hidden_size, self.head_dim, bias=False)
        self.k_norm = LayerNorm(self.head_dim, EPSILON)
        self.weights_proj = Linear(config.hidden_size, self.heads, bias=False)

    def _parts(self, x: Tensor, compressed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """x (..., T, hidden_size), compressed queries (..., T, q_lora_rank) → queries (..., T, heads, D), keys (..., T,
        1, D), both to be rotated, and weights (..., T, heads).
        """
        queries = self.wq_b(compressed).reshape(*x.shape[:-1], self.heads, self.head_dim)
        weights = self.weights_proj(x) * (self.heads * self.head_dim) ** -0.5
        return queries, self.k_norm(self.wk(x)).unsqueeze(-2), weights

    def forward(self, x: Tensor, compressed: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, hidden_size), compressed queries (B, T, q_lora_rank), mask (B, 1, 1, T) bool of a text's tokens →
        (B, 1, T, T) bool, the tokens that each sees.
        """
        with no_grad():
            tokens = x.shape[1]
            table = self.rotary.upto(tokens, x.device)
            queries, keys, weights = self._parts(x, compressed)
            queries, keys = (ops.rope(part, table, interleaved=self.interleaved) for part in (queries, keys))
            scores = (queries.transpose(1, 2) @ keys.transpose(1, 2).transpose(2, 3)).relu()  # (B, H, T, T)
            total = (scores * weights.transpose(1, 2).unsqueeze(-1)).sum(1)  # (B, T, T)
            places = ops.arange(tokens, device=x.device)
            seen = places.unsqueeze(0) <= places.unsqueeze(1)  # (T, T)
            seen = seen.unsqueeze(0) if mask is None else seen & mask.squeeze(1)
            total = ops.where(seen, total, -inf)
            if STATE.traced:  # so many can be chosen of any text
                total = ops.cat([total, ops.full((*total.shape[:-1], self.count), -inf, device=x.device)], -1)
            chosen = total.topk(min(self.count, total.shape[-1]), -1)[1]  # (B, T, count)
            found = ops.scatter(ops.zeros(*total.shape, device=x.device), -1, chosen, 1.0).narrow(-1, 0, tokens)
            return (found > 0).unsqueeze(1) & seen.unsqueeze(1)

    def of_cache(self, x: Tensor, compressed: Tensor, text: CachedIndexedText) -> Tensor:
        """x (..., T, hidden_size), compressed queries (..., T, q_lora_rank) of the next tokens → the places (..., T,
        count) int32 of those that each sees, which may have some after its own. The keys are written to the cache.
        """
        table = self.rotary.upto(text.length, x.device)

        def choose(cache: FixedCache, position: Tensor, *parts: Tensor) -> Tensor:
            several = parts[0].ndim == 4
            texts = cache.by_texts(several, position, *parts)
            found = [self._chosen(own, place, table, *rows) for own, place, *rows in texts]
            return ops.stack(found) if several else found[0]

        parts = (part.to(float32) for part in self._parts(x, compressed))
        return by_pieces(text.layers[self.layer], choose, text.position, *parts)

    def _chosen(
        self, cache: FixedCache, position: Tensor, table: Tensor, queries: Tensor, keys: Tensor, weights: Tensor
    ) -> Tensor:
        """As of_cache, of one text's queries (T, heads, D), keys (T, 1, D) and weights (T, heads)."""
        memory, blocks = (cache.keys, cache.values)[self.part], cache.block_table
        queries, keys = (ops.rope(x, table, position, self.interleaved) for x in (queries, keys))
        ops.cache_write(memory, keys, position, blocks)
        places = memory.shape[-2] * (1 if blocks is None else blocks.shape[1])
        return ops.indexed_places(queries, weights, memory, position, min(self.count, places), blocks)


class SparseLatentAttention(LatentAttention):
    """Latent attention to the tokens that an indexer chooses, of which it is number `indexer`; None: to those of the
    layer before. Texts of index_topk tokens or fewer are seen whole.
    """

    def __init__(self, config: Any, layer: int, rotary: RotaryTable, indexer: int | None) -> None:
        super().__init__(config, layer, rotary)
        self.count = config.index_topk
        self.indexer = None if indexer is None else Indexer(config, indexer, rotary)

    def narrowed(self, x: Tensor, compressed: Tensor | None, text: Any) -> Any:
        if text.length <= self.count and not STATE.traced:  # what is written down is for longer texts, too
            return text
        if self.indexer is not None:
            assert compressed is not None
            whole = isinstance(text, WholeText)
            text.chosen = (
                self.indexer(x, compressed, text.mask) if whole else self.indexer.of_cache(x, compressed, text)
            )
        assert text.chosen is not None
        return text.narrowed(text.chosen)
