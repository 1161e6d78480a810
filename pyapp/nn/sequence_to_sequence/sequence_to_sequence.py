"""The common parts of models with an encoder and a decoder.

These are the two texts that a decoder attends to, whole or token by token, and the layers of BART and Marian.

A decoder's layer reads its own text and the source through a `Memory`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from ...engine import Device, Tensor, no_grad, ops
from ...engine.buffers import int32_tensor, writer
from ...engine.dtype import float32
from ...engine.launch import Graph, capture
from ...engine.user_errors import describe
from ...errors import ArgumentError
from ..decoders.caches import FixedCache
from ..encoders.encoders import Words, as_bias, attend, attend_joined, visible_keys
from ..heads import Heads
from ..layers.containers import ModuleList
from ..layers.embedding import Embedding
from ..layers.gated import activation_named
from ..layers.joined import JoinedLinear
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import LayerNorm
from ..module import Module

POSITION_OFFSET = 2  # rows of BART's table of positions before the first position
FIRST_CAPACITY = 32  # tokens for which a memory has room at first
Project = Callable[[Tensor], tuple[Tensor, Tensor]]  # (B, S, D) → keys and values (B, S, H, D)
Turn = Callable[[Tensor], Tensor]  # (R, T, H, D) → (R, T, H, D) at rotary positions


class Memory(Protocol):
    """The texts to which the tokens of a decoder attend. `layer` counts the decoder's layers."""

    @property
    def length(self) -> int:
        """More than the last position of the tokens."""
        ...

    def positions(self, tokens: Tensor) -> Tensor:
        """The positions (T,) int32 of tokens (R, T), for tables of positions."""
        ...

    def distances(self, bias: Callable[[int, int], Tensor]) -> Tensor:
        """The biases by distance of the tokens for `own`: `bias(T, S)` gives those of the last T of S tokens, (1, H, T,
        S).
        """
        ...

    def own(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, scale: float | None = None,
        heads: Heads | None = None,
    ) -> Tensor:  # fmt: skip
        """Attention of each token to itself and those before it: q, k, v (R, T, H, D) → (R, T, H * D). bias: what
        `distances` returned. heads: the options of the scores, in place of a bias and a scale; H may be a multiple of
        the heads of k and v.
        """
        ...

    def beside(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, bias: Tensor, own: Tensor
    ) -> Tensor:
        """Attention of another stream's tokens to the tokens for which `own` was called before, and to themselves: q,
        k, v (R, T, H, D) of the stream, keys and values (R, T, H, D) of those tokens, bias (R, H, T, S) from what
        `distances` returned, own (R, H, T, 1): the bias of a token to itself → (R, T, H * D).
        """
        ...

    def source(
        self, layer: int, q: Tensor, project: Project, scale: float | None = None, heads: Heads | None = None
    ) -> Tensor:
        """Attention of each token to the source: q (R, T, H, D) → (R, T, H * D). `project` makes the source's keys and
        values. heads: as for `own`.
        """
        ...

    def joint(self, layer: int, q: Tensor, k: Tensor, v: Tensor, project: Project, heads: Heads) -> Tensor:
        """Attention of each token to the source, to itself and to those before it, which share the weights: q (R, T, H,
        D), k and v (R, T, KV, D) → (R, T, H * D). heads: its window is of the tokens alone.
        """
        ...


class WholeMemory:
    """Whole texts (B, T) and the encoded sources (B, S, D), for training. The masks are 0 for padding. earlier: the
    tokens before them, which a subclass keeps.
    """

    def __init__(
        self, encoded: Tensor, source_mask: Tensor | None, tokens: int, mask: Tensor | None = None, earlier: int = 0
    ) -> None:
        self.encoded, self.tokens, self.earlier = encoded, tokens, earlier
        self.source_mask = visible_keys(source_mask)
        seen = ops.causal_mask(tokens, self.length).to(encoded.device).reshape(1, 1, tokens, self.length)
        self.mask = seen if mask is None else seen.logical_and(visible_keys(mask))  # (B or 1, 1, T, T)
        self.plain = mask is None

    @property
    def length(self) -> int:
        return self.earlier + self.tokens

    def positions(self, tokens: Tensor) -> Tensor:
        return ops.arange(self.earlier, self.earlier + tokens.shape[1], dtype="int32", device=tokens.device)

    def distances(self, bias: Callable[[int, int], Tensor]) -> Tensor:
        return bias(self.tokens, self.length)

    def seen(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values (B, S, KV, D) that tokens see in a layer; theirs (B, T, KV, D) are the last ones."""
        return keys, values

    def of_source(self, layer: int, project: Project) -> tuple[Tensor, Tensor]:
        """The keys and values (B, S, KV, D) of the source in a layer."""
        return project(self.encoded)

    def own(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, scale: float | None = None,
        heads: Heads | None = None,
    ) -> Tensor:  # fmt: skip
        k, v = self.seen(layer, k, v)
        if heads is not None:
            mask = None if self.plain else self.mask
            y = ops.attention(q, k, v, True, heads.scale, heads.window, heads.softcap, mask=mask)  # (B, T, H, D)
            return y.reshape(*q.shape[:2], -1)
        if bias is None and self.plain:
            return ops.attention(q, k, v, True, scale).reshape(*q.shape[:2], -1)
        return attend(q, k, v, self.mask if bias is None else as_bias(self.mask, bias), scale)

    def beside(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, bias: Tensor, own: Tensor
    ) -> Tensor:
        keys, values = keys.transpose(1, 2), values.transpose(1, 2)  # (R, H, S, D)
        return _attend_beside(q, k, v, keys, values, as_bias(self.mask, bias), own)

    def source(
        self, layer: int, q: Tensor, project: Project, scale: float | None = None, heads: Heads | None = None
    ) -> Tensor:
        return _attend_source(q, self.of_source(layer, project), self.source_mask, scale, heads)

    def joint(self, layer: int, q: Tensor, k: Tensor, v: Tensor, project: Project, heads: Heads) -> Tensor:
        keys, values = project(self.encoded)  # (B, S, KV, D)
        shown = self.mask
        if heads.window is not None:
            places = ops.arange(self.tokens, dtype="int32", device=q.device)
            shown = shown.logical_and(places.unsqueeze(1) - places < heads.window)
        batch, source = keys.shape[:2]
        before = _shown_source(self.source_mask, batch, source, q.device).expand(batch, 1, self.tokens, source)
        mask = ops.cat([before, shown.expand(batch, 1, self.tokens, self.tokens)], 3)  # (B, 1, T, S + T)
        y = ops.attention(q, ops.cat([keys, k], 1), ops.cat([values, v], 1), False, heads.scale, mask=mask)
        return y.reshape(*q.shape[:2], -1)


def _shown_source(mask: Tensor | None, batch: int, tokens: int, device: Device) -> Tensor:
    """Which tokens of sources are not padding: (B, 1, 1, S) bool."""
    return ops.ones(batch, 1, 1, tokens, dtype="bool", device=device) if mask is None else mask


def _attend_source(
    q: Tensor, pair: tuple[Tensor, Tensor], mask: Tensor | None, scale: float | None, heads: Heads | None
) -> Tensor:
    """q (B, T, H, D), keys and values (B, S, KV, D) of the source → (B, T, H * D)."""
    if heads is None:
        return attend(q, *pair, mask, scale)
    y = ops.attention(q, *pair, False, heads.scale, softcap=heads.softcap, mask=mask)  # (B, T, H, D)
    return y.reshape(*q.shape[:2], -1)


def _attend_beside(
    q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, bias: Tensor, own: Tensor
) -> Tensor:  # fmt: skip
    """q, k and v (R, T, H, D), keys and values (R, H, S, D), bias (R, H, T, S), own (R, H, T, 1) → (R, T, H * D)."""
    q, k, v = (part.transpose(1, 2) for part in (q, k, v))  # (R, H, T, D)
    scale, count = q.shape[3] ** -0.5, keys.shape[2]
    scores = ops.cat([q @ keys.transpose(2, 3) * scale + bias, (q * k).sum(3, keepdim=True) * scale + own], 3)
    shares = scores.softmax(3)  # (R, H, T, S + 1)
    y = shares.narrow(3, 0, count) @ values + shares.narrow(3, count, 1) * v
    return y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)


class CachedMemory:
    """`beams` texts for each of the encoded sources (B, S, D), one new token at a time: R = B * beams rows of at most
    `most` tokens.

    The keys and values of the source are computed once for each layer. Those of the tokens lie in memory for `capacity`
    tokens, which `advance` doubles when it is full. While it does not, a Graph can replay the calls: the position is in
    a tensor. `prompt`: so many tokens may come at once at the beginning.
    """

    def __init__(
        self, encoded: Tensor, source_mask: Tensor | None, beams: int, most: int, prompt: int = 0
    ) -> None:  # fmt: skip
        if min(beams, most) < 1:
            raise ArgumentError(f"CachedMemory: {beams} texts of {most} tokens; each must be 1 or more")
        self.encoded, self.beams, self.most = encoded, beams, most
        self.rows = encoded.shape[0] * beams
        self.capacity, self.first = min(FIRST_CAPACITY + prompt, most), 0
        self.source_mask = visible_keys(source_mask)
        self._place = int32_tensor([0] * self.rows, encoded.device)  # (R,): the position of the new tokens
        self._write_place = writer(self._place)
        self._source: dict[int, tuple[Tensor, Tensor]] = {}
        self._own: dict[int, FixedCache] = {}
        self._before = 0  # places of the source in the memory of the tokens, where both are attended to together
        self._bias: Tensor | None = None  # (2 capacity - 1, H) by distance, first of keys that are still to come
        self._apart: Tensor | None = None  # (capacity,): the row of each key for the position 0

    @property
    def length(self) -> int:
        return self.capacity

    def positions(self, tokens: Tensor) -> Tensor:
        count = tokens.shape[1] if tokens.ndim > 1 else 1
        if self.first + count > self.most:
            raise IndexError(f"CachedMemory: {self.first + count} tokens do not fit into {self.most}")
        place = self._place.narrow(0, 0, 1)
        return place if count == 1 else place + ops.arange(count, dtype="int32", device=place.device)

    def distances(self, bias: Callable[[int, int], Tensor]) -> Tensor:
        places = self.positions(self._place)  # (1,)
        if self._bias is None:
            farthest = bias(1, self.capacity)  # (1, H, 1, capacity), the farthest key first
            seen = farthest.reshape(farthest.shape[1], self.capacity).transpose(0, 1).flip(0)  # (capacity, H)
            hidden = ops.full((self.capacity - 1, seen.shape[1]), float("-inf"), device=seen.device)
            self._bias = ops.cat([hidden, seen])
            self._apart = ops.arange(self.capacity - 1, -1, -1, dtype="int32", device=seen.device)
        found = ops.embedding(self._bias, places + self._apart)  # (capacity, H)
        return found.transpose(0, 1).reshape(1, -1, 1, self.capacity)

    def own(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, bias: Tensor | None = None, scale: float | None = None,
        heads: Heads | None = None,
    ) -> Tensor:  # fmt: skip
        if layer not in self._own:
            shape = (self.rows, k.shape[2], self.capacity, k.shape[3])
            self._own[layer] = FixedCache.over(ops.zeros(*shape, device=k.device), ops.zeros(*shape, device=k.device))
        cache = self._own[layer]
        kind, q = q.dtype, q.to(float32)  # as the kernels of caches read it
        cache.write(k.to(float32), v.to(float32), self._place)
        if bias is None:
            heads = heads or Heads(q.shape[2], k.shape[2], q.shape[3], scale)
            y = cache.attend(q, self._place, heads)  # (R, T, H, D)
        else:
            bias = bias.to(float32) if bias.is_floating_point() else bias
            y = ops.scaled_dot_product_attention(q.transpose(1, 2), cache.keys, cache.values, bias, scale=scale)
        return y.reshape(*q.shape[:2], q.shape[2] * q.shape[3]).to(kind)

    def beside(
        self, layer: int, q: Tensor, k: Tensor, v: Tensor, keys: Tensor, values: Tensor, bias: Tensor, own: Tensor
    ) -> Tensor:
        cache = self._own[layer]
        kind = q.dtype
        q, k, v, bias, own = (x.to(float32) for x in (q, k, v, bias, own))
        return _attend_beside(q, k, v, cache.keys, cache.values, bias, own).to(kind)

    def source(
        self, layer: int, q: Tensor, project: Project, scale: float | None = None, heads: Heads | None = None
    ) -> Tensor:
        if layer not in self._source:
            self._source[layer] = project(self.encoded)
        rows, tokens, count, size = q.shape
        q = q.reshape(rows // self.beams, self.beams * tokens, count, size)  # (B, beams T, H, D)
        y = _attend_source(q, self._source[layer], self.source_mask, scale, heads)
        return y.reshape(rows, tokens, count * size)

    def joint(self, layer: int, q: Tensor, k: Tensor, v: Tensor, project: Project, heads: Heads) -> Tensor:
        rows, _, count, size = q.shape
        self._before = self.encoded.shape[1]
        if layer not in self._own:
            keys, values = project(self.encoded)
            self._own[layer] = FixedCache.over(self._with_room(keys), self._with_room(values))
        cache = self._own[layer]
        cache.write(k.to(float32), v.to(float32), self._place + self._before)
        ahead = self.positions(self._place) - ops.arange(self.capacity, dtype="int32", device=q.device)  # (capacity,)
        shown = ahead >= 0 if heads.window is None else (ahead >= 0).logical_and(ahead < heads.window)
        source = self._of_rows(_shown_source(self.source_mask, rows // self.beams, self._before, q.device))
        mask = ops.cat([source, shown.reshape(1, 1, 1, self.capacity).expand(rows, 1, 1, self.capacity)], 3)
        y = ops.scaled_dot_product_attention(
            q.to(float32).transpose(1, 2), cache.keys, cache.values, mask, scale=heads.scale, enable_gqa=True
        )  # (R, H, 1, D)
        return y.reshape(rows, 1, count * size).to(q.dtype)

    def _of_rows(self, part: Tensor) -> Tensor:
        """(B, ...) → (R, ...)."""
        wide = part.unsqueeze(1).expand(part.shape[0], self.beams, *part.shape[1:])
        return wide.reshape(self.rows, *part.shape[1:])

    def _with_room(self, part: Tensor) -> Tensor:
        """Keys or values (B, S, KV, D) of the source → (R, KV, S + capacity, D), with room for those of the tokens."""
        room = ops.zeros(self.rows, part.shape[2], self.capacity, part.shape[3], device=part.device)
        return ops.cat([self._of_rows(part.to(float32).transpose(1, 2)), room], 2)

    def advance(self, rows: Sequence[int] | None = None, tokens: int = 1) -> None:
        """Goes on after this many tokens; row i goes on with the text of row rows[i]."""
        self.first += tokens
        if rows is not None and list(rows) != list(range(len(rows))):
            index = ops.tensor(list(rows)).to("int64").to(self.encoded.device)
            for part in self._memories():
                text = part.narrow(2, self._before, self.first)  # (R, H, first, D)
                text.copy_(ops.index_select(text, 0, index))
        if self.first == self.capacity < self.most:
            self._grow()
        self._write_place(*[self.first] * self.rows)

    def _memories(self) -> Iterator[Tensor]:
        for cache in self._own.values():
            yield from (cache.keys, cache.values)

    def _grow(self) -> None:
        self.capacity, self._bias = min(2 * self.capacity, self.most), None
        for layer, cache in self._own.items():
            self._own[layer] = FixedCache.over(self._larger(cache.keys), self._larger(cache.values))

    def _larger(self, part: Tensor) -> Tensor:
        rows, heads, known, size = part.shape
        whole = ops.zeros(rows, heads, self._before + self.capacity, size, device=part.device)
        whole.narrow(2, 0, known).copy_(part)
        return whole


class Decoding:
    """The steps of a model's decoder over a memory: `step(tokens)` takes the next token of each row and returns the
    logits (R, V) of those after them. After the first step, a step is the replay of a Graph. `each`: the tokens that
    the model reads at a place of a row, such as the codes of a moment of sound; there are then `each` times R rows.
    """

    def __init__(self, model: SequenceToSequence, memory: CachedMemory, each: int = 1) -> None:
        self.model, self.memory = model, memory
        tokens = int32_tensor([0] * (memory.rows * each), memory.encoded.device)
        self._tokens, self._write = tokens.reshape(memory.rows * each, 1), writer(tokens)
        self._graph: Graph | None = None
        self._seen = 0  # the capacity of the memory at the last step; 0 before the first

    def step(self, tokens: Sequence[int]) -> Tensor:
        """tokens: R ids → logits (R, V), which the next step overwrites."""
        self._write(*tokens)
        with no_grad():
            if self._seen != self.memory.capacity:  # the memory is new, and filled by this step
                self._seen, self._graph = self.memory.capacity, None
                return self._decode()
            if self._graph is None:
                self._graph = capture(self._decode)
            else:
                self._graph.replay()
        found: Tensor = self._graph.outputs
        return found

    def _decode(self) -> Tensor:
        return self.model.decode(self._tokens, self.memory).squeeze(1)  # (R, V)


class SequenceToSequence(Module):
    """A model that reads a source and writes a text. A subclass sets `config` and `most`, the largest number of tokens
    of each, and writes `encode` and `decode`. `written`: the tokens of a text at most, where they are others than a
    source's.
    """

    config: Any
    most: int
    written: int | None = None

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        raise NotImplementedError

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """Sources (B, S) → (B, S, D). attention_mask (B, S): 0 for padding."""
        raise NotImplementedError

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R, T) at the positions that the memory says → logits (R, T, V)."""
        raise NotImplementedError

    def forward(
        self,
        ids: Tensor,
        tokens: Tensor,
        attention_mask: Tensor | None = None,
        token_mask: Tensor | None = None,
    ) -> Tensor:
        """Sources (B, S), texts (B, T) → logits (B, T, V). The masks, in the shapes of both, are 0 for padding."""
        self.check_source(ids, attention_mask)
        self.check(tokens, token_mask)
        encoded = self.encode(ids, attention_mask)  # (B, S, D)
        mask = self.source_mask(attention_mask, ids, encoded)
        return self.decode(tokens, WholeMemory(encoded, mask, tokens.shape[1], token_mask))

    def source_mask(self, mask: Tensor | None, source: Tensor, encoded: Tensor) -> Tensor | None:
        """The mask of what `encode` returns, from that of the source."""
        return mask

    def check_source(self, ids: Tensor, mask: Tensor | None) -> None:
        """ArgumentError for what is not a source of this model."""
        self.check(ids, mask)

    def check(self, ids: Tensor, mask: Tensor | None) -> None:
        """check_ids of this model."""
        check_ids(self, ids, mask)


class BartLanguageModel(SequenceToSequence):
    """A `model` of BART's form, with an encoder and a decoder, and its head over so many words; `table`: the words'
    vectors, where the head has the same; `bias`: whether the words have one in the files; `base`: what files call the
    model.
    """

    def __init__(
        self, config: Any, model: Module, words: int, table: Embedding | None, bias: bool = True, base: str = "model"
    ) -> None:  # fmt: skip
        super().__init__()
        self.config, self.base = config, base
        self.most = config.max_position_embeddings
        self.add_module(base, model)
        self.lm_head = Words(config.d_model, words, table, bias=False)
        self.register_buffer("final_logits_bias", ops.zeros(1, words) if bias else None)

    def _part(self, name: str) -> Any:
        return getattr(self._modules[self.base], name)

    @property
    def device(self) -> Device:
        found: Device = self._part("encoder").embed_tokens.weight.device
        return found

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        found: Tensor = self._part("encoder")(ids, visible_keys(attention_mask))
        return found

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        logits: Tensor = self.lm_head(self._part("decoder")(tokens, memory))  # (R, T, V)
        return logits if self.final_logits_bias is None else logits + self.final_logits_bias


def check_ids(model: Any, ids: Tensor, mask: Tensor | None) -> None:
    """ArgumentError for ids that are not (B, T) with T from 1 to `model.most`, and for a mask of another shape."""
    name = type(model).__name__
    if ids.ndim != 2 or not 1 <= ids.shape[1] <= model.most:
        raise ArgumentError(f"{name}: ids are (B, T) with T from 1 to {model.most}, not {describe(ids)}")
    if mask is not None and mask.shape != ids.shape:
        raise ArgumentError(f"{name}: a mask is {describe(mask)}, the ids {describe(ids)}")


# -- BART's parts (Lewis et al. 2019, arXiv 1910.13461)


class Attention(Module):
    """Multi-head attention, to the text itself or to another one, whose hidden states may have another width.
    key_heads: the heads of keys and values, each for several of queries (Ainslie et al. 2023, arXiv 2305.13245); None:
    as many as of queries.
    """

    def __init__(
        self, width: int, heads: int, source_width: int | None = None, bias: bool = True, key_bias: bool = True,
        key_heads: int | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.heads, self.key_heads = heads, key_heads or heads
        keys = width // heads * self.key_heads
        self.shared = Heads(heads, self.key_heads, width // heads) if self.key_heads != heads else None
        self.k_proj = Linear(source_width or width, keys, bias and key_bias)
        self.v_proj = Linear(source_width or width, keys, bias)
        self.q_proj = Linear(width, width, bias)
        self.out_proj = ResidualLinear(width, width, bias)
        if source_width in (None, width):
            self.qkv = JoinedLinear("q_proj", "k_proj", "v_proj")

    def encode(self, x: Tensor, residual: Tensor, mask: Tensor | None) -> Tensor:
        """x and residual (B, T, D) → residual + attention of each text to itself (B, T, D)."""
        return self.out_proj(attend_joined(self.qkv(self, x), self.heads, mask), residual)

    def own(self, x: Tensor, residual: Tensor, memory: Memory, layer: int, turn: Turn | None = None) -> Tensor:
        """x and residual (R, T, D) → residual + attention to the text so far (R, T, D)."""
        qkv = self.qkv(self, x)
        heads, keys = self.heads, self.key_heads
        parts = qkv.reshape(*x.shape[:2], heads + 2 * keys, -1)
        starts = ((0, heads), (heads, keys), (heads + keys, keys))
        q, k, v = (parts.narrow(2, start, count) for start, count in starts)  # (R, T, H or KV, D)
        if turn is not None:
            q, k = turn(q), turn(k)
        return self.out_proj(memory.own(layer, q, k, v, heads=self.shared), residual)

    def source(self, x: Tensor, residual: Tensor, memory: Memory, layer: int, turn: Turn | None = None) -> Tensor:
        """x and residual (R, T, D) → residual + attention to the source (R, T, D). Only queries have positions."""
        q = self.q_proj(x).reshape(*x.shape[:2], self.heads, -1)  # (R, T, H, D)
        q = q if turn is None else turn(q)
        return self.out_proj(memory.source(layer, q, self.project, heads=self.shared), residual)

    def project(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values (B, S, KV, D) of a source (B, S, D)."""
        k, v = (part(encoded).reshape(*encoded.shape[:2], self.key_heads, -1) for part in (self.k_proj, self.v_proj))
        return k, v


class EncoderLayer(Module):
    """Attention and a feed-forward part, each with a residual. The norm is after each; before it with `norm_first`.
    key_bias: whether keys have a bias.
    """

    def __init__(
        self, width: int, heads: int, inner: int, activation: str, norm_first: bool = False, key_bias: bool = True
    ) -> None:
        super().__init__()
        self.self_attn = Attention(width, heads, key_bias=key_bias)
        self.self_attn_layer_norm = LayerNorm(width)
        self.fc1 = Linear(width, inner)
        self.fc2 = ResidualLinear(inner, width)
        self.final_layer_norm = LayerNorm(width)
        self.activation = activation_named(activation)
        self.norm_first = norm_first

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        if self.norm_first:
            x = self.self_attn.encode(self.self_attn_layer_norm(x), x, mask)
            return self.fc2(self.activation(self.fc1(self.final_layer_norm(x))), x)
        x = self.self_attn_layer_norm(self.self_attn.encode(x, x, mask))
        return self.final_layer_norm(self.fc2(self.activation(self.fc1(x)), x))


class DecoderLayer(Module):
    """Attention to the text, to the source, and a feed-forward part, each with a residual. The norm is after each;
    before it with `norm_first`. key_heads: of the attention to the text and to the source, as Attention's.
    attention_bias: whether attention has biases; None: as the feed-forward part, which `bias` says. attends False: a
    layer without a source.
    """

    def __init__(
        self, width: int, heads: int, inner: int, activation: str, norm_first: bool = False,
        source_width: int | None = None, bias: bool = True, key_heads: tuple[int | None, int | None] = (None, None),
        attention_bias: bool | None = None, attends: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        own = bias if attention_bias is None else attention_bias
        self.self_attn = Attention(width, heads, bias=own, key_heads=key_heads[0])
        self.self_attn_layer_norm = LayerNorm(width)
        self.attends = attends
        if attends:
            self.encoder_attn = Attention(width, heads, source_width, own, key_heads=key_heads[1])
            self.encoder_attn_layer_norm = LayerNorm(width)
        self.fc1 = Linear(width, inner, bias)
        self.fc2 = ResidualLinear(inner, width, bias)
        self.final_layer_norm = LayerNorm(width)
        self.activation = activation_named(activation)
        self.norm_first = norm_first

    def forward(self, x: Tensor, memory: Memory, layer: int, turn: Turn | None = None) -> Tensor:
        """x (R, T, D) → (R, T, D). turn: what gives queries and keys (R, T, H, D) rotary positions."""
        if self.norm_first:
            x = self.self_attn.own(self.self_attn_layer_norm(x), x, memory, layer, turn)
            if self.attends:
                x = self.encoder_attn.source(self.encoder_attn_layer_norm(x), x, memory, layer, turn)
            return self.fc2(self.activation(self.fc1(self.final_layer_norm(x))), x)
        x = self.self_attn_layer_norm(self.self_attn.own(x, x, memory, layer, turn))
        if self.attends:
            x = self.encoder_attn_layer_norm(self.encoder_attn.source(x, x, memory, layer, turn))
        return self.final_layer_norm(self.fc2(self.activation(self.fc1(x)), x))


class TextStack(Module):
    """Words at their positions, below the layers that a subclass adds. `positions` gives the vector of position p for
    p + `offset`. `table`: the words' vectors, where another part has the same. `norm_embedding`: a norm of words at
    positions; `norm_first`: one before each part of the layers and after the last layer.
    """

    def __init__(
        self, config: Any, positions: Module, offset: int = 0, table: Embedding | None = None,
        norm_embedding: bool = True, norm_first: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        width = config.d_model
        self.scale, self.offset = width**0.5 if config.scale_embedding else 1.0, offset
        words = config.vocab_size if table is None else table.weight.shape[0]
        self.embed_tokens = Embedding(words, width, config.pad_token_id)
        if table is not None:
            self.embed_tokens.weight = table.weight
        self.embed_positions = positions
        self.layernorm_embedding = LayerNorm(width) if norm_embedding else None
        self.layer_norm = LayerNorm(width) if norm_first else None
        self.norm_first = norm_first

    def embed(self, ids: Tensor, positions: Tensor) -> Tensor:
        """ids (B, T), or their vectors (B, T, D), at positions (T,) → (B, T, D)."""
        places = self.embed_positions(positions + self.offset if self.offset else positions)  # (T, D)
        x = ids if ids.ndim == 3 else self.embed_tokens(ids) * self.scale
        x = x + places.to(x.dtype)
        return x if self.layernorm_embedding is None else self.layernorm_embedding(x)

    def norm(self, x: Tensor) -> Tensor:
        """What is after the last layer: (B, T, D) → (B, T, D)."""
        return x if self.layer_norm is None else self.layer_norm(x)


class Encoder(TextStack):
    """The encoder; arguments as TextStack."""

    def __init__(self, config: Any, *args: Any, **options: Any) -> None:
        super().__init__(config, *args, **options)
        self.layers = ModuleList(
            EncoderLayer(
                config.d_model, config.encoder_attention_heads, config.encoder_ffn_dim, config.activation_function,
                self.norm_first,
            )
            for _ in range(config.encoder_layers)
        )  # fmt: skip

    def forward(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        """ids (B, S), or vectors (B, S, D) in place of words, mask (B, 1, 1, S) → (B, S, D)."""
        x = self.embed(ids, ops.arange(ids.shape[1], dtype="int32", device=ids.device))
        for layer in self.layers:
            x = layer(x, mask)
        return self.norm(x)


class Decoder(TextStack):
    """The decoder; arguments as TextStack. `source_width`: that of the encoder's output, if it is another;
    `attention_bias`: as DecoderLayer's.
    """

    def __init__(
        self, config: Any, *args: Any, source_width: int | None = None, attention_bias: bool | None = None,
        **options: Any,
    ) -> None:  # fmt: skip
        super().__init__(config, *args, **options)
        self.layers = ModuleList(
            DecoderLayer(
                config.d_model, config.decoder_attention_heads, config.decoder_ffn_dim, config.activation_function,
                self.norm_first, source_width, attention_bias=attention_bias,
            )
            for _ in range(config.decoder_layers)
        )  # fmt: skip

    def forward(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R, T) → (R, T, D)."""
        x = self.embed(tokens, memory.positions(tokens))
        for i, layer in enumerate(self.layers):
            x = layer(x, memory, i)
        return self.norm(x)


class FixedPositions(Module):
    """A table of positions (P, D) that `make` computes at its first use."""

    def __init__(self, make: Callable[[], Tensor]) -> None:
        super().__init__()
        self.make = make
        self._table: Tensor | None = None

    def forward(self, positions: Tensor) -> Tensor:
        """positions (T,) → their rows (T, D)."""
        if self._table is None or self._table.device is not positions.device:
            self._table = self.make().to(positions.device)
        return ops.embedding(self._table, positions)


def learned_positions(config: Any) -> Embedding:
    """BART's table of positions, for an `offset` of POSITION_OFFSET."""
    return Embedding(config.max_position_embeddings + POSITION_OFFSET, config.d_model)


class BartModel(Module):
    """Encoder and decoder over one table of words. `positions` makes a table of positions, whose first row that counts
    is `offset`, by default BART's; `decoder`: its class; the other options are TextStack's.
    """

    def __init__(
        self, config: Any, positions: Callable[[Any], Module] = learned_positions, offset: int = POSITION_OFFSET,
        decoder: type[Decoder] = Decoder, **options: Any,
    ) -> None:  # fmt: skip
        super().__init__()
        self.shared = table = Embedding(config.vocab_size, config.d_model, config.pad_token_id)
        self.encoder = Encoder(config, positions(config), offset, table, **options)
        self.decoder = decoder(config, positions(config), offset, table, **options)


class BartTextDecoder(Module):
    """A `decoder` alone, which writes the text of what another encoder has read. `head`: the name of its scores of
    words.
    """

    def __init__(self, config: Any, decoder: Decoder, head: str) -> None:
        super().__init__()
        self.config, self.head = config, head
        self.most = config.max_position_embeddings
        self.model = Module()
        self.model.decoder = decoder
        table = decoder.embed_tokens if config.tie_word_embeddings else None
        setattr(self, head, Words(config.d_model, config.vocab_size, table, bias=False))

    def forward(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R, T) at the positions that the memory says → logits (R, T, V)."""
        found: Tensor = getattr(self, self.head)(self.model.decoder(tokens, memory))
        return found
