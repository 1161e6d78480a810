"""Decoders of BART's form without an encoder, as OPT, BioGPT and XGLM have it: learned or fixed positions, layer norms
with biases, a plain feed-forward layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import sqrt
from typing import Any

from ...engine import Tensor
from ..decoders.decoder import CausalLanguageModel, DecoderStack, GroupedQueryAttention, Text, WholeText
from ..heads import Heads
from ..layers.gated import activated, activation_named
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import LayerNorm
from ..module import Module

FIRST_ROW = 2  # of the table of positions that a text uses


class Attention(GroupedQueryAttention):
    """Self-attention with another name for the last projection."""

    output = "out_proj"


class BartBlock(Module):
    """Attention and feed-forward, each with a norm before it or, with its residual, after it. `norm` makes a norm."""

    tensor_parallel = {
        "fc1": ("outputs", "inner"), "fc2": ("inputs", "inner"), "self_attn": ("whole",),
        "self_attn_layer_norm": ("whole",), "final_layer_norm": ("whole",),
    }  # fmt: skip

    def __init__(
        self, layer: int, size: int, inner: int, heads: Heads, activation: str, norm: Callable[[], Module], *,
        before: bool = True, bias: bool = True,
    ) -> None:  # fmt: skip
        super().__init__()
        self.before, self.activation = before, activation_named(activation)
        self.self_attn = Attention(layer, size, heads, None, bias=bias)
        self.self_attn_layer_norm = norm()
        self.fc1 = Linear(size, inner, bias)
        self.fc2 = ResidualLinear(inner, size, bias)
        self.final_layer_norm = norm()

    def forward(self, x: Tensor, text: Text) -> Tensor:
        """x (..., T, hidden_size) → (..., T, hidden_size)."""
        if self.before:
            x = self.self_attn(self.self_attn_layer_norm(x), text, x)
            return self.fc2(activated(self.fc1, self.final_layer_norm(x), self.activation), x)
        x = self.self_attn_layer_norm(self.self_attn(x, text, x))
        return self.final_layer_norm(self.fc2(activated(self.fc1, x, self.activation), x))


class MaskedText(WholeText):
    """Whole texts whose positions count from the first token that is not padding; padding has the position -1."""

    def positions(self, tokens: Tensor) -> Tensor:
        if self.mask is None:
            return super().positions(tokens)
        own = self.mask.reshape(*tokens.shape).to("int32")  # (B, T)
        return own.cumsum(1).to("int32") * own - 1


class BartStack(DecoderStack):
    """The decoder of such blocks; `scaled`: words are multiplied by the root of their size. `positions` is the table of
    positions, whose first FIRST_ROW rows no text uses.
    """

    last_norm = "layer_norm"

    def __init__(self, vocab_size: int, size: int, blocks: Iterable[Module], positions: Module, scaled: bool) -> None:
        super().__init__(vocab_size, size, blocks, LayerNorm(size))
        self.embed_positions = positions
        self.scale = sqrt(size) if scaled else 1.0

    def embedded(self, tokens: Tensor, text: Text) -> Tensor:
        x: Tensor = self.embed_tokens(tokens) * self.scale + self.placed(tokens, text)
        return x

    def placed(self, tokens: Tensor, text: Text) -> Tensor:
        found: Tensor = self.embed_positions(text.positions(tokens) + FIRST_ROW)
        return found


class BartLanguageModel(CausalLanguageModel):
    """A language model of such a decoder. `config` has the fields of its attention (DecoderConfig), and the inner size
    of its feed-forward layers, their activation and whether words are scaled under the names that the model gives.
    """

    def __init__(
        self, config: Any, positions: Module, *, inner: int, activation: str, scaled: bool, epsilon: float = 1e-5
    ) -> None:
        size = config.hidden_size

        def norm() -> Module:
            return LayerNorm(size, epsilon)

        blocks = (
            BartBlock(layer, size, inner, config.heads(), activation, norm) for layer in range(config.num_hidden_layers)
        )
        super().__init__(config, BartStack(config.vocab_size, size, blocks, positions, scaled))
