"""The parts of T5 (Raffel et al. 2019, arXiv 1910.10683): layers with a norm before each part, and biases by distance
in place of positions.

Parameters have the names of Hugging Face's files, fields of configurations those of its config.json. Scores of
attention are not scaled.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...engine import Device, Tensor
from ...engine.ops import cat
from ..encoders.encoders import Encoder, Words, as_bias, attend_joined, visible_keys
from ..layers.containers import ModuleList
from ..layers.embedding import Embedding
from ..layers.gated import activation_named
from ..layers.joined import JoinedLinear
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import RMSNorm
from ..module import Module
from ..positions.relative_positions import distance_bias, distance_buckets
from .sequence_to_sequence import Memory, SequenceToSequence

MOST = 1 << 15  # tokens: the biases know no largest position


class Attention(Module):
    """The projections of attention, without biases."""

    def __init__(self, config: Any, biased: bool = False) -> None:
        super().__init__()
        inner, self.heads, self.size = config.num_heads * config.d_kv, config.num_heads, config.d_kv
        self.q = Linear(config.d_model, inner, bias=False)
        self.k = Linear(config.d_model, inner, bias=False)
        self.v = Linear(config.d_model, inner, bias=False)
        self.o = ResidualLinear(inner, config.d_model, bias=False)
        self.qkv = JoinedLinear("q", "k", "v")
        if biased:
            self.relative_attention_bias = Embedding(config.relative_attention_num_buckets, config.num_heads)

    def project(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values (B, S, H, D) of a source (B, S, d_model)."""
        k, v = (part(encoded).reshape(*encoded.shape[:2], self.heads, self.size) for part in (self.k, self.v))
        return k, v


class SelfAttention(Module):
    """Attention of a text to itself, after a norm."""

    def __init__(self, config: Any, biased: bool) -> None:
        super().__init__()
        self.SelfAttention = Attention(config, biased)
        self.layer_norm = RMSNorm(config.d_model, config.layer_norm_epsilon)

    def encode(self, x: Tensor, bias: Tensor) -> Tensor:
        """x (B, T, d_model), bias (B or 1, H, T, T) → (B, T, d_model)."""
        own = self.SelfAttention
        return own.o(attend_joined(own.qkv(own, self.layer_norm(x)), own.heads, bias, 1.0), x)

    def decode(self, x: Tensor, memory: Memory, layer: int, bias: Tensor) -> Tensor:
        """x (R, T, d_model), bias (1, H, T, length) → (R, T, d_model)."""
        own = self.SelfAttention
        parts = own.qkv(own, self.layer_norm(x)).reshape(*x.shape[:2], 3 * own.heads, own.size)
        q, k, v = (parts.narrow(2, i * own.heads, own.heads) for i in range(3))  # (R, T, H, D)
        return own.o(memory.own(layer, q, k, v, bias, 1.0), x)


class CrossAttention(Module):
    """Attention to the source, after a norm."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.EncDecAttention = Attention(config)
        self.layer_norm = RMSNorm(config.d_model, config.layer_norm_epsilon)

    def forward(self, x: Tensor, memory: Memory, layer: int) -> Tensor:
        """x (R, T, d_model) → (R, T, d_model)."""
        own = self.EncDecAttention
        q = own.q(self.layer_norm(x)).reshape(*x.shape[:2], own.heads, own.size)  # (R, T, H, D)
        return own.o(memory.source(layer, q, own.project, 1.0), x)


class Dense(Module):
    """wo(activation(wi x))."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.activation = activation_named(config.activation)
        self.wi = Linear(config.d_model, config.d_ff, bias=False)
        self.wo = ResidualLinear(config.d_ff, config.d_model, bias=False)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (..., d_model) → (..., d_model)."""
        return self.wo(self.activation(self.wi(x)), residual)


class GatedDense(Module):
    """wo(activation(wi_0 x) * wi_1 x)."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.activation = activation_named(config.activation)
        self.wi_0 = Linear(config.d_model, config.d_ff, bias=False)
        self.wi_1 = Linear(config.d_model, config.d_ff, bias=False)
        self.wo = ResidualLinear(config.d_ff, config.d_model, bias=False)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (..., d_model) → (..., d_model)."""
        return self.wo(self.activation(self.wi_0(x)) * self.wi_1(x), residual)


class FeedForward(Module):
    """The feed-forward part, after a norm."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.DenseReluDense = GatedDense(config) if config.gated else Dense(config)
        self.layer_norm = RMSNorm(config.d_model, config.layer_norm_epsilon)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., d_model) → (..., d_model)."""
        return self.DenseReluDense(self.layer_norm(x), x)


class Block(Module):
    """The parts of a layer, in a list as the files have them."""

    def __init__(self, *parts: Module) -> None:
        super().__init__()
        self.layer = ModuleList(parts)


class Stack(Module):
    """The encoder or the decoder: its layers and the last norm. `attention`: makes a layer's attention to its own text,
    of the configuration and whether it has biases. `feed_forward`: makes the part of layer i, of the configuration
    and i.
    """

    def __init__(
        self, config: Any, table: Embedding, layers: int, decoder: bool,
        attention: Callable[[Any, bool], Module] = SelfAttention,
        feed_forward: Callable[[Any, int], Module] = lambda config, layer: FeedForward(config),
    ) -> None:  # fmt: skip
        super().__init__()
        self.config, self.decoder = config, decoder
        self.embed_tokens = Embedding(config.vocab_size, config.d_model)
        self.embed_tokens.weight = table.weight
        more = [CrossAttention] if decoder else []
        self.block = ModuleList(
            Block(
                attention(config, i < config.biased_layers), *(part(config) for part in more), feed_forward(config, i)
            )
            for i in range(layers)
        )
        self.final_layer_norm = RMSNorm(config.d_model, config.layer_norm_epsilon)

    def bias(self, tokens: int, keys: int) -> Tensor:
        """The biases (1, L H, T, S) of the last T of S tokens, of the heads of all L layers that have biases."""
        buckets = distance_buckets(
            tokens, keys, self.config.relative_attention_num_buckets, self.config.relative_attention_max_distance,
            not self.decoder, keys - tokens,
        )  # fmt: skip
        tables = [block.layer[0].SelfAttention.relative_attention_bias.weight for block in self._biased()]
        return distance_bias(tables[0] if len(tables) == 1 else cat(tables, 1), buckets)

    def _biased(self) -> list[Module]:
        return [block for i, block in enumerate(self.block) if i < self.config.biased_layers]

    def _own(self, bias: Tensor, layer: int) -> Tensor:
        """The biases (…, H, T, S) of a layer, of those of all."""
        heads = self.config.num_heads
        return bias if bias.shape[1] == heads else bias.narrow(1, layer * heads, heads)

    def encode(self, ids: Tensor, mask: Tensor | None) -> Tensor:
        """ids (B, S), mask (B, 1, 1, S) → (B, S, d_model)."""
        return self.encode_vectors(self.embed_tokens(ids), mask)

    def encode_vectors(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """As encode, of the vectors (B, S, d_model) of words, or of what stands in their place."""
        bias = as_bias(mask, self.bias(x.shape[1], x.shape[1]))  # (B or 1, L H, S, S)
        for i, block in enumerate(self.block):
            attention, dense = block.layer
            x = dense(attention.encode(x, self._own(bias, i)))
        return self.final_layer_norm(x)

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R, T) → (R, T, d_model)."""
        x = self.embed_tokens(tokens)
        bias = memory.distances(self.bias)
        for i, block in enumerate(self.block):
            attention, source, dense = block.layer
            x = dense(source(attention.decode(x, memory, i, self._own(bias, i)), memory, i))
        return self.final_layer_norm(x)


def encoder_stack(config: Any, table: Embedding) -> Stack:
    """T5's encoder."""
    return Stack(config, table, config.num_layers, decoder=False)


def decoder_stack(config: Any, table: Embedding) -> Stack:
    """T5's decoder."""
    return Stack(config, table, config.decoder_layers, decoder=True)


class T5(SequenceToSequence):
    """The model with its head over words. `encoder` and `decoder` make these parts, of the configuration and the table
    of words.
    """

    def __init__(
        self, config: Any, encoder: Callable[[Any, Embedding], Stack] = encoder_stack,
        decoder: Callable[[Any, Embedding], Stack] = decoder_stack,
    ) -> None:  # fmt: skip
        super().__init__()
        self.config = config
        self.most = MOST
        self.shared = Embedding(config.vocab_size, config.d_model)
        self.encoder = encoder(config, self.shared)
        self.decoder = decoder(config, self.shared)
        table = self.shared if config.tie_word_embeddings else None
        self.lm_head = Words(config.d_model, config.vocab_size, table, bias=False)

    @property
    def device(self) -> Device:
        return self.shared.weight.device

    def encode(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return self.encoder.encode(ids, visible_keys(attention_mask))

    def decode(self, tokens: Tensor, memory: Memory) -> Tensor:
        x = self.decoder.decode(tokens, memory)  # (R, T, d_model)
        return self.lm_head(x * self.config.d_model**-0.5 if self.config.scaled else x)


class T5Encoder(Encoder):
    """The encoder alone, whose hidden states are embeddings (Sentence-T5, GTR). `encoder`: as of `T5`."""

    def __init__(self, config: Any, encoder: Callable[[Any, Embedding], Stack] = encoder_stack) -> None:
        super().__init__()
        self.config = config
        self.most = MOST
        self.shared = Embedding(config.vocab_size, config.d_model)
        self.encoder = encoder(config, self.shared)

    @property
    def word_embeddings(self) -> Embedding:
        return self.shared

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, d_model). There are no token types: those given are ignored."""
        self.check(ids, attention_mask)
        return self.encoder.encode(ids, visible_keys(attention_mask))
