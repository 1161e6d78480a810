"""Decoders whose layers each have an input of their own for every token, and whose last layers attend to the keys and
values of earlier ones: Gemma 3n (https://ai.google.dev/gemma/docs/gemma-3n) and Gemma 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import sqrt
from typing import Any

from ...engine import Tensor
from ...engine.ops import cat, where
from ..heads import Heads
from ..layers.embedding import Embedding
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import RMSNorm
from ..module import Module
from .decoder import DecoderStack, RotaryTable, SelfAttention, Text


class SharedKeysAttention(SelfAttention):
    """Self-attention of layer `layer` with normalised queries, keys and values. These are in the cache of layer
    `source`: if that is another layer, they are the ones that it computed. `values` False: the values are the keys
    before their norm.
    """

    tensor_parallel = {
        "q_proj": ("outputs", "queries"), "k_proj": ("outputs", "keys"), "v_proj": ("outputs", "keys"),
        "o_proj": ("inputs", "queries"), "q_norm": ("between",), "k_norm": ("between",), "v_norm": ("between",),
    }  # fmt: skip

    def __init__(
        self, layer: int, source: int, hidden_size: int, heads: Heads, rotary: RotaryTable, epsilon: float, *,
        bias: bool = False, values: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(source, heads, rotary)
        inner, kv = heads.heads * heads.head_dim, heads.kv_heads * heads.head_dim
        self.q_proj = Linear(hidden_size, inner, bias=bias)
        self.q_norm = RMSNorm(heads.head_dim, epsilon)
        if source == layer:
            self.k_proj = Linear(hidden_size, kv, bias=bias)
            self.v_proj = Linear(hidden_size, kv, bias=bias) if values else None
            self.k_norm = RMSNorm(heads.head_dim, epsilon)
            self.v_norm = RMSNorm(heads.head_dim, epsilon, elementwise_affine=False)
        self.o_proj = ResidualLinear(inner, hidden_size, bias=bias)

    def forward(self, x: Tensor, text: Text, known: Tensor | None) -> tuple[Tensor, Tensor]:
        """x (..., T, hidden_size), the keys and values [k, v] (..., T, 2 KV, D) of the source before they are rotated,
        None: if the layer computes its own → attention (..., T, hidden_size), and the keys and values.
        """
        heads = self.heads
        queries = self.q_norm(self._by_head(self.q_proj(x)))  # (..., T, H, D)
        if known is None:
            keys = self._by_head(self.k_proj(x))  # (..., T, KV, D)
            values = keys if self.v_proj is None else self._by_head(self.v_proj(x))
            known = cat([self.k_norm(keys), self.v_norm(values)], -2)
        qkv = cat([queries, known], -2).reshape(*x.shape[:-1], heads.width)
        return self.o_proj(self.attend(qkv, text)), known

    def _by_head(self, x: Tensor) -> Tensor:
        """(..., F) → (..., F / D, D)."""
        return x.reshape(*x.shape[:-1], -1, self.heads.head_dim)


class LayerInputsStack(DecoderStack):
    """A decoder whose embeddings are scaled by the root of their size, with an embedding and a projection for the input
    of each layer. `config` has hidden_size, hidden_size_per_layer_input (0: layers have no inputs),
    vocab_size_per_layer_input, num_hidden_layers and rms_norm_eps.
    """

    @property
    def tensor_parallel(self) -> Mapping[str, tuple[str, ...]]:
        """How several processes divide the parts (nn/tensor_parallel.py)."""
        return {**super().tensor_parallel, **({"embed_tokens_per_layer": ("vocabulary",)} if self.own else {})}

    def __init__(self, config: Any, layers: Iterable[Module]) -> None:
        size, own, epsilon = config.hidden_size, config.hidden_size_per_layer_input, config.rms_norm_eps
        super().__init__(config.vocab_size, size, layers, RMSNorm(size, epsilon))
        self.own: int = own
        if own:
            width = config.num_hidden_layers * own
            self.embed_tokens_per_layer = Embedding(config.vocab_size_per_layer_input, width)
            self.per_layer_model_projection = Linear(size, width, bias=False)
            self.per_layer_projection_norm = RMSNorm(own, epsilon)

    def embedded(self, tokens: Tensor, text: Text) -> Tensor:
        return self.embed_tokens(tokens) * sqrt(self.embed_tokens.embedding_dim)

    def layer_inputs(self, tokens: Tensor, x: Tensor) -> Tensor:
        """tokens (..., T) and the first layer's input (..., T, hidden_size) → the input of each of L layers (..., T, L,
        hidden_size_per_layer_input).
        """
        table = self.embed_tokens_per_layer
        found = table(where(tokens < table.num_embeddings, tokens, 0)) * sqrt(self.own)  # (..., T, L * own)
        projected = self.per_layer_model_projection(x) * x.shape[-1] ** -0.5
        shape = (*tokens.shape, -1, self.own)
        return (self.per_layer_projection_norm(projected.reshape(shape)) + found.reshape(shape)) * sqrt(0.5)
