"""BERT with linear biases by distance instead of positions, and gated feed-forward parts (Günther et al. 2023,
arXiv 2310.19923): the encoder of jina-embeddings-v2 and jina-reranker-v1.

Parameters have the names of Jina's files.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...engine import Tensor, ops
from ..layers.containers import ModuleList
from ..layers.embedding import Embedding
from ..layers.gated import gated
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import LayerNorm
from ..module import Module
from ..positions.linear_biases import slopes
from .encoders import Encoder, NormedResidual, Pooler, SelfAttention, as_bias, attend, visible_keys

GATES = {"geglu": "gelu", "reglu": "relu"}  # feed_forward_type → the activation of the gate
QUERIES = 512  # at a time: the biases of all pairs of a long text would not fit into memory

Biases = Callable[[int, int], Tensor]  # (first query, their number N) → (B or 1, H, N, T)


class Embeddings(Module):
    """The sum of a token's word and type, normalised."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.word_embeddings = Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.token_type_embeddings = Embedding(config.type_vocab_size, config.hidden_size)
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, ids: Tensor, type_ids: Tensor | None) -> Tensor:
        """ids and type_ids (B, T) → (B, T, D)."""
        types = ops.zeros(1, dtype="int32", device=ids.device) if type_ids is None else type_ids
        return self.LayerNorm(self.word_embeddings(ids) + self.token_type_embeddings(types))


class BiasedAttention(SelfAttention):
    """Self-attention with biases that are added to the scores."""

    def attended(self, x: Tensor, biases: Biases) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        batch, tokens, width = x.shape
        qkv = self.joined(self, x).reshape(batch, tokens, 3 * self.heads, width // self.heads)
        q, k, v = (qkv.narrow(2, i * self.heads, self.heads) for i in range(3))  # (B, T, H, D / H)
        found = []
        for first in range(0, tokens, QUERIES):
            count = min(QUERIES, tokens - first)
            found.append(attend(q.narrow(1, first, count), k, v, biases(first, count)))  # (B, count, D)
        return found[0] if len(found) == 1 else ops.cat(found, 1)


class Attention(Module):
    """Self-attention, its output projection, the residual and the norm."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.add_module("self", BiasedAttention(config.hidden_size, config.num_attention_heads))
        self.output = NormedResidual(config.hidden_size, config.hidden_size, config.layer_norm_eps)

    def forward(self, x: Tensor, biases: Biases) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        own: Any = self._modules["self"]
        return self.output(own.attended(x, biases), x)


class FeedForward(Module):
    """LayerNorm(x + wo(activation(gate) * values)), gate and values from one projection."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, inner = config.hidden_size, config.intermediate_size
        self.activation = GATES[config.feed_forward_type]
        self.gated_layers = Linear(width, 2 * inner, bias=False)
        self.wo = ResidualLinear(inner, width)
        self.layernorm = LayerNorm(width, config.layer_norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return self.layernorm(self.wo(gated(self.gated_layers(x), self.activation), x))


class Layer(Module):
    """Attention and a feed-forward part, each followed by a residual and a norm."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.mlp = FeedForward(config)

    def forward(self, x: Tensor, biases: Biases) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return self.mlp(self.attention(x, biases))


class Layers(Module):
    """The layers, one after the other. The biases are the same in all."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.slopes = slopes(config.num_attention_heads)
        self.layer = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        tokens = x.shape[1]
        places = ops.arange(tokens, dtype="float32", device=x.device)  # (T,)
        factors = ops.tensor([-slope for slope in self.slopes], device=x.device).reshape(1, -1, 1, 1)  # (1, H, 1, 1)

        def biases(first: int, count: int) -> Tensor:
            distances = (places.narrow(0, first, count).unsqueeze(1) - places).abs()  # (count, T)
            return as_bias(mask, factors * distances)

        if tokens <= QUERIES:
            whole = biases(0, tokens)  # (B or 1, H, T, T)
            same: Biases = lambda first, count: whole  # noqa: E731
        else:
            same = biases
        for layer in self.layer:
            x = layer(x, same)
        return x


class AlibiBertEncoder(Encoder):
    """The encoder; with `pooler`, also the layer over the first token that some heads read."""

    def __init__(self, config: Any, pooler: bool = True) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.embeddings = Embeddings(config)
        self.encoder = Layers(config)
        self.pooler: Pooler | None = Pooler(config.hidden_size) if pooler else None

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        return self.encoder(self.embeddings(ids, type_ids), visible_keys(attention_mask))
