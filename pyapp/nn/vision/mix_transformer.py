"""The encoder of SegFormer, the Mix Transformer (Xie et al. 2021, arXiv 2105.15203), which GLPN has too.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor
from ..layers.containers import ModuleList
from ..layers.convolution import Conv2d
from ..layers.linear import ResidualLinear
from ..layers.normalization import LayerNorm
from ..module import Module
from .pyramid import CoarserAttention, NeighbourFeedForward, OverlappingPatches
from .vision import as_map, as_sequence

EPSILON = 1e-5  # of its norms


class ReducedAttention(CoarserAttention):
    """Attention of each place to the places of a coarser picture, if the ratio is above 1."""

    def __init__(self, width: int, heads: int, ratio: int) -> None:
        super().__init__(width, heads)
        self.sr = Conv2d(width, width, ratio, ratio) if ratio > 1 else None
        self.layer_norm = LayerNorm(width) if ratio > 1 else None

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        """x (B, H * W, D) → (B, H * W, D)."""
        source = x
        if self.sr is not None and self.layer_norm is not None:
            source = self.layer_norm(as_sequence(self.sr(as_map(x, *size))))  # (B, S, D)
        return self.attend_to(source, x)


class MixLayer(Module):
    """Attention and a feed-forward part, which looks at neighbouring places too."""

    def __init__(self, config: Any, stage: int) -> None:
        super().__init__()
        width = config.hidden_sizes[stage]
        self.layer_norm_1 = LayerNorm(width)
        self.attention = Module()
        self.attention.add_module(
            "self", ReducedAttention(width, config.num_attention_heads[stage], config.sr_ratios[stage])
        )
        self.attention.output = Module()
        self.attention.output.dense = ResidualLinear(width, width)
        self.layer_norm_2 = LayerNorm(width)
        self.mlp = NeighbourFeedForward(width, width * config.mlp_ratios[stage], config.hidden_act)

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        """x (B, H * W, D) → (B, H * W, D)."""
        y = self.attention._modules["self"](self.layer_norm_1(x), size)
        x = self.attention.output.dense(y, x)
        return self.mlp(self.layer_norm_2(x), x, size)


class MixTransformer(Module):
    """The stages: patches, layers, a norm. `config` has the fields of PyramidConfig."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        widths, stages = (config.num_channels, *config.hidden_sizes), range(len(config.depths))
        self.patch_embeddings = ModuleList(
            OverlappingPatches(widths[i], widths[i + 1], config.patch_sizes[i], config.strides[i], EPSILON)
            for i in stages
        )
        self.block = ModuleList(ModuleList(MixLayer(config, i) for _ in range(config.depths[i])) for i in stages)
        self.layer_norm = ModuleList(LayerNorm(width) for width in config.hidden_sizes)

    def forward(self, x: Tensor) -> list[Tensor]:
        """x (B, C, H, W) → the map (B, D, H', W') of each stage."""
        found = []
        for patches, layers, norm in zip(self.patch_embeddings, self.block, self.layer_norm, strict=True):
            y, size = patches(x)
            stage: Any = layers
            for layer in stage:
                y = layer(y, size)
            x = as_map(norm(y), *size)
            found.append(x)
        return found
