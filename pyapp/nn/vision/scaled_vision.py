"""The Vision Transformer of DINOv2 (Oquab et al. 2023, arXiv 2304.07193), whose layers are scaled, for pictures of any
size. `config` is a ScaledConfig of models/loading/pictures_config.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...engine import Tensor, ops
from ..encoders.encoders import first_token
from ..layers.containers import ModuleList
from ..layers.feed_forward import FeedForward
from ..layers.gated import gated
from ..layers.linear import Linear
from ..layers.normalization import LayerNorm
from ..module import Module
from ..parameter import new_parameter
from .vision import (
    ImageModel,
    LayerScale,
    PatchAttention,
    PatchEmbeddings,
    check_pictures,
    resized_positions,
    token,
    with_tokens,
)


class ScaledEmbeddings(Module):
    """The class token, the registers, if there are any, and the patches, which have positions for any grid."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width = config.hidden_size
        self.cls_token = token(width)
        self.register_tokens = new_parameter(ops.zeros, 1, config.registers, width) if config.registers else None
        self.patch_embeddings = PatchEmbeddings(config.num_channels, width, config.patch_size)
        self.position_embeddings = new_parameter(ops.zeros, 1, config.patches + 1, width)
        self.config = config

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, 1 + registers + patches, D)."""
        height, width = self.config.patch_size
        grid = pixel_values.shape[2] // height, pixel_values.shape[3] // width
        x = with_tokens(self.patch_embeddings(pixel_values), self.cls_token)
        registers = self.register_tokens
        x = x + resized_positions(self.position_embeddings, 1, 0, self.config.grid, grid, registers is not None)
        if registers is None:
            return x
        return ops.cat([x[:, :1], registers.expand(x.shape[0], *registers.shape[1:]), x[:, 1:]], 1)


class GatedFeedForward(Module):
    """SwiGLU with gate and up in one matrix; its width is two thirds of the other's, a multiple of 8."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        inner = (int(config.inner * 2 / 3) + 7) // 8 * 8
        self.weights_in = Linear(config.hidden_size, 2 * inner)
        self.weights_out = Linear(inner, config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        return self.weights_out(gated(self.weights_in(x), "silu"))


class ScaledLayer(Module):
    """Attention and a feed-forward part, each with a norm before it, scaled and added to a residual."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width = config.hidden_size
        self.norm1 = LayerNorm(width, config.layer_norm_eps)
        self.attention = PatchAttention(width, config.num_attention_heads, config.qkv_bias)
        self.layer_scale1 = LayerScale(width)
        self.norm2 = LayerNorm(width, config.layer_norm_eps)
        self.mlp = (
            GatedFeedForward(config) if config.use_swiglu_ffn else FeedForward(width, config.inner, config.hidden_act)
        )
        self.layer_scale2 = LayerScale(width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = x + self.layer_scale1(self.attention(self.norm1(x), None))
        return x + self.layer_scale2(self.mlp(self.norm2(x)))


class ScaledLayers(Module):
    """The layers."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.layer = ModuleList(ScaledLayer(config) for _ in range(config.num_hidden_layers))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        for layer in self.layer:
            x = layer(x)
        return x


class ScaledEncoder(ImageModel):
    """The encoder. Pictures have any size from one patch on; what is beyond whole patches is left out."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.embeddings = ScaledEmbeddings(config)
        self.encoder = ScaledLayers(config)
        self.layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def embedded(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → the first layer's input (B, 1 + registers + patches, D)."""
        check_pictures("DINOv2", pixel_values, self.config.num_channels, least=max(self.config.patch_size))
        x: Tensor = self.embeddings(pixel_values)
        return x

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → hidden states (B, 1 + registers + patches, D)."""
        return self.layernorm(self.encoder(self.embedded(pixel_values)))

    def states(self, pixel_values: Tensor) -> list[Tensor]:
        """pixel_values (B, C, H, W) → the first layer's input and each layer's output (B, 1 + registers + patches, D),
        without the norm.
        """
        found = [self.embedded(pixel_values)]
        for layer in self.encoder.layer:
            found.append(layer(found[-1]))
        return found


def class_and_mean(registers: int = 0) -> Callable[[Tensor], Tensor]:
    """A function from hidden states (B, 1 + registers + patches, D) to the class token beside the mean of the patches
    (B, 2 D).
    """

    def read(x: Tensor) -> Tensor:
        return ops.cat([first_token(x), x[:, 1 + registers :].mean(1)], 1)

    return read
