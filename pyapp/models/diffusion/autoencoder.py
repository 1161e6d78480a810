"""Stable Diffusion's autoencoder: pixels to latents, and back.

Parameters and fields have the names of diffusers' AutoencoderKL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError
from pyapp.nn import GroupNorm, Module, ModuleList
from pyapp.nn.layers.convolution import BlockConv2d
from pyapp.nn.vision.latent_maps import EPSILON, Level, MapEncoder, Middle, PlaceAttention

from ..loading.config import check_fields, read_config, require
from .schedules import Noise
from .unet import WIDEST, Resized

LEAST, MOST = -30.0, 20.0  # of the logarithm of a variance
# What older files call the parts of the attention.
OLDER = {".query.": ".to_q.", ".key.": ".to_k.", ".value.": ".to_v.", ".proj_attn.": ".to_out.0."}


def renamed(name: str) -> str:
    """Today's name of a tensor."""
    for old, new in OLDER.items():
        name = name.replace(old, new)
    return name


@dataclass(frozen=True, kw_only=True)
class AutoencoderConfig:
    """The hyper-parameters."""

    block_out_channels: tuple[int, ...] = (64,)
    layers_per_block: int = 1
    latent_channels: int = 4
    in_channels: int = 3
    out_channels: int = 3
    norm_num_groups: int = 32
    scaling_factor: float = 0.18215
    shift_factor: float | None = None
    use_quant_conv: bool = True
    use_post_quant_conv: bool = True
    mid_block_add_attention: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        require(1 <= len(self.block_out_channels) <= 8, f"block_out_channels is {self.block_out_channels}")
        for channels in self.block_out_channels:
            require(type(channels) is int and 1 <= channels <= WIDEST, f"{channels!r:.20} channels of a level")
            require(channels % self.norm_num_groups == 0, f"norm_num_groups does not divide {channels} channels")
        require(1 <= self.layers_per_block <= 64, f"layers_per_block is {self.layers_per_block:,}")
        require(self.latent_channels <= 256, f"latent_channels is {self.latent_channels:,}")
        require(self.in_channels == self.out_channels == 3, "only autoencoders of red, green and blue are supported")
        require(0 < self.scaling_factor < 1e6, f"scaling_factor is {self.scaling_factor}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> AutoencoderConfig:
        """From the object of a config.json. ModelError for an autoencoder of another kind."""
        cls.check_kinds(values)
        return read_config(cls, values)

    @staticmethod
    def check_kinds(values: Mapping[str, Any]) -> None:
        """ModelError for levels and activations of another kind."""
        for name, known in (("down_block_types", "DownEncoderBlock2D"), ("up_block_types", "UpDecoderBlock2D")):
            kinds = values.get(name, [known])
            plain = isinstance(kinds, list | tuple) and all(kind == known for kind in kinds)
            require(plain, f"{name} {kinds!r:.80} are not supported, only {known}")
        act = values.get("act_fn", "silu")
        require(act == "silu", f"act_fn {act!r:.60} is not supported")

    @property
    def attention(self) -> type[PlaceAttention] | None:
        """That of the coarsest level."""
        return PlaceAttention if self.mid_block_add_attention else None

    @property
    def scale(self) -> int:
        """The pixels of a side for each latent."""
        return 1 << (len(self.block_out_channels) - 1)


class Decoder(Module):
    """Residual blocks over finer and finer maps."""

    def __init__(self, config: AutoencoderConfig) -> None:
        super().__init__()
        widths, groups = config.block_out_channels[::-1], config.norm_num_groups
        self.conv_in = BlockConv2d(config.latent_channels, widths[0], 3, padding=1)
        self.mid_block = Middle(widths[0], groups, config.attention)
        self.up_blocks = ModuleList()
        for i, width in enumerate(widths):
            inputs = [widths[max(i - 1, 0)], *[width] * config.layers_per_block]
            resized = Resized(width, False) if i + 1 < len(widths) else None
            self.up_blocks.append(Level(inputs, width, groups, "upsamplers", resized))
        self.conv_norm_out = GroupNorm(groups, widths[-1], EPSILON)
        self.conv_out = BlockConv2d(widths[-1], config.out_channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, 3, scale * H, scale * W)."""
        x = self.mid_block(self.conv_in(x))
        for level in self.up_blocks:
            x = level(x)
        return self.conv_out(ops.silu(self.conv_norm_out(x)))


class Autoencoder(Module):
    """Pixels to latents, and back."""

    def __init__(self, config: AutoencoderConfig) -> None:
        super().__init__()
        self.config = config
        channels = config.latent_channels
        self.encoder = MapEncoder(
            config.in_channels, (config.block_out_channels[0], *config.block_out_channels), 2 * channels,
            config.layers_per_block, config.norm_num_groups, config.attention,
        )  # fmt: skip
        self.quant_conv = BlockConv2d(2 * channels, 2 * channels, 1) if config.use_quant_conv else None
        self.post_quant_conv = BlockConv2d(channels, channels, 1) if config.use_post_quant_conv else None
        self.decoder = Decoder(config)

    def encode(self, pixels: Tensor, noise: Noise) -> Tensor:
        """pixels (B, 3, scale * H, scale * W), from -1 to 1 → latents (B, C, H, W) of the U-Net, drawn from what the
        encoder finds likely.
        """
        check_pixels(pixels, self.config.scale)
        x = self.encoder(pixels)
        mean, variance = ops.chunk(x if self.quant_conv is None else self.quant_conv(x), 2, 1)
        latents = mean + (variance.clamp(LEAST, MOST) / 2).exp() * noise(mean)
        return (latents - (self.config.shift_factor or 0)) * self.config.scaling_factor

    def forward(self, latents: Tensor) -> Tensor:
        """latents (B, C, H, W), as the U-Net has them → pixels (B, 3, scale * H, scale * W), from -1 to 1."""
        check_latents(latents, self.config.latent_channels)
        x = latents / self.config.scaling_factor + (self.config.shift_factor or 0)
        return self.decoder(x if self.post_quant_conv is None else self.post_quant_conv(x))


def check_pixels(pixels: Tensor, scale: int) -> None:
    """ArgumentError unless pixels are (B, 3, H, W) with sides of multiples of `scale`."""
    if pixels.ndim != 4 or pixels.shape[1] != 3 or any(n < scale or n % scale for n in pixels.shape[2:]):
        raise ArgumentError(
            f"Autoencoder: pixels are (B, 3, H, W) with sides of multiples of {scale}, not {describe(pixels)}"
        )


def check_latents(latents: Tensor, channels: int) -> None:
    """ArgumentError unless latents are (B, channels, H, W)."""
    if latents.ndim != 4 or latents.shape[1] != channels:
        raise ArgumentError(f"Autoencoder: latents are (B, {channels}, H, W), not {describe(latents)}")
