"""A small autoencoder that stands for Stable Diffusion's (TAESD, https://github.com/madebyollin/taesd): rougher
pictures in a fraction of the time.

Parameters and fields have the names of diffusers' AutoencoderTiny.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Module, ReLU, Sequential, Upsample
from pyapp.nn.layers.convolution import BlockConv2d

from ..loading.config import check_fields, read_config, require
from .autoencoder import check_latents, check_pixels
from .schedules import Noise
from .unet import WIDEST


@dataclass(frozen=True, kw_only=True)
class TinyAutoencoderConfig:
    """The hyper-parameters."""

    latent_channels: int = 4
    encoder_block_out_channels: tuple[int, ...] = (64, 64, 64, 64)
    decoder_block_out_channels: tuple[int, ...] = (64, 64, 64, 64)
    num_encoder_blocks: tuple[int, ...] = (1, 3, 3, 3)
    num_decoder_blocks: tuple[int, ...] = (3, 3, 3, 1)
    scaling_factor: float = 1.0
    shift_factor: float | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        require(self.latent_channels <= 256, f"latent_channels is {self.latent_channels:,}")
        require(0 < self.scaling_factor < 1e6, f"scaling_factor is {self.scaling_factor}")
        levels = len(self.num_decoder_blocks)
        require(1 <= levels <= 8, f"num_decoder_blocks has {levels} levels")
        for part in ("encoder", "decoder"):
            name, counts = f"{part}_block_out_channels", getattr(self, f"num_{part}_blocks")
            widths = getattr(self, name)
            require(len(widths) == len(counts) == levels, f"{name} has {len(widths)} levels, expected {levels}")
            for most, numbers in ((WIDEST, widths), (64, counts)):
                plausible = all(type(n) is int and 1 <= n <= most for n in numbers)
                require(plausible, f"numbers of the {part}'s levels are {numbers!r:.80}")
            require(len({*widths}) == 1, f"{name} are {widths!r:.80}: levels of different widths are not supported")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TinyAutoencoderConfig:
        """From the object of a config.json. ModelError for an autoencoder of another kind."""
        for name, known in (
            ("act_fn", "relu"), ("upsample_fn", "nearest"), ("upsampling_scaling_factor", 2), ("in_channels", 3),
            ("out_channels", 3),
        ):  # fmt: skip
            given = values.get(name, known)
            require(given == known, f"{name} {given!r:.60} is not supported")
        return read_config(cls, values)

    @property
    def scale(self) -> int:
        """The pixels of a side for each latent."""
        return 1 << (len(self.num_decoder_blocks) - 1)


class Block(Module):
    """Three filters and a residual."""

    def __init__(self, width: int) -> None:
        super().__init__()
        first, second, third = (BlockConv2d(width, width, 3, padding=1) for _ in range(3))
        self.conv = Sequential(first, ReLU(), second, ReLU(), third)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        return ops.relu(self.conv(x) + x)


class TinyAutoencoder(Module):
    """Pixels to latents, and back."""

    def __init__(self, config: TinyAutoencoderConfig) -> None:
        super().__init__()
        self.config = config
        width = config.encoder_block_out_channels[0]
        layers: list[Module] = []
        for i, count in enumerate(config.num_encoder_blocks):
            layers.append(BlockConv2d(width, width, 3, 2, 1, bias=False) if i else BlockConv2d(3, width, 3, padding=1))
            layers += [Block(width) for _ in range(count)]
        self.encoder = Module()
        self.encoder.layers = Sequential(*layers, BlockConv2d(width, config.latent_channels, 3, padding=1))
        width = config.decoder_block_out_channels[0]
        layers = [BlockConv2d(config.latent_channels, width, 3, padding=1), ReLU()]
        for i, count in enumerate(config.num_decoder_blocks):
            layers += [Block(width) for _ in range(count)]
            if i + 1 < len(config.num_decoder_blocks):
                layers += [Upsample(scale_factor=2), BlockConv2d(width, width, 3, padding=1, bias=False)]
        self.decoder = Module()
        self.decoder.layers = Sequential(*layers, BlockConv2d(width, 3, 3, padding=1))

    def encode(self, pixels: Tensor, noise: Noise) -> Tensor:
        """pixels (B, 3, scale * H, scale * W), from -1 to 1 → latents (B, C, H, W) of the U-Net; noise is not asked."""
        check_pixels(pixels, self.config.scale)
        latents = self.encoder.layers((pixels + 1) / 2)
        return (latents - (self.config.shift_factor or 0)) * self.config.scaling_factor

    def forward(self, latents: Tensor) -> Tensor:
        """latents (B, C, H, W), as the U-Net has them → pixels (B, 3, scale * H, scale * W), from -1 to 1."""
        check_latents(latents, self.config.latent_channels)
        x = latents / self.config.scaling_factor + (self.config.shift_factor or 0)
        return self.decoder.layers((x / 3).tanh() * 3) * 2 - 1
