"""The common parts of decoder-only language models: attention within whole texts and cached ones, and the protocol of
text.generation.generate.LanguageModel.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import Any, Protocol

from ...engine import Device, Tensor, ops, quant
from ...engine.device import cpu
from ...engine.dtype import float32
from ...engine.grad_mode import STATE
from ...engine.ops import cat
from ...errors import ArgumentError
from ..heads import Heads, split_heads
from ..layers.containers import ModuleList
from ..layers.embedding import Embedding
from ..layers.experts import Experts
from ..layers.joined import JoinedLinear
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import heads_at_once
from ..module import Module
from ..parameter import Parameter
from ..positions.rotary import RotaryFrequencies, rotary_frequencies
from .caches import TextCache, decoder_cache, last_tokens

__all__ = [
    "CausalLanguageModel", "DecoderStack", "GroupedQueryAttention", "RotaryTable", "SelfAttention", "heads_together",
    "normalized_heads", "soft_capped",
]  # fmt: skip

FIRST_POSITIONS = 256  # of a rotary table


class Text(Protocol):
    """The tokens of a text. `attention(layer, qkv, heads, rotary)` rotates queries and keys (None: not) and attends in
    a layer: qkv (..., T, (H + 2 KV) * D) = [q, k, v] → (..., T, H * D). `length`: more than its last position.
    """

    length: int

    def attention(self, layer: int, qkv: Tensor, heads: Heads, rotary: RotaryTable | None) -> Tensor: ...

    def positions(self, tokens: Tensor) -> Tensor:
        """The positions (T,) int32 of the tokens, for tables of positions."""
        ...

    def rotated(self, rotary: RotaryTable, interleaved: bool, *inputs: Tensor) -> Iterator[Tensor]:
        """Queries and keys (..., T, H, D), turned by the angles of their positions."""
        ...


class WholeText:
    """Whole texts (B, T), for training. `mask` (B, T) is not 0 where a token belongs to its text; None: everywhere."""

    def __init__(self, tokens: int, mask: Tensor | None = None) -> None:
        self.length = tokens
        self.mask = None if mask is None else (mask != 0).reshape(mask.shape[0], 1, 1, mask.shape[1])
        self.chosen: Tensor | None = None  # the tokens that each sees in a layer and those after it (sparse_attention)

    def positions(self, tokens: Tensor) -> Tensor:
        return ops.arange(tokens.shape[-1], dtype="int32", device=tokens.device)

    def attention(self, layer: int, qkv: Tensor, heads: Heads, rotary: RotaryTable | None) -> Tensor:
        q, k, v = split_heads(qkv, heads)  # (B, T, H, D), (B, T, KV, D)
        if rotary is not None:
            q, k = self.rotated(rotary, heads.interleaved, q, k)
        k, v = self.seen(layer, k, v)  # (B, S, KV, D)
        mask = self.mask if heads.chunk is None or self.length <= heads.chunk else self._within_chunks(heads.chunk, q)
        y = ops.attention(
            q,
            k,
            v,
            scale=heads.scale,
            window=heads.window,
            softcap=heads.softcap,
            slopes=heads.slopes,
            mask=mask,
            sinks=heads.sinks,
        )  # (B, T, H, D)
        return y.reshape(*qkv.shape[:-1], heads.heads * heads.head_dim)

    def rotated(self, rotary: RotaryTable, interleaved: bool, *inputs: Tensor) -> Iterator[Tensor]:
        """Queries and keys (B, T, H, D), turned by the angles of their positions."""
        table = rotary.upto(self.length, inputs[0].device)
        return (ops.rope(x, table, interleaved=interleaved) for x in inputs)

    def seen(self, layer: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values (B, S, KV, D) that the tokens see in a layer; theirs (B, T, KV, D) are the last ones."""
        return keys, values

    def narrowed(self, seen: Tensor) -> WholeText:
        """The text where each token sees, of those that it saw, only some: seen (B, 1, T, T) bool."""
        found = copy(self)
        found.mask = seen if self.mask is None else self.mask & seen
        return found

    def _within_chunks(self, size: int, like: Tensor) -> Tensor:
        """(1 or B, 1, T, S) bool: which tokens are in one chunk of a text, whose first chunk begins with its first
        token that is not padding.
        """
        places = ops.arange(self.length, device=like.device).reshape(1, 1, self.length)
        if self.mask is not None:
            places = places - self.mask.to("int32").argmax(-1)  # (B, 1, T)
        chunks = ops.div(places, size, rounding_mode="floor")
        same = chunks.narrow(-1, self.length - like.shape[1], like.shape[1]).unsqueeze(3) == chunks.unsqueeze(2)
        return same if self.mask is None else same & self.mask


class CachedText:
    """The tokens (T,) at position[0] … of a text, with the earlier tokens in a cache; or those of several texts, tokens
    (B, T) and position (B,).
    """

    def __init__(self, position: Tensor, cache: TextCache) -> None:
        self.position, self.layers = position, cache.layers
        self.length: int = cache.capacity  # type: ignore[attr-defined]

    def positions(self, tokens: Tensor) -> Tensor:
        start = self.position if tokens.ndim == 1 else self.position.unsqueeze(-1)  # (1,) or (B, 1)
        if tokens.shape[-1] == 1:
            return start
        return ops.arange(tokens.shape[-1], dtype="int32", device=tokens.device) + start

    def rotated(self, rotary: RotaryTable, interleaved: bool, *inputs: Tensor) -> Iterator[Tensor]:
        places = self.positions(inputs[0].select(-1, 0).select(-1, 0))  # of tokens (..., T)
        table = rotary.upto(self.length, inputs[0].device)
        return (ops.rope(x.to(float32), table, places, interleaved).to(x.dtype) for x in inputs)

    def attention(self, layer: int, qkv: Tensor, heads: Heads, rotary: RotaryTable | None) -> Tensor:
        table = None if rotary is None else rotary.upto(self.length, qkv.device)
        # Kernels of caches read float32, whatever type a model's weights were given.
        return self.layers[layer].rotary_attention(qkv.to(float32), heads, table, self.position).to(qkv.dtype)


class RotaryTable:
    """A table of rotary angles that grows with the longest text. `parameters` is the object of a config.json
    (nn.positions.rotary.rotary_frequencies), `layer_type` chooses among its parameters if it has several.

    The scalings "dynamic" and "longrope" depend on the length of the text: that of a cache is its capacity. With
    `backward` all angles are negative.
    """

    def __init__(self, parameters: Mapping[str, Any], layer_type: str | None = None, backward: bool = False) -> None:
        self.parameters, self.layer_type, self.backward = dict(parameters), layer_type, backward
        self._tables: dict[tuple[RotaryFrequencies, Device], Tensor] = {}
        self._frequencies: dict[int, RotaryFrequencies] = {}
        self.upto(1)  # refuses impossible parameters now

    @classmethod
    def of_heads(cls, head_dim: int, positions: int, parameters: Mapping[str, Any] | None) -> RotaryTable:
        """The table of heads of `head_dim` features; `parameters` is the object rope_parameters (None: the usual)."""
        return cls(
            {"head_dim": head_dim, "max_position_embeddings": positions, "rope_parameters": parameters or {}}
        )  # fmt: skip

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_tables": {}, "_frequencies": {}}

    def upto(self, positions: int, device: Device = cpu) -> Tensor:
        """A table (P, R / 2, 2) of at least `positions` rows on a device."""
        frequencies = self._of_length(positions)
        if STATE.traced:  # a table that is written down could not grow
            return frequencies.rotations(ops.arange(positions, device=device))
        key = frequencies, device
        found = self._tables.get(key)
        if found is None or found.shape[0] < positions:
            rows = FIRST_POSITIONS
            while rows < positions:
                rows *= 2
            found = self._tables[key] = frequencies.table(rows, device)
        return found

    def at(self, places: Tensor, length: int) -> Tensor:
        """The rows (N, R / 2, 2) of the table at places (N,), in a text of `length` tokens. For "longrope" the last
        place says how long it is, so that what is written down of it holds for texts of any length.
        """
        short = self._of_length(1)
        if short.longest is None:
            return self._of_length(length).rotations(places)
        long = self._of_length(int(short.longest) + 1)
        return ops.where(places.amax() < short.longest, short.rotations(places), long.rotations(places))

    def _of_length(self, positions: int) -> RotaryFrequencies:
        found = self._frequencies.get(positions)
        if found is None:
            found = rotary_frequencies(self.parameters, length=positions, layer_type=self.layer_type)
            if self.backward:
                found = replace(found, per_position=tuple(-step for step in found.per_position))
            self._frequencies[positions] = found
        return found


class SelfAttention(Module):
    """Base of the causal self-attention of layer number `layer`; `rotary` None: without rotary positions."""

    def __init__(self, layer: int, heads: Heads, rotary: RotaryTable | None) -> None:
        super().__init__()
        self.layer, self.heads, self.rotary = layer, heads, rotary
        self.register_buffer("slopes", heads.slopes, persistent=False)

    def attend(self, qkv: Tensor, text: Text) -> Tensor:
        """[q, k, v] (..., T, (H + 2 KV) * D) → (..., T, H * D)."""
        heads = self.heads if self.slopes is None else replace(self.heads, slopes=self.slopes)
        return text.attention(self.layer, qkv, heads, self.rotary)


class GroupedQueryAttention(SelfAttention):
    """Self-attention with the projections q_proj, k_proj, v_proj and o_proj (Ainslie et al. 2023, arXiv 2305.13245).
    `output` is the name of the last one.
    """

    output = "o_proj"
    tensor_parallel: Mapping[str, tuple[str, ...]] = {
        "q_proj": ("outputs", "queries"), "k_proj": ("outputs", "keys"), "v_proj": ("outputs", "keys"),
        "o_proj": ("inputs", "queries"), "out_proj": ("inputs", "queries"), "dense": ("inputs", "queries"),
    }  # fmt: skip  # by nn/tensor_parallel.py

    def __init__(
        self, layer: int, hidden_size: int, heads: Heads, rotary: RotaryTable | None, *, bias: bool = False,
        output_bias: bool | None = None,
    ) -> None:  # fmt: skip
        super().__init__(layer, heads, rotary)
        inner, kv = heads.heads * heads.head_dim, heads.kv_heads * heads.head_dim
        self.q_proj = Linear(hidden_size, inner, bias=bias)
        self.k_proj = Linear(hidden_size, kv, bias=bias)
        self.v_proj = Linear(hidden_size, kv, bias=bias)
        last = ResidualLinear(inner, hidden_size, bias=bias if output_bias is None else output_bias)
        self.add_module(self.output, last)
        self.qkv = JoinedLinear("q_proj", "k_proj", "v_proj")

    def normalized(self, qkv: Tensor) -> Tensor:
        """[q, k, v] with normalised queries and keys, in models that have norms there."""
        return qkv

    def forward(self, x: Tensor, text: Text, residual: Tensor | None = None) -> Tensor:
        """x (..., T, hidden_size) → residual + attention, or the attention alone (..., T, hidden_size)."""
        y: Tensor = self._modules[self.output](self.attend(self.normalized(self.qkv(self, x)), text), residual)
        return y


class DecoderStack(Module):
    """The embedding, the layers and the last norm. A layer is called with (x, text)."""

    tokens, blocks, last_norm = "embed_tokens", "layers", "norm"  # the names of the parts

    @property
    def tensor_parallel(self) -> Mapping[str, tuple[str, ...]]:
        """How several processes divide the parts (nn/tensor_parallel.py)."""
        return {self.tokens: ("vocabulary",)}

    def __init__(self, vocab_size: int, hidden_size: int, layers: Iterable[Module], norm: Module) -> None:
        super().__init__()
        setattr(self, self.tokens, Embedding(vocab_size, hidden_size))
        setattr(self, type(self).blocks, ModuleList(layers))  # a model may call the list itself "blocks"
        setattr(self, self.last_norm, norm)

    @property
    def embedding(self) -> Embedding:
        """The table of tokens."""
        found: Embedding = getattr(self, self.tokens)
        return found

    def embedded(self, tokens: Tensor, text: Text) -> Tensor:
        """tokens (..., T) → the first layer's input (..., T, hidden_size)."""
        return self.embedding(tokens)

    def placed(self, tokens: Tensor, text: Text) -> Tensor | None:
        """What `embedded` adds to the words for their places (..., T, hidden_size); None: nothing."""
        return None

    def forward(
        self, tokens: Tensor, text: Text, x: Tensor | None = None, added: Sequence[Tensor] = ()
    ) -> Tensor:  # fmt: skip
        """tokens (..., T) → (..., T, hidden_size), before the last norm. x: the first layer's input, if it is not that
        of the tokens. added (..., T, hidden_size) each: to the output of the first layer, of the second …
        """
        x = self.embedded(tokens, text) if x is None else x  # (..., T, hidden_size)
        more = iter(added)
        for layer in getattr(self, type(self).blocks):
            x = layer(x, text)
            if added and (one := next(more, None)) is not None:
                x = x + one
        return x

    def normalized(self, x: Tensor) -> Tensor:
        """The last norm of x (..., hidden_size)."""
        y: Tensor = getattr(self, self.last_norm)(x)
        return y


class CausalLanguageModel(Module):
    """A decoder-only language model, as text.generation.generate.LanguageModel: `model` is its decoder without the
    head.

    `config` has vocab_size, hidden_size, tie_word_embeddings, max_seq_len, num_hidden_layers, num_key_value_heads and
    head_dim.
    """

    base_model_prefix = "model"  # the first part of the names of all tensors but the head's
    head_name = "lm_head"
    tensor_parallel: Mapping[str, tuple[str, ...]] = {"lm_head": ("vocabulary",)}
    whole_text: Any = WholeText  # the forms of the text that the layers read
    cached_text: Any = CachedText

    def __init__(self, config: Any, model: Module, *, bias: bool = False) -> None:
        super().__init__()
        self.config = config
        self.kv_heads: int = getattr(config, "num_key_value_heads", 0)  # of the caches, if those are of attention
        setattr(self, self.base_model_prefix, model)
        head = Linear(self.embedding.embedding_dim, config.vocab_size, bias=bias)
        setattr(self, self.head_name, head)
        if config.tie_word_embeddings:
            head.weight = self.embedding.weight

    @property
    def stack(self) -> DecoderStack:
        """The decoder without the head."""
        found: DecoderStack = getattr(self, self.base_model_prefix)
        return found

    @property
    def embedding(self) -> Embedding:
        """The table of tokens."""
        return self.stack.embedding

    def head(self, x: Tensor) -> Tensor:
        """x (..., hidden_size), the stack's output → logits (..., V)."""
        y: Tensor = self._modules[self.head_name](self.stack.normalized(x))
        return y

    def new_cache(self, capacity: int | None = None, dtype: Any = "float32", texts: int | None = None) -> Any:
        """An empty cache for `capacity` tokens (max_seq_len by default) in "float32", "float16" or "q8_0"; `texts`: how
        many texts are decoded together.
        """
        capacity = capacity or self.config.max_seq_len
        for module in self.modules():  # a Graph cannot make tables
            rotary = getattr(module, "rotary", None)
            if rotary is not None:
                rotary.upto(capacity, self.device)
        return self._empty_cache(capacity, dtype, texts)

    def _empty_cache(self, capacity: int, dtype: Any, texts: int | None) -> Any:
        """The cache of new_cache."""
        config = self.config
        return decoder_cache(
            texts, config.num_hidden_layers, self.kv_heads, capacity, config.head_dim, self.device, dtype
        )

    @property
    def device(self) -> Device:
        """The device on which the model computes."""
        found: Device = self.embedding.weight.device
        return found

    def dequantize(self) -> None:
        """Converts block-quantised weights to float32, so that activations need no int8."""
        made: dict[int, Tensor] = {}
        for module in self.modules():
            for name, parameter in list(module._parameters.items()):
                if parameter.dtype.is_quantized:
                    if id(parameter) not in made:
                        value = quant.dequantize(parameter)
                        value = value.reshape(module.stack_shape(name)) if isinstance(module, Experts) else value
                        made[id(parameter)] = Parameter(value, requires_grad=False)
                    setattr(module, name, made[id(parameter)])

    def hidden(self, tokens: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """tokens (B, T) integers → what the head reads (B, T, hidden_size). attention_mask (B, T): 0 where a token is
        padding, which no other token attends to.
        """
        most = self.config.max_seq_len
        if tokens.ndim != 2 or tokens.shape[1] > most:
            raise ArgumentError(f"tokens are (B, T) with T at most {most}, not {tuple(tokens.shape)}")
        if attention_mask is not None and attention_mask.shape != tokens.shape:
            raise ArgumentError(f"attention_mask is {tuple(attention_mask.shape)}, the tokens {tuple(tokens.shape)}")
        return self.stack(tokens, self.whole_text(tokens.shape[1], attention_mask))

    def forward(self, tokens: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """tokens (B, T) integers → logits (B, T, V). attention_mask (B, T): as of `hidden`."""
        return self.head(self.hidden(tokens, attention_mask))

    def forward_cached(self, tokens: Tensor, position: Tensor, cache: TextCache, last_only: bool = True) -> Tensor:
        """tokens (T,) int32 at position[0] … → logits (1, V) of the last, or (T, V) of all. `position` is int32 (1,).

        The keys and values of the tokens are written to `cache`, which has a cache per layer (new_cache, or another of
        nn.decoders.caches). With a BatchCache: tokens (B, T), position (B,), last_only False → (B, T, V). With a
        PackedCache: tokens (N, 1), position (N,), last_only True → (R, 1, V).
        """
        x = self.stack(tokens, self.cached_text(position, cache))  # (T, dim)
        return self.head(last_tokens(x, cache) if last_only else x).to(float32)


def normalized_heads(qkv: Tensor, heads: Heads, q_norm: Module, k_norm: Module) -> Tensor:
    """[q, k, v] (..., (H + 2 KV) * D) with each head's query and key normalised (Dehghani et al. 2023, arXiv
    2302.05442).
    """
    found = heads_at_once(qkv, heads.heads, heads.kv_heads, q_norm, k_norm)
    if found is not None:
        return found
    q, k, v = split_heads(qkv, heads)
    return cat([q_norm(q), k_norm(k), v], -2).reshape(qkv.shape)


def soft_capped(x: Tensor, cap: float | None) -> Tensor:
    """cap tanh(x / cap) (Bello et al. 2016, arXiv 1611.09940); x itself without a cap."""
    return x if cap is None else (x * (1 / cap)).tanh() * cap


def heads_together(qkv: Tensor, heads: Heads) -> Tensor:
    """[query, key, value] of one head after another (..., H * 3 * D) → [all queries, all keys, all values]."""
    x = qkv.reshape(*qkv.shape[:-1], heads.heads, 3, heads.head_dim)
    return x.transpose(-2, -3).reshape(qkv.shape)
