"""The Vision Transformer of BLIP (Li et al. 2022, arXiv 2201.12086) and BLIP-2, under the names of their files."""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from ..encoders.encoders import attend_joined
from ..layers.containers import ModuleList
from ..layers.feed_forward import FeedForward
from ..layers.linear import Linear, ResidualLinear
from ..layers.normalization import LayerNorm
from ..module import Module
from ..parameter import new_parameter
from .vision import PatchEmbeddings, token, with_tokens


class VisionAttention(Module):
    """Attention of patches to each other; queries, keys and values come from one matrix."""

    def __init__(self, width: int, heads: int, bias: bool) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = Linear(width, 3 * width, bias=bias)
        self.projection = ResidualLinear(width, width)

    def forward(self, x: Tensor, residual: Tensor) -> Tensor:
        """x and residual (B, T, D) → (B, T, D)."""
        return self.projection(attend_joined(self.qkv(x), self.heads, None), residual)


class VisionLayer(Module):
    """Attention and a feed-forward part, each with a norm before it and a residual around it."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, epsilon = config.hidden_size, config.layer_norm_eps
        self.self_attn = VisionAttention(width, config.num_attention_heads, config.qkv_bias)
        self.layer_norm1 = LayerNorm(width, epsilon)
        self.mlp = FeedForward(width, config.intermediate_size, config.hidden_act)
        self.layer_norm2 = LayerNorm(width, epsilon)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = self.self_attn(self.layer_norm1(x), x)
        return self.mlp(self.layer_norm2(x), x)


class VisionEmbeddings(Module):
    """The class token and the patches, with their positions."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width = config.hidden_size
        self.class_embedding = token(width)
        self.patch_embedding = PatchEmbeddings(config.num_channels, width, config.patch_size).projection
        self.position_embedding = new_parameter(ops.zeros, 1, 1 + config.patches, width)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, 1 + patches, D)."""
        x = self.patch_embedding(pixel_values).flatten(2).transpose(1, 2)
        return with_tokens(x, self.class_embedding) + self.position_embedding


class BlipVision(Module):
    """The Vision Transformer."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.embeddings = VisionEmbeddings(config)
        self.encoder = Module()
        self.encoder.layers = ModuleList(VisionLayer(config) for _ in range(config.num_hidden_layers))
        self.post_layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → hidden states (B, 1 + patches, D)."""
        x = self.embeddings(pixel_values)
        for layer in self.encoder.layers:
            x = layer(x)
        return self.post_layernorm(x)
