"""The parts of Granite's models (Granite Team 2024): Llama's blocks with factors for embeddings, residuals and logits.
`config` is a MultiplierConfig of models/loading/multipliers.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...engine import Tensor
from ..layers.experts import SparseFeedForward
from ..layers.gated import gated
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import RMSNorm
from ..module import Module
from .decoder import CausalLanguageModel, DecoderStack, GroupedQueryAttention, RotaryTable, Text


class ScaledStack(DecoderStack):
    """The decoder, whose embeddings are scaled by `scale`."""

    scale = 1.0

    def embedded(self, tokens: Tensor, text: Text) -> Tensor:
        return self.embed_tokens(tokens) * self.scale


class ScaledBlock(Module):
    """Attention and feed-forward, each with a norm before it, scaled and added to the residual. `name` is that of the
    feed-forward part; attention None: with a scale of its scores.
    """

    def __init__(
        self, config: Any, layer: int, rotary: RotaryTable, feed_forward: Module, name: str = "mlp",
        attention: Module | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        size, epsilon = config.hidden_size, config.rms_norm_eps
        if attention is None:
            heads = config.heads(scale=config.attention_multiplier)
            attention = GroupedQueryAttention(layer, size, heads, rotary, bias=config.attention_bias)
        self.self_attn = attention
        self.name = name
        self.add_module(name, feed_forward)
        self.input_layernorm = RMSNorm(size, epsilon)
        self.post_attention_layernorm = RMSNorm(size, epsilon)
        self.scale = config.residual_multiplier

    def feed_forward(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → (..., hidden_size)."""
        y: Tensor = self._modules[self.name](x)
        return y

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        x = x + self.self_attn(self.input_layernorm(x), text) * self.scale
        return x + self.feed_forward(self.post_attention_layernorm(x)) * self.scale


def sparse_feed_forward(config: Any) -> SparseFeedForward:
    """A mixture of experts."""
    size, inner, count = config.hidden_size, config.intermediate_size, config.num_experts_per_tok
    return SparseFeedForward(size, inner, config.num_local_experts, count, config.hidden_act, name="router")


class ScaledSharedFeedForward(Module):
    """The expert of every token, with gate and up in one matrix."""

    tensor_parallel: Mapping[str, tuple[str, ...]] = {
        "input_linear": ("outputs", "inner", "inner"), "output_linear": ("inputs", "inner"),
    }  # fmt: skip

    def __init__(self, config: Any) -> None:
        super().__init__()
        inner = config.shared_intermediate_size
        self.input_linear = Linear(config.hidden_size, 2 * inner, bias=False)
        self.output_linear = ResidualLinear(inner, config.hidden_size, bias=False)
        self.activation = config.hidden_act

    def forward(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → (..., hidden_size)."""
        return self.output_linear(gated(self.input_linear(x), self.activation))


class ScaledSparseBlock(ScaledBlock):
    """Attention and a mixture of experts, beside one that every token has if it has a size."""

    def __init__(self, config: Any, layer: int, rotary: RotaryTable, attention: Module | None = None) -> None:
        super().__init__(config, layer, rotary, sparse_feed_forward(config), "block_sparse_moe", attention)
        self.shared_mlp = ScaledSharedFeedForward(config) if config.shared_intermediate_size else None

    def feed_forward(self, x: Tensor) -> Tensor:
        y = super().feed_forward(x)
        return y if self.shared_mlp is None else y + self.shared_mlp(x)


class ScaledLanguageModel(CausalLanguageModel):
    """A language model of such blocks: `block(config, layer, rotary)` makes one. `rotated`: the features of a head that
    are rotated, if config.head_dim is another size.
    """

    def __init__(
        self, config: Any, block: Callable[[Any, int, RotaryTable], Module], rotated: int | None = None
    ) -> None:  # fmt: skip
        rotary = RotaryTable(config.to_dict() | ({} if rotated is None else {"head_dim": rotated}))
        blocks = (block(config, layer, rotary) for layer in range(config.num_hidden_layers))
        norm = RMSNorm(config.hidden_size, config.rms_norm_eps)
        stack = ScaledStack(config.vocab_size, config.hidden_size, blocks, norm)
        stack.scale = config.embedding_multiplier
        super().__init__(config, stack)

    def head(self, x: Tensor) -> Tensor:
        """x (..., hidden_size) → logits (..., V)."""
        return super().head(x) * self.config.logit_factor
