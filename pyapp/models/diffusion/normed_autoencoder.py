"""FLUX.2's autoencoder: Stable Diffusion's, whose latents are brought to a mean of 0 and a variance of 1, each of the
four of a square of its own.

Parameters and fields have the names of diffusers' AutoencoderKLFlux2.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Module
from pyapp.nn.parameter import new_parameter

from ..loading.config import read_config, require
from .autoencoder import Autoencoder, AutoencoderConfig, Decoder
from .schedules import Noise

PATCH = 2  # latents of a square's side


@dataclass(frozen=True, kw_only=True)
class NormedAutoencoderConfig(AutoencoderConfig):
    """The hyper-parameters."""

    block_out_channels: tuple[int, ...] = (128, 256, 512, 512)
    decoder_block_out_channels: tuple[int, ...] | None = None
    layers_per_block: int = 2
    latent_channels: int = 32
    scaling_factor: float = 1.0
    batch_norm_eps: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        require(0 < self.batch_norm_eps < 1, f"batch_norm_eps is {self.batch_norm_eps}")
        if self.decoder_block_out_channels is not None:
            same = len(self.decoder_block_out_channels) == len(self.block_out_channels)
            require(same, "decoder_block_out_channels and block_out_channels have different numbers of levels")
            _ = self.of_decoder  # checks the channels

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> NormedAutoencoderConfig:
        """From the object of a config.json. ModelError for an autoencoder of another kind."""
        patch = values.get("patch_size", [PATCH, PATCH])
        require(isinstance(patch, list | tuple) and [*patch] == [PATCH] * 2, f"patch_size {patch!r:.60} is not known")
        AutoencoderConfig.check_kinds(values)
        return read_config(cls, values)

    @property
    def of_decoder(self) -> NormedAutoencoderConfig:
        """The hyper-parameters of the decoder."""
        widths = self.decoder_block_out_channels
        return self if widths is None else replace(self, block_out_channels=widths, decoder_block_out_channels=None)


class NormedAutoencoder(Autoencoder):
    """Pixels to latents, and back."""

    def __init__(self, config: NormedAutoencoderConfig) -> None:
        super().__init__(config)
        self.decoder = Decoder(config.of_decoder)
        count = PATCH**2 * config.latent_channels
        self.bn = Module()
        self.bn.running_mean, self.bn.running_var = (new_parameter(ops.ones, count) for _ in range(2))

    def _statistics(self) -> tuple[Tensor, Tensor]:
        """The means and the deviations (1, 4 * C, 1, 1)."""
        config: Any = self.config
        mean, variance = (x.reshape(1, -1, 1, 1) for x in (self.bn.running_mean, self.bn.running_var))
        return mean, (variance + config.batch_norm_eps).sqrt()

    def encode(self, pixels: Tensor, noise: Noise) -> Tensor:
        """As Autoencoder.encode; the sides of the latents are even."""
        mean, deviation = self._statistics()
        found = ops.pixel_unshuffle(super().encode(pixels, noise), PATCH)
        return ops.pixel_shuffle((found - mean) / deviation, PATCH)

    def forward(self, latents: Tensor) -> Tensor:
        """As Autoencoder.forward; the sides of the latents are even."""
        mean, deviation = self._statistics()
        return super().forward(ops.pixel_shuffle(ops.pixel_unshuffle(latents, PATCH) * deviation + mean, PATCH))
