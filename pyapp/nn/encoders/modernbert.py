"""The parts that ModernBERT's encoder and decoder share (Warner et al. 2024, arXiv 2412.13663). Configurations have the
fields of its config.json.
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor
from ..layers.embedding import Embedding
from ..layers.gated import activation_named
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import LayerNorm
from ..module import Module


def biased_norm(config: Any) -> LayerNorm:
    """A norm, whose bias the configuration may leave out."""
    return LayerNorm(config.hidden_size, config.norm_eps, bias=config.norm_bias)


class NormedEmbedding(Module):
    """The words, normalised."""

    tensor_parallel = {"tok_embeddings": ("vocabulary",)}

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.tok_embeddings = Embedding(config.vocab_size, config.hidden_size, config.pad_token_id)
        self.norm = biased_norm(config)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (B, T) → (B, T, D)."""
        return self.norm(self.tok_embeddings(ids))


class FeedForward(Module):
    """Wo(activation(a) * b) of [a, b] = Wi x."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.activation = activation_named(config.hidden_activation)
        self.Wi = Linear(config.hidden_size, 2 * config.intermediate_size, bias=config.mlp_bias)
        self.Wo = ResidualLinear(config.intermediate_size, config.hidden_size, bias=config.mlp_bias)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (B, T, D) → residual + feed-forward (B, T, D)."""
        a, b = self.Wi(x).chunk(2, -1)
        return self.Wo(self.activation(a) * b, residual)


class Prediction(Module):
    """norm(activation(dense(x))), before every head."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.dense = Linear(config.hidden_size, config.hidden_size, bias=config.classifier_bias)
        self.norm = biased_norm(config)
        self.activation = activation_named(config.classifier_activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) → (..., D)."""
        return self.norm(self.activation(self.dense(x)))
