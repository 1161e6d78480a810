"""DeepSeek V4's compressed attention (DeepSeek-AI 2026, https://huggingface.co/deepseek-ai/DeepSeek-V4-Flash-Base):
each token attends to those in a window before it, and of earlier ones to entries that stand for several tokens: to all
(heavily compressed), or to those that an indexer chooses (compressed sparse attention).

One vector of a token is key and value of all heads. An entry is a mean of the tokens of a part of the text, in which
each feature of each token has its own weight. The cache has, for each token, the entry that its part would have if it
ended there: so it can go back to any token, and texts can share their beginnings.
"""

from __future__ import annotations

from math import inf
from typing import Any

from ...engine import Device, Tensor, no_grad, ops
from ...engine.dtype import as_dtype, float16, float32, int32, q8_0
from ...engine.ops.indexer import pieces
from ..layers.linear import Linear
from ..layers.normalization import RMSNorm
from ..module import Module
from ..parameter import new_parameter
from ..recurrent.hybrid import MixedCache
from .caches import FixedCache, decoder_cache
from .decoder import CachedText, RotaryTable, WholeText
from .sparse_attention import by_pieces, numbers_of, rows_of_cache

NUMBERS = 1 << 24  # of keys that are in memory at a time
SLIDING, SPARSE, HEAVY = "sliding_attention", "compressed_sparse_attention", "heavily_compressed_attention"


class CompressedCache(MixedCache):
    """The caches of layers of these kinds: of each layer the tokens' vectors, and in the place of values the entries;
    then, of each layer that compresses, what its entries are made of; of each with an indexer the same of the
    indexer's; and the indexer's entries. `places` has the number of a layer's cache of each of these.
    """

    def __init__(
        self, kinds: list[str], head_dim: int, index_dim: int, capacity: int, texts: int | None, device: Device,
        dtype: Any,
    ) -> None:  # fmt: skip
        kept = float16 if as_dtype(dtype) is q8_0 else dtype
        widths = {"own": head_dim, HEAVY: head_dim, SPARSE: 2 * head_dim, "parts": 2 * index_dim, "index": index_dim}
        order = cache_order(kinds)
        names = [name for name in widths if any(kind == name for kind, _ in order)]
        parts = [
            decoder_cache(texts, sum(kind == name for kind, _ in order), 1, capacity, widths[name], device, kept)
            for name in names
        ]
        super().__init__([names.index(kind) for kind, _ in order], parts)


def cache_order(kinds: list[str]) -> list[tuple[str, int]]:
    """What the caches of layers hold, in order, and of which layer."""
    sparse = [layer for layer, kind in enumerate(kinds) if kind == SPARSE]
    own = [("own", layer) for layer in range(len(kinds))]
    own += [(kind, layer) for layer, kind in enumerate(kinds) if kind != SLIDING]
    return own + [("parts", layer) for layer in sparse] + [("index", layer) for layer in sparse]


def rows_at(cache: FixedCache, memory: Tensor, places: Tensor) -> Tensor:
    """The vectors (..., D) at places (...) int32 of a text's cache, of its keys or its values."""
    rows = rows_of_cache(cache, places).reshape(-1)
    found = memory.reshape(-1, memory.shape[-1]).index_select(0, rows)
    return numbers_of(found, memory.shape[-1]).to("float32").reshape(*places.shape, memory.shape[-1])


def each_text(text: CachedText, number: int, step: Any, *inputs: Tensor) -> Tensor:
    """step(cache, position (1,), *inputs (T, F)) of each text, with its cache of that number: of inputs (T, F), or (B,
    T, F) of several texts → the results together.
    """

    def run(cache: FixedCache, position: Tensor, *rows: Tensor) -> Tensor:
        several = rows[0].ndim == 3
        found = [step(own, place, *parts) for own, place, *parts in cache.by_texts(several, position, *rows)]
        return ops.stack(found) if several else found[0]

    inputs = tuple(x.to(float32) if x.is_floating_point() else x for x in inputs)  # as caches' kernels read them
    return by_pieces(text.layers[number], run, text.position, *inputs)


class Rotation(Module):
    """Rotary positions in the last features of vectors, whose pairs are neighbours."""

    def __init__(self, rotary: RotaryTable) -> None:
        super().__init__()
        self.rotary = rotary

    def forward(self, x: Tensor, length: int, places: Tensor) -> Tensor:
        """x (..., T, H, D) at places (T,) or (B, T) below `length` → (..., T, H, D)."""
        table = self.rotary.upto(length, x.device)
        turned = 2 * table.shape[1]
        plain = x.shape[-1] - turned
        found = ops.rope(x.narrow(-1, plain, turned).contiguous().to(float32), table, places, True).to(x.dtype)
        return ops.cat([x.narrow(-1, 0, plain), found], -1) if plain else found


class Compressor(Module):
    """Entries of `size` features, one for `rate` tokens. With `overlaps`, an entry is also of the tokens of the part
    before its own, of which other features are read. `number`: of its cache.
    """

    def __init__(
        self, hidden_size: int, size: int, rate: int, overlaps: bool, number: int, rotation: Rotation, epsilon: float
    ) -> None:  # fmt: skip
        super().__init__()
        width = 2 * size if overlaps else size
        self.size, self.rate, self.overlaps, self.number = size, rate, overlaps, number
        self.kv_proj = Linear(hidden_size, width, bias=False)
        self.gate_proj = Linear(hidden_size, width, bias=False)
        self.position_bias = new_parameter(ops.zeros, rate, width)
        self.kv_norm = RMSNorm(size, epsilon)
        self.rotation = rotation

    def _turned(self, x: Tensor, length: int, places: Tensor) -> Tensor:
        """Entries x (..., W, size) of parts that begin at places (W,), rotated."""
        return self.rotation(x.unsqueeze(-2), length, places).squeeze(-2)

    def whole(self, x: Tensor) -> Tensor | None:
        """Texts x (B, T, D) → the entries of their whole parts (B, W, size); None: there are none."""
        texts, tokens, _ = x.shape
        parts = tokens // self.rate
        if not parts:
            return None
        shape = texts, parts, self.rate, self.kv_proj.out_features
        kv, gate = (
            project(x).narrow(1, 0, parts * self.rate).reshape(shape) for project in (self.kv_proj, self.gate_proj)
        )
        gate = gate + self.position_bias
        if self.overlaps:
            kv, gate = self._beside(kv, 0.0), self._beside(gate, -inf)
        y = self.kv_norm((kv * gate.softmax(2)).sum(2))
        places = ops.arange(parts, dtype="int32", device=x.device) * self.rate
        return self._turned(y, tokens, places)

    def _beside(self, x: Tensor, nothing: float) -> Tensor:
        """x (B, W, rate, 2 size) → of each part the first features of the part before it, and its own second ones (B,
        W, 2 rate, size); the first part has `nothing` before it.
        """
        texts, parts, rate, _ = x.shape
        first = ops.full((texts, 1, rate, self.size), nothing, dtype=x.dtype, device=x.device)
        before = ops.cat([first, x.narrow(1, 0, parts - 1).narrow(3, 0, self.size)], 1)
        return ops.cat([before, x.narrow(3, self.size, self.size)], 2)

    def of_cache(self, x: Tensor, text: CachedText) -> Tensor:
        """The next tokens x (..., T, D) → for each the entry of its part up to it (..., T, size)."""

        def entries(cache: FixedCache, position: Tensor, kv: Tensor, gate: Tensor) -> Tensor:
            return self._entries(cache, position, kv, gate, text.length)

        return each_text(text, self.number, entries, self.kv_proj(x), self.gate_proj(x))

    def _entries(self, cache: FixedCache, position: Tensor, kv: Tensor, gate: Tensor, length: int) -> Tensor:
        """As of_cache, of one text's kv and gate (T, width), which are written to the cache."""
        tokens, rate, blocks = kv.shape[0], self.rate, cache.block_table
        for memory, rows in ((cache.keys, kv), (cache.values, gate)):
            ops.cache_write(memory, rows.unsqueeze(-2), position, blocks)
        own = ops.arange(tokens, dtype=int32, device=kv.device) + position  # (T,)
        begins = ops.div(own, rate, rounding_mode="floor") * rate
        span = 2 * rate if self.overlaps else rate
        counted = ops.arange(span, dtype=int32, device=kv.device) - (span - rate)
        places = begins.unsqueeze(1) + counted  # (T, span)
        seen = (places >= 0) & (places <= own.unsqueeze(1))
        places = ops.where(seen, places, own.unsqueeze(1))
        kv, gate = (rows_at(cache, memory, places) for memory in (cache.keys, cache.values))  # (T, span, width)
        bias = self.position_bias
        if self.overlaps:
            kv, gate = (self._halves(part, 1) for part in (kv, gate))  # (T, span, size)
            bias = self._halves(ops.cat([bias, bias]), 0)
        gate = ops.where(seen.unsqueeze(-1), gate + bias, -inf)
        return self._turned(self.kv_norm((kv * gate.softmax(1)).sum(1)), length, begins)

    def _halves(self, x: Tensor, dim: int) -> Tensor:
        """The first features of the first `rate` tokens along a dim, and the second ones of the others."""
        first, second = x.narrow(dim, 0, self.rate), x.narrow(dim, self.rate, self.rate)
        return ops.cat([first.narrow(-1, 0, self.size), second.narrow(-1, self.size, self.size)], dim)


class EntryIndexer(Compressor):
    """Chooses entries for each token, as sparse_attention.Indexer chooses tokens, by entries of its own. It gets no
    gradients.
    """

    def __init__(self, config: Any, layer: int, rotation: Rotation, numbers: dict[tuple[str, int], int]) -> None:
        rate, epsilon = config.compress_rates[SPARSE], config.rms_norm_eps
        super().__init__(
            config.hidden_size, config.index_head_dim, rate, True, numbers["parts", layer], rotation, epsilon
        )  # fmt: skip
        self.heads, self.count, self.index = config.index_n_heads, config.index_topk, numbers["index", layer]
        self.q_b_proj = Linear(config.q_lora_rank, self.heads * self.size, bias=False)
        self.scorer = Module()
        self.scorer.weights_proj = Linear(config.hidden_size, self.heads, bias=False)

    def _asked(self, x: Tensor, compressed: Tensor, length: int, places: Tensor) -> tuple[Tensor, Tensor]:
        """Rotated queries (..., T, heads, size), and weights of the heads (..., T, heads)."""
        queries = self.q_b_proj(compressed).reshape(*x.shape[:-1], self.heads, self.size)
        weights = self.scorer.weights_proj(x) * (self.heads * self.size) ** -0.5
        return self.rotation(queries, length, places), weights

    def chosen(self, x: Tensor, compressed: Tensor, seen: Tensor) -> Tensor:
        """x (B, T, D), compressed queries (B, T, q_lora_rank), seen (T, W) bool: which entries end before a token →
        (B, T, W) bool, those that it attends to.
        """
        with no_grad():
            tokens, parts = x.shape[1], seen.shape[1]
            places = ops.arange(tokens, dtype="int32", device=x.device)
            queries, weights = self._asked(x, compressed, tokens, places)
            keys = self.whole(x)
            assert keys is not None
            scores = (queries @ keys.transpose(1, 2).unsqueeze(1)).relu()  # (B, T, heads, W)
            total = ops.where(seen, (scores * weights.unsqueeze(-1)).sum(2), -inf)
            chosen = total.topk(min(self.count, parts), -1)[1]  # (B, T, count)
            found = ops.scatter(ops.zeros(*total.shape, device=x.device), -1, chosen, 1.0)
            return (found > 0) & seen

    def chosen_of_cache(self, x: Tensor, compressed: Tensor, text: CachedText, places: Tensor) -> Tensor:
        """The next tokens x (..., T, D) at places → the last tokens (..., T, count) int32 of the parts of the entries
        that each attends to, which may have some after its own.
        """
        entries = self.of_cache(x, text)
        queries, weights = self._asked(x, compressed, text.length, places)

        def choose(cache: FixedCache, position: Tensor, entries: Tensor, queries: Tensor, weights: Tensor) -> Tensor:
            tokens = entries.shape[0]
            ops.cache_write(cache.keys, entries.unsqueeze(-2), position, cache.block_table)
            own = (ops.arange(tokens, dtype=int32, device=x.device) + position).unsqueeze(1)  # (T, 1)
            ends = last_tokens_of_parts(text.length, self.rate, x.device)  # (W,)
            seen = ends <= own  # (T, W)
            keys = rows_at(cache, cache.keys, ends)  # (W, size), of those that are not written any numbers
            keys = ops.where((ends <= own.narrow(0, tokens - 1, 1).reshape(1)).unsqueeze(-1), keys, 0.0)
            queries = queries.reshape(tokens, self.heads, self.size)
            scores = (queries @ keys.T).relu()  # (T, heads, W)
            total = ops.where(seen, (scores * weights.unsqueeze(-1)).sum(1), -inf)
            return ends.index_select(0, total.topk(min(self.count, ends.shape[0]), -1)[1].reshape(-1)).reshape(
                tokens, -1
            )

        flat = queries.reshape(*queries.shape[:-2], self.heads * self.size)
        return each_text(text, self.index, choose, entries, flat, weights)


def last_tokens_of_parts(length: int, rate: int, device: Device) -> Tensor:
    """The last tokens (W,) int32 of the whole parts of a text."""
    return (ops.arange(length // rate, dtype=int32, device=device) + 1) * rate - 1


class CompressedAttention(Module):
    """The attention of a layer. `numbers`: of the layer's caches, by what they hold and the layer."""

    def __init__(
        self, config: Any, layer: int, rotary: RotaryTable, backward: RotaryTable,
        numbers: dict[tuple[str, int], int],
    ) -> None:  # fmt: skip
        super().__init__()
        size, heads, width, epsilon = (
            config.head_dim,
            config.num_attention_heads,
            config.hidden_size,
            config.rms_norm_eps,
        )
        self.layer, self.kind, self.window = layer, config.layer_types[layer], config.sliding_window
        self.heads, self.size, self.groups = heads, size, config.o_groups
        self.rotation, self.back = Rotation(rotary), Rotation(backward)
        self.q_a_proj = Linear(width, config.q_lora_rank, bias=False)
        self.q_a_norm = RMSNorm(config.q_lora_rank, epsilon)
        self.q_b_proj = Linear(config.q_lora_rank, heads * size, bias=False)
        self.q_b_norm = RMSNorm(size, epsilon, elementwise_affine=False)
        self.kv_proj, self.kv_norm = Linear(width, size, bias=False), RMSNorm(size, epsilon)
        self.o_a_proj = Linear(heads * size // self.groups, self.groups * config.o_lora_rank, bias=False)
        self.o_b_proj = Linear(self.groups * config.o_lora_rank, width, bias=False)
        self.sinks = new_parameter(ops.zeros, heads)
        self.rate = 0
        if self.kind != SLIDING:
            self.rate = config.compress_rates[self.kind]
            self.compressor = Compressor(
                width, size, self.rate, self.kind == SPARSE, numbers[self.kind, layer], self.rotation, epsilon
            )
            if self.kind == SPARSE:
                self.compressor.indexer = EntryIndexer(config, layer, self.rotation, numbers)

    def forward(self, x: Tensor, text: Any) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        places, before, whole = text.positions(x.select(-1, 0)), x.shape[:-1], isinstance(text, WholeText)
        compressed = self.q_a_norm(self.q_a_proj(x))
        q = self.q_b_norm(self.q_b_proj(compressed).reshape(*before, self.heads, self.size))
        q = self.rotation(q, text.length, places)
        kv = self.rotation(self.kv_norm(self.kv_proj(x)).unsqueeze(-2), text.length, places)  # (..., T, 1, size)
        attend = self._whole if whole else self._cached
        y = attend(x, compressed, q, kv, text, places)  # (..., T, H, size)
        y = self.back(y, text.length, places).to(x.dtype)
        weight = self.o_a_proj.dense_weight().to(x.dtype)
        weight = weight.reshape(self.groups, -1, weight.shape[1])  # (G, rank, H size / G)
        y = y.reshape(-1, self.groups, weight.shape[2]).transpose(0, 1) @ weight.transpose(1, 2)  # (G, M, rank)
        found: Tensor = self.o_b_proj(y.transpose(0, 1).reshape(*before, -1))
        return found

    def _whole(
        self, x: Tensor, compressed: Tensor, q: Tensor, kv: Tensor, text: WholeText, places: Tensor
    ) -> Tensor:  # fmt: skip
        tokens = x.shape[1]
        rows, columns = places.unsqueeze(1), places.unsqueeze(0)
        mask = ((columns <= rows) & (columns > rows - self.window)).unsqueeze(0)  # (1, T, T)
        entries = self.compressor.whole(x) if self.rate else None
        if entries is not None:
            seen = last_tokens_of_parts(tokens, self.rate, x.device) <= rows  # (T, W)
            chosen = seen.unsqueeze(0)
            if self.kind == SPARSE:
                chosen = self.compressor.indexer.chosen(x, compressed, seen)
            texts = chosen.shape[0]
            mask = ops.cat([mask.expand(texts, tokens, tokens), chosen], -1)  # (1 or B, T, T + W)
            kv = ops.cat([kv, entries.unsqueeze(2)], 1)
        return ops.attention(q, kv, kv, False, mask=mask.unsqueeze(1), sinks=self.sinks)

    def _cached(
        self, x: Tensor, compressed: Tensor, q: Tensor, kv: Tensor, text: CachedText, places: Tensor
    ) -> Tensor:  # fmt: skip
        flat = q.reshape(*q.shape[:-2], self.heads * self.size)
        given = [flat, kv.squeeze(-2)]
        if self.rate:
            given.append(self.compressor.of_cache(x, text))
        if self.kind == SPARSE:
            given.append(self.compressor.indexer.chosen_of_cache(x, compressed, text, places))

        def attend(cache: FixedCache, position: Tensor, *parts: Tensor) -> Tensor:
            return self._attended(cache, position, text.length, *parts)

        y = each_text(text, self.layer, attend, *given)
        return y.reshape(q.shape)

    def _attended(
        self, cache: FixedCache, position: Tensor, length: int, q: Tensor, kv: Tensor, entries: Tensor | None = None,
        chosen: Tensor | None = None,
    ) -> Tensor:  # fmt: skip
        """Attention of a text's next tokens q (T, H size), whose vectors (T, size) and entries are written to the
        cache → (T, H size).
        """
        tokens = q.shape[0]
        ops.cache_write(cache.keys, kv.unsqueeze(-2), position, cache.block_table)
        own = (ops.arange(tokens, dtype=int32, device=q.device) + position).unsqueeze(1)  # (T, 1)
        near = own - ops.arange(min(self.window, length), dtype=int32, device=q.device)  # (T, window)
        seen = near >= 0
        near = ops.where(seen, near, own)
        if entries is not None:
            ops.cache_write(cache.values, entries.unsqueeze(-2), position, cache.block_table)
            if chosen is None:
                ends = last_tokens_of_parts(length, self.rate, q.device)
                chosen = ends.unsqueeze(0).expand(tokens, ends.shape[0])
            known = chosen <= own  # (T, count)
            chosen, seen = ops.where(known, chosen, own), ops.cat([seen, known], -1)
        q, found = q.reshape(tokens, self.heads, self.size) * self.size**-0.5, []
        for first, some in pieces(tokens, seen.shape[1] * self.size, NUMBERS):
            keys = rows_at(cache, cache.keys, near.narrow(0, first, some))  # (t, window, size)
            if chosen is not None:
                keys = ops.cat([keys, rows_at(cache, cache.values, chosen.narrow(0, first, some))], 1)
            keys = keys.to(q.dtype)  # (t, n, size)
            scores = q.narrow(0, first, some) @ keys.transpose(1, 2)  # (t, H, n)
            scores = ops.where(seen.narrow(0, first, some).unsqueeze(1), scores, -inf)
            none = self.sinks.reshape(1, -1, 1).expand((some, self.heads, 1))
            shares = ops.cat([scores, none], -1).softmax(-1).narrow(-1, 0, keys.shape[1])
            found.append(shares @ keys)  # (t, H, size)
        y = found[0] if len(found) == 1 else ops.cat(found, 0)
        return y.reshape(tokens, self.heads * self.size)
