"""Decoders of BART's form without an encoder, as OPT, BioGPT and XGLM have it: learned or fixed positions, layer norms
with biases, a plain feed-forward layer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import log, sqrt
from typing import Any

from ...engine import Tensor, ops
from ..decoders.decoder import CausalLanguageModel, DecoderStack, GroupedQueryAttention, Text, WholeText
from ..heads import Heads
from ..layers.gated import activated, activation_named
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import LayerNorm
from ..module import Module

FIRST_ROW = 2  # of the table of positions that a text uses
LONGEST_WAVE = 10000  # the longest wave of positions turns so much slower than the shortest


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


class Waves(Module):
    """The table of positions (Vaswani et al. 2017, arXiv 1706.03762): sines, and then cosines. It is not in files."""

    def __init__(self, rows: int, size: int) -> None:
        super().__init__()
        half = size // 2
        steps = (ops.arange(half, dtype="float32") * -(log(LONGEST_WAVE) / max(half - 1, 1))).exp()
        angles = ops.arange(rows, dtype="float32").unsqueeze(1) * steps  # (rows, half)
        self.register_buffer("weights", ops.cat([angles.sin(), angles.cos()], 1), persistent=False)

    def forward(self, positions: Tensor) -> Tensor:
        """positions (...) integers → (..., size)."""
        found = ops.index_select(self.weights, 0, positions.reshape(-1))
        return found.reshape(*positions.shape, found.shape[-1])


class MaskedText(WholeText):
    """Whole texts whose positions count from the first token that is not padding; padding has the position -1."""

    def positions(self, tokens: Tensor) -> Tensor:
        if self.mask is None:
            return super().positions(tokens)
        own = self.mask.reshape(*tokens.shape).to("int32")  # (B, T)
        return own.cumsum(1).to("int32") * own - 1


class BartStack(DecoderStack):
    """The decoder of such blocks; `scaled`: words are multiplied by the root of their size. `positions` is the table of
    positions, whose rows before `first` no text uses.
    """

    last_norm = "layer_norm"

    def __init__(
        self, vocab_size: int, size: int, blocks: Iterable[Module], positions: Module, scaled: bool, *,
        first: int = FIRST_ROW, epsilon: float = 1e-5,
    ) -> None:  # fmt: skip
        super().__init__(vocab_size, size, blocks, LayerNorm(size, epsilon))
        self.embed_positions, self.first = positions, first
        self.scale = sqrt(size) if scaled else 1.0

    def embedded(self, tokens: Tensor, text: Text) -> Tensor:
        x: Tensor = self.embed_tokens(tokens) * self.scale + self.placed(tokens, text)
        return x

    def placed(self, tokens: Tensor, text: Text) -> Tensor:
        found: Tensor = self.embed_positions(text.positions(tokens) + self.first)
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
