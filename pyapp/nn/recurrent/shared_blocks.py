"""Decoders of mixers with states, before some of which comes a block that several layers share (Glorioso et al. 2024,
arXiv 2405.16712: Zamba). It reads the words beside the present state, and its result goes into the mixer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from ...engine import Tensor
from ..layers.linear import Linear
from ..module import Module
from .hybrid import HybridLanguageModel, HybridStack, Shapes


class MixerLayer(Module):
    """A mixer with a norm before it and a residual around it."""

    def __init__(self, mixer: Module, norm: Module) -> None:
        super().__init__()
        self.mamba = mixer
        self.input_layernorm = norm

    def forward(self, x: Tensor, words: Tensor, text: Any, added: Tensor | None = None) -> Tensor:
        """x (..., T, hidden_size), what is added to it before the norm → (..., T, hidden_size)."""
        y: Tensor = self.mamba(self.input_layernorm(x if added is None else x + added), text, x)
        return y


class SharedLayer(Module):
    """Use number `use` of a shared block, before a mixer. The cache has the keys and values in `layer`, the states in
    the next one. `name` is that of the block in files.
    """

    def __init__(self, name: str, shared: Module, hidden_size: int, mixer: MixerLayer, layer: int, use: int) -> None:
        super().__init__()
        self.name, self.layer, self.use = name, layer, use
        self.add_module(name, shared)
        self.linear = Linear(hidden_size, hidden_size, bias=False)
        self.mamba_decoder = mixer

    def forward(self, x: Tensor, words: Tensor, text: Any) -> Tensor:
        """x and words (..., T, hidden_size) → (..., T, hidden_size)."""
        added = self.linear(self._modules[self.name](x, words, text, self.layer, self.use))
        y: Tensor = self.mamba_decoder(x, words, text, added)
        return y


class WordsStack(HybridStack):
    """The decoder, whose layers read the words, too."""

    def forward(self, tokens: Tensor, text: Any, x: Tensor | None = None, added: Sequence[Tensor] = ()) -> Tensor:
        words = x = self.embedded(tokens, text) if x is None else x  # (..., T, hidden_size)
        for layer in self.layers:
            x = layer(x, words, text)
        return x


class SharedBlocksLanguageModel(HybridLanguageModel):
    """The language model: `shapes` are those of its layers' states, None for each use of a shared block."""

    def __init__(self, config: Any, layers: Iterable[Module], norm: Module, shapes: Shapes) -> None:
        super().__init__(config, WordsStack(config.vocab_size, config.hidden_size, layers, norm))
        self.state_shapes = shapes
