"""Decoders with BERT's layers, which attend to a source too: those of BLIP, and of BERT and RoBERTa as the second part
of another model (Rothe et al. 2019, arXiv 1907.12461).
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor
from ..layers.containers import ModuleList
from ..layers.linear import Linear
from ..module import Module
from ..sequence_to_sequence.sequence_to_sequence import Memory
from .encoders import BertEmbeddings, Intermediate, NormedResidual


class TextAttention(Module):
    """Attention of each token to the text so far, or to the source; the residual and the norm."""

    def __init__(self, config: Any, source_width: int) -> None:
        super().__init__()
        width = config.hidden_size
        self.heads = config.num_attention_heads
        parts = Module()
        parts.query, parts.key, parts.value = (Linear(wide, width) for wide in (width, source_width, source_width))
        self.add_module("self", parts)
        self.output = NormedResidual(width, width, config.layer_norm_eps)

    def heads_of(self, name: str, x: Tensor) -> Tensor:
        """x (B, T, D) → the queries, keys or values (B, T, H, D')."""
        return self._modules["self"]._modules[name](x).reshape(*x.shape[:2], self.heads, -1)

    def own(self, x: Tensor, memory: Memory, layer: int) -> Tensor:
        """x (R, T, D) → (R, T, D)."""
        q, k, v = (self.heads_of(name, x) for name in ("query", "key", "value"))
        return self.output(memory.own(layer, q, k, v), x)

    def source(self, x: Tensor, memory: Memory, layer: int) -> Tensor:
        """x (R, T, D) → (R, T, D)."""
        return self.output(memory.source(layer, self.heads_of("query", x), self.project), x)

    def project(self, encoded: Tensor) -> tuple[Tensor, Tensor]:
        """The keys and values (B, S, H, D') of a source (B, S, D)."""
        return self.heads_of("key", encoded), self.heads_of("value", encoded)


class TextLayer(Module):
    """Attention to the text, to the source and a feed-forward part, each followed by a residual and a norm."""

    def __init__(self, config: Any, source_width: int) -> None:
        super().__init__()
        width = config.hidden_size
        self.attention = TextAttention(config, width)
        self.crossattention = TextAttention(config, source_width)
        self.intermediate = Intermediate(width, config.intermediate_size, config.hidden_act)
        self.output = NormedResidual(config.intermediate_size, width, config.layer_norm_eps)

    def forward(self, x: Tensor, memory: Memory, layer: int) -> Tensor:
        """x (R, T, D) → (R, T, D)."""
        x = self.attention.own(x, memory, layer)
        x = self.crossattention.source(x, memory, layer)
        return self.output(self.intermediate(x), x)


class PlacedEmbeddings(BertEmbeddings):
    """BERT's sum for tokens of the first type; the first position is `first`."""

    def __init__(self, config: Any, first: int = 0) -> None:
        super().__init__(config, skips_padding=first > 0)
        self.first = first

    def forward(self, tokens: Tensor, positions: Tensor) -> Tensor:  # type: ignore[override]
        """tokens (R, T) at positions (T,) → (R, T, D)."""
        return self.LayerNorm(self.summed(tokens, None, positions + self.first if self.first else positions))


class TextDecoder(Module):
    """The layers over `embeddings`, tokens (R, T) and positions (T,) → (R, T, D). `name` is what files call both. A
    subclass adds the scores of words. source_width: that of the source's hidden states; None: the decoder's.
    """

    def __init__(self, name: str, config: Any, embeddings: Module, source_width: int | None = None) -> None:
        super().__init__()
        self.config, self.name = config, name
        self.most = config.max_position_embeddings - getattr(embeddings, "first", 0)
        inner = Module()
        inner.embeddings = embeddings
        inner.encoder = Module()
        inner.encoder.layer = ModuleList(
            TextLayer(config, source_width or config.hidden_size) for _ in range(config.num_hidden_layers)
        )
        self.add_module(name, inner)

    def hidden(self, tokens: Tensor, memory: Memory) -> Tensor:
        """tokens (R, T) at the positions that the memory says → (R, T, D)."""
        inner: Any = self._modules[self.name]
        x: Tensor = inner.embeddings(tokens, memory.positions(tokens))
        for i, layer in enumerate(inner.encoder.layer):
            x = layer(x, memory, i)
        return x
