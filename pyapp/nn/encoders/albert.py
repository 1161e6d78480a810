"""The encoder of ALBERT (Lan et al. 2019, arXiv 1909.11942): BERT with narrow embeddings, whose layers share their
weights. `config` has the fields of pyapp.models.albert's.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor
from ..layers.containers import ModuleList
from ..layers.gated import activated, activation_named
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import LayerNorm
from ..module import Module
from .encoders import BertEmbeddings, Encoder, SelfAttention, visible_keys


class Attention(SelfAttention):
    """Self-attention, its output projection, the residual and the norm."""

    def __init__(self, config: Any) -> None:
        super().__init__(config.hidden_size, config.num_attention_heads)
        self.dense = ResidualLinear(config.hidden_size, config.hidden_size)
        self.LayerNorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return self.LayerNorm(self.dense(super().forward(x, mask), x))


class Layer(Module):
    """Attention and a feed-forward part, each followed by a residual and a norm."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.ffn = Linear(config.hidden_size, config.intermediate_size)
        self.ffn_output = ResidualLinear(config.intermediate_size, config.hidden_size)
        self.full_layer_layer_norm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.attention(x, mask)
        return self.full_layer_layer_norm(self.ffn_output(activated(self.ffn, x, self.activation), x))


class Group(Module):
    """Layers that are run one after the other."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.albert_layers = ModuleList(Layer(config) for _ in range(config.inner_group_num))


class Layers(Module):
    """The layers of all groups, by turns as often as there are hidden layers."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.count = config.num_hidden_layers
        self.embedding_hidden_mapping_in = Linear(config.embedding_size, config.hidden_size)
        self.albert_layer_groups = ModuleList(Group(config) for _ in range(config.num_hidden_groups))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, embedding_size) → (B, T, D)."""
        x = self.embedding_hidden_mapping_in(x)
        groups = list(self.albert_layer_groups)
        for i in range(self.count):
            for layer in groups[int(i / (self.count / len(groups)))].albert_layers:
                x = layer(x, mask)
        return x


class Albert(Encoder):
    """The encoder; with `pooler`, also the layer over the first token that some heads read."""

    def __init__(self, config: Any, pooler: bool = True) -> None:
        super().__init__()
        self.config = config
        self.most = config.max_position_embeddings
        self.embeddings = BertEmbeddings(config, config.embedding_size)
        self.encoder = Layers(config)
        self.pooler: Linear | None = Linear(config.hidden_size, config.hidden_size) if pooler else None

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        self.check(ids, attention_mask, type_ids)
        return self.encoder(self.embeddings(ids, type_ids), visible_keys(attention_mask))
