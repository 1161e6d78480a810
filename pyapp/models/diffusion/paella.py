"""The decoder of Paella's autoencoder (Rampas et al. 2022, arXiv 2211.07292): the pixels of Würstchen's latents.

Parameters and fields have the names of diffusers' PaellaVQModel. What makes latents of pixels is not read.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import GELU, ConvTranspose2d, Linear, Module, PixelShuffle, ReplicationPad2d, Sequential
from pyapp.nn.layers.convolution import BlockConv2d
from pyapp.nn.parameter import new_parameter

from ..loading.config import check_fields, read_config, require
from .autoencoder import check_latents
from .unet import WIDEST
from .wuerstchen import Norm

UNREAD = re.compile(r"(in_block|down_blocks|vquantizer)\..*")


@dataclass(frozen=True, kw_only=True)
class PaellaConfig:
    """The hyper-parameters."""

    out_channels: int = 3
    up_down_scale_factor: int = 2
    levels: int = 2
    bottleneck_blocks: int = 12
    embed_dim: int = 384
    latent_channels: int = 4
    scale_factor: float = 0.3764

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.out_channels == 3, f"out_channels is {self.out_channels}, expected 3")
        require(self.up_down_scale_factor <= 16, f"up_down_scale_factor is {self.up_down_scale_factor:,}")
        require(self.levels <= 8, f"levels is {self.levels:,}")
        require(self.bottleneck_blocks <= 256, f"bottleneck_blocks is {self.bottleneck_blocks:,}")
        require(
            self.embed_dim <= WIDEST and self.embed_dim >> (self.levels - 1) > 0, f"embed_dim is {self.embed_dim:,}"
        )
        require(self.latent_channels <= 256, f"latent_channels is {self.latent_channels:,}")
        require(0 < self.scale_factor < 1e6, f"scale_factor is {self.scale_factor}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> PaellaConfig:
        """From the object of a config.json."""
        return read_config(cls, values)

    @property
    def scale(self) -> int:
        """The pixels of a side for each latent."""
        return self.up_down_scale_factor << (self.levels - 1)


class Mixing(Module):
    """A depthwise filter and two linear layers, each with a norm before it, scaled and added to a residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = Norm(width), Norm(width)
        self.depthwise = Sequential(ReplicationPad2d(1), BlockConv2d(width, width, 3, groups=width))
        self.channelwise = Sequential(Linear(width, 4 * width), GELU(), Linear(4 * width, width))
        self.gammas = new_parameter(ops.zeros, 6)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        scale, shift, gate, scale2, shift2, gate2 = (self.gammas[i] for i in range(6))
        x = x + self.depthwise(self.norm1(x) * (1 + scale) + shift) * gate
        y = (self.norm2(x) * (1 + scale2) + shift2).permute(0, 2, 3, 1)
        return x + self.channelwise(y).permute(0, 3, 1, 2) * gate2


class PaellaDecoder(Module):
    """Latents to pixels."""

    def __init__(self, config: PaellaConfig) -> None:
        super().__init__()
        self.config = config
        widths = [config.embed_dim >> i for i in range(config.levels)]
        layers: list[Module] = [Sequential(BlockConv2d(config.latent_channels, widths[0], 1))]
        for i, width in enumerate(widths):
            layers += [Mixing(width) for _ in range(config.bottleneck_blocks if i == 0 else 1)]
            if i + 1 < len(widths):
                layers.append(ConvTranspose2d(width, widths[i + 1], 4, 2, 1))
        self.up_blocks = Sequential(*layers)
        factor = config.up_down_scale_factor
        self.out_block = Sequential(BlockConv2d(widths[-1], config.out_channels * factor**2, 1), PixelShuffle(factor))

    def forward(self, latents: Tensor) -> Tensor:
        """latents (B, C, H, W), as the decoder draws them → pixels (B, 3, scale * H, scale * W), from -1 to 1."""
        check_latents(latents, self.config.latent_channels)
        return self.out_block(self.up_blocks(latents * self.config.scale_factor)) * 2 - 1
