"""BERT's layers with the norms before each part and one after the last layer (Shoeybi et al. 2019, arXiv 1909.08053),
and encoders of them.
"""

from __future__ import annotations

from typing import Any

from pyapp.dataclass import dataclass

from ...engine import Tensor
from ..layers.containers import ModuleList
from ..layers.linear import ResidualLinear
from ..layers.normalization import LayerNorm
from ..module import Module
from .encoders import BertEncoder, Intermediate, SelfAttention, visible_keys


@dataclass(frozen=True)
class NormNames:
    """The names that files give to the norms: before attention, before the feed-forward part, after the layers.
    `inside`: those of the feed-forward part are in its first layer, that after the layers is beside them, and there is
    one before them, of the sum of words, positions and types.
    """

    attention: str
    feed_forward: str
    last: str
    inside: bool = False


class Residual(Module):
    """residual + dense(x)."""

    def __init__(self, inputs: int, width: int) -> None:
        super().__init__()
        self.dense = ResidualLinear(inputs, width)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x (..., inputs), residual (..., width) → (..., width)."""
        return self.dense(x, residual)


class NormedIntermediate(Intermediate):
    """A norm, named `norm`, a linear layer and an activation."""

    def __init__(self, config: Any, norm: str) -> None:
        super().__init__(config.hidden_size, config.intermediate_size, config.hidden_act)
        self.norm = norm
        self.add_module(norm, LayerNorm(config.hidden_size, config.layer_norm_eps))

    def forward(self, x: Tensor) -> Tensor:
        """x (..., width) → (..., inner)."""
        return super().forward(self._modules[self.norm](x))


class Attention(Module):
    """A norm, self-attention, its output projection and the residual."""

    def __init__(self, config: Any, norm: str) -> None:
        super().__init__()
        self.norm = norm
        self.add_module(norm, LayerNorm(config.hidden_size, config.layer_norm_eps))
        self.add_module("self", SelfAttention(config.hidden_size, config.num_attention_heads))
        self.output = Residual(config.hidden_size, config.hidden_size)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return self.output(self._modules["self"](self._modules[self.norm](x), mask), x)


class Layer(Module):
    """Attention and a feed-forward part, each with a norm before it and a residual around it."""

    def __init__(self, config: Any, names: NormNames) -> None:
        super().__init__()
        self.norm = None if names.inside else names.feed_forward
        self.attention = Attention(config, names.attention)
        if self.norm is None:
            self.intermediate: Intermediate = NormedIntermediate(config, names.feed_forward)
        else:
            self.add_module(self.norm, LayerNorm(config.hidden_size, config.layer_norm_eps))
            self.intermediate = Intermediate(config.hidden_size, config.intermediate_size, config.hidden_act)
        self.output = Residual(config.intermediate_size, config.hidden_size)

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.attention(x, mask)
        y = x if self.norm is None else self._modules[self.norm](x)
        return self.output(self.intermediate(y), x)


class Layers(Module):
    """The layers, one after the other, and the last norm if it is not beside them."""

    def __init__(self, config: Any, names: NormNames) -> None:
        super().__init__()
        self.norm = None if names.inside else names.last
        self.layer = ModuleList(Layer(config, names) for _ in range(config.num_hidden_layers))
        if self.norm is not None:
            self.add_module(self.norm, LayerNorm(config.hidden_size, config.layer_norm_eps))

    def forward(self, x: Tensor, mask: Tensor | None) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        for layer in self.layer:
            x = layer(x, mask)
        y: Tensor = x if self.norm is None else self._modules[self.norm](x)
        return y


class NormFirstEncoder(BertEncoder):
    """BERT's encoder of such layers; the sum of words, positions and types has no norm, unless the names say so. The
    other arguments are those of BertEncoder.
    """

    def __init__(self, config: Any, names: NormNames, pooler: bool = True, skips_padding: bool = False) -> None:
        self.names = names
        super().__init__(config, pooler, skips_padding)
        if names.inside:
            self.add_module(names.last, LayerNorm(config.hidden_size, config.layer_norm_eps))
        else:
            del self.embeddings.LayerNorm

    def layers(self, config: Any) -> Module:
        return Layers(config, self.names)

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (B, T) → hidden states (B, T, D)."""
        if not self.names.inside:
            self.check(ids, attention_mask, type_ids)
            return self.encoder(self.embeddings.summed(ids, type_ids), visible_keys(attention_mask))
        y: Tensor = self._modules[self.names.last](super().forward(ids, attention_mask, type_ids))
        return y
