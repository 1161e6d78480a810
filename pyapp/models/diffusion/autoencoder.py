"""The decoder of Stable Diffusion's autoencoder: latents to pixels.

Parameters and fields have the names of diffusers' AutoencoderKL.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError
from pyapp.nn import Conv2d, GroupNorm, Linear, Module, ModuleList
from pyapp.nn.encoders import attend

from ..loading.config import check_fields, read_config, require
from .unet import WIDEST, ResidualBlock, Resized

EPSILON = 1e-6  # of all norms
IGNORED = r"(encoder|quant_conv)\..*"  # pixels to latents
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
    out_channels: int = 3
    norm_num_groups: int = 32
    scaling_factor: float = 0.18215
    shift_factor: float | None = None
    use_post_quant_conv: bool = True
    mid_block_add_attention: bool = True

    def __post_init__(self) -> None:
        check_fields(self)
        require(1 <= len(self.block_out_channels) <= 8, f"block_out_channels is {self.block_out_channels}")
        for channels in self.block_out_channels:
            require(type(channels) is int and 1 <= channels <= WIDEST, f"{channels!r:.20} channels of a level")
            require(channels % self.norm_num_groups == 0, f"norm_num_groups does not divide {channels} channels")
        require(1 <= self.layers_per_block <= 64, f"layers_per_block is {self.layers_per_block:,}")
        require(max(self.latent_channels, self.out_channels) <= 256, "implausibly many channels")
        require(0 < self.scaling_factor < 1e6, f"scaling_factor is {self.scaling_factor}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> AutoencoderConfig:
        """From the object of a config.json. ModelError for an autoencoder of another kind."""
        kinds = values.get("up_block_types", ["UpDecoderBlock2D"])
        plain = isinstance(kinds, list | tuple) and all(kind == "UpDecoderBlock2D" for kind in kinds)
        require(plain, f"up_block_types {kinds!r:.80} are not supported, only UpDecoderBlock2D")
        act = values.get("act_fn", "silu")
        require(act == "silu", f"act_fn {act!r:.60} is not supported")
        return read_config(cls, values)

    @property
    def scale(self) -> int:
        """The pixels of a side for each latent."""
        return 1 << (len(self.block_out_channels) - 1)


class PlaceAttention(Module):
    """Attention of all places of a map to each other, by one head, with a norm before it and a residual around it."""

    def __init__(self, width: int, groups: int) -> None:
        super().__init__()
        self.group_norm = GroupNorm(groups, width, EPSILON)
        self.to_q, self.to_k, self.to_v = (Linear(width, width) for _ in range(3))
        self.to_out = ModuleList([Linear(width, width)])

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        y = self.group_norm(x).flatten(2).transpose(1, 2)  # (B, H * W, C)
        q, k, v = (layer(y).unsqueeze(2) for layer in (self.to_q, self.to_k, self.to_v))
        y = self.to_out[0](attend(q, k, v, None))
        return x + y.transpose(1, 2).reshape(x.shape)


class Decoder(Module):
    """Residual blocks over finer and finer maps."""

    def __init__(self, config: AutoencoderConfig) -> None:
        super().__init__()
        widths, groups = config.block_out_channels[::-1], config.norm_num_groups
        self.conv_in = Conv2d(config.latent_channels, widths[0], 3, padding=1)
        self.mid_block = Module()
        self.mid_block.resnets = ModuleList(ResidualBlock(widths[0], widths[0], 0, groups, EPSILON) for _ in range(2))
        self.mid_block.attentions = ModuleList(
            [PlaceAttention(widths[0], groups)] if config.mid_block_add_attention else []
        )
        self.up_blocks = ModuleList()
        for i, width in enumerate(widths):
            level = Module()
            inputs = [widths[max(i - 1, 0)], *[width] * config.layers_per_block]
            level.resnets = ModuleList(ResidualBlock(before, width, 0, groups, EPSILON) for before in inputs)
            if i + 1 < len(widths):
                level.upsamplers = ModuleList([Resized(width, False)])
            self.up_blocks.append(level)
        self.conv_norm_out = GroupNorm(groups, widths[-1], EPSILON)
        self.conv_out = Conv2d(widths[-1], config.out_channels, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, 3, scale * H, scale * W)."""
        x = self.mid_block.resnets[0](self.conv_in(x))
        for attention in self.mid_block.attentions:
            x = attention(x)
        x = self.mid_block.resnets[1](x)
        for level in self.up_blocks:
            for block in level.resnets:
                x = block(x)
            if "upsamplers" in level._modules:
                x = level.upsamplers[0](x)
        return self.conv_out(ops.silu(self.conv_norm_out(x)))


class Autoencoder(Module):
    """Latents to pixels."""

    def __init__(self, config: AutoencoderConfig) -> None:
        super().__init__()
        self.config = config
        channels = config.latent_channels
        self.post_quant_conv = Conv2d(channels, channels, 1) if config.use_post_quant_conv else None
        self.decoder = Decoder(config)

    def forward(self, latents: Tensor) -> Tensor:
        """latents (B, C, H, W), as the U-Net has them → pixels (B, 3, scale * H, scale * W), from -1 to 1."""
        channels = self.config.latent_channels
        if latents.ndim != 4 or latents.shape[1] != channels:
            raise ArgumentError(f"Autoencoder: latents are (B, {channels}, H, W), not {describe(latents)}")
        x = latents / self.config.scaling_factor + (self.config.shift_factor or 0)
        return self.decoder(x if self.post_quant_conv is None else self.post_quant_conv(x))
