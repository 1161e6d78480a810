"""Qwen-Image's autoencoder, which is that of Wan's videos (Wan Team 2025, arXiv 2503.20314), for one frame.

Its filters see the frames before, which are nothing for the first one: what is left of each is its last part.
Parameters and fields have the names of diffusers' AutoencoderKLQwenImage.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial
from itertools import pairwise
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops, quant
from pyapp.nn import Module, ModuleList
from pyapp.nn.encoders.encoders import attend
from pyapp.nn.layers.convolution import BlockConv2d
from pyapp.nn.parameter import new_parameter

from ..loading.config import check_fields, read_config, require
from ..loading.stored import Stored
from .autoencoder import LEAST, MOST, check_latents, check_pixels
from .schedules import Noise
from .unet import WIDEST

UNREAD = re.compile(r".*\.time_conv\.(weight|bias)")  # of frames after the first
SMALLEST = 1e-12  # length of a vector


@dataclass(frozen=True, kw_only=True)
class FrameAutoencoderConfig:
    """The hyper-parameters."""

    base_dim: int = 96
    z_dim: int = 16
    dim_mult: tuple[int, ...] = (1, 2, 4, 4)
    num_res_blocks: int = 2
    latents_mean: tuple[float, ...]
    latents_std: tuple[float, ...]

    def __post_init__(self) -> None:
        check_fields(self)
        require(1 <= len(self.dim_mult) <= 8, f"dim_mult is {self.dim_mult}")
        for times in self.dim_mult:
            width = self.base_dim * times if type(times) is int else 0
            fits = 2 <= width <= WIDEST and width % 2 == 0
            require(fits, f"dim_mult is {self.dim_mult!r:.60}, of {self.base_dim:,} channels")
        require(self.num_res_blocks <= 64, f"num_res_blocks is {self.num_res_blocks:,}")
        require(self.z_dim <= 256, f"z_dim is {self.z_dim:,}")
        for name in ("latents_mean", "latents_std"):
            numbers = getattr(self, name)
            fits = len(numbers) == self.z_dim and all(type(n) in (int, float) and abs(n) < 1e6 for n in numbers)
            require(fits, f"{name} is {numbers!r:.60}, expected {self.z_dim} numbers")
        require(min(self.latents_std) > 0, f"latents_std is {self.latents_std!r:.60}, expected numbers above 0")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> FrameAutoencoderConfig:
        """From the object of a config.json. ModelError for an autoencoder of another kind."""
        for name, known in (("attn_scales", []), ("input_channels", 3), ("is_residual", False), ("patch_size", None)):
            given = values.get(name, known)
            require(given == known, f"{name} {given!r:.60} is not supported")
        lists: dict[str, Any] = {name: values.get(name) for name in ("latents_mean", "latents_std")}
        lists["dim_mult"] = values.get("dim_mult", cls.dim_mult)
        for name, found in lists.items():
            require(isinstance(found, list | tuple), f"{name} is {found!r:.60}, expected a list")
        levels = len(lists["dim_mult"])
        halved = values.get("temperal_downsample", [True] * (levels - 1))
        fits = isinstance(halved, list | tuple) and len(halved) == levels - 1
        require(fits, f"temperal_downsample is {halved!r:.60}, of {levels} levels")
        return read_config(cls, {**values, **{name: tuple(found) for name, found in lists.items()}})

    @property
    def latent_channels(self) -> int:
        """The channels of the latents."""
        return self.z_dim

    @property
    def scale(self) -> int:
        """The pixels of a side for each latent."""
        return 1 << (len(self.dim_mult) - 1)


class LengthNorm(Module):
    """Each place's vector gets the length 1, and each channel a factor."""

    def __init__(self, width: int, axes: int = 3) -> None:
        super().__init__()
        self.gamma = new_parameter(ops.ones, width, *[1] * axes)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        long = x.square().sum(1, keepdim=True).sqrt().clamp(SMALLEST)
        return x / long * (self.gamma.reshape(-1, 1, 1) * x.shape[1] ** 0.5)


class ResidualBlock(Module):
    """Two filters with norms before them, and the input, projected if its channels are others."""

    def __init__(self, before: int, width: int) -> None:
        super().__init__()
        self.norm1, self.norm2 = LengthNorm(before), LengthNorm(width)
        self.conv1, self.conv2 = BlockConv2d(before, width, 3, padding=1), BlockConv2d(width, width, 3, padding=1)
        self.conv_shortcut = BlockConv2d(before, width, 1) if before != width else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H, W)."""
        y = self.conv2(ops.silu(self.norm2(self.conv1(ops.silu(self.norm1(x))))))
        return y + (x if self.conv_shortcut is None else self.conv_shortcut(x))


class PlaceAttention(Module):
    """Attention of all places of a map to each other, by one head, with a norm before it and a residual around it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = LengthNorm(width, 2)
        self.to_qkv, self.proj = BlockConv2d(width, 3 * width, 1), BlockConv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        joined = self.to_qkv(self.norm(x)).flatten(2).transpose(1, 2)  # (B, H * W, 3 * C)
        q, k, v = (part.unsqueeze(2) for part in ops.chunk(joined, 3, 2))
        return x + self.proj(attend(q, k, v, None).transpose(1, 2).reshape(x.shape))


class Middle(Module):
    """The coarsest level: attention between two residual blocks."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.resnets = ModuleList(ResidualBlock(width, width) for _ in range(2))
        self.attentions = ModuleList([PlaceAttention(width)])

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        return self.resnets[1](self.attentions[0](self.resnets[0](x)))


class Smaller(Module):
    """A filter that halves the sides of a map, with zeros below and on the right; files number it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.resample = ModuleList([Module(), BlockConv2d(width, width, 3, 2)])

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H / 2, W / 2)."""
        return self.resample[1](ops.pad(x, (0, 1, 0, 1)))


class Larger(Module):
    """Doubles the sides of a map, then a filter halves its channels; files number it."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.resample = ModuleList([Module(), BlockConv2d(width, width // 2, 3, padding=1)])

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C / 2, 2 * H, 2 * W)."""
        return self.resample[1](ops.interpolate(x, (2 * x.shape[2], 2 * x.shape[3]), mode="nearest"))


class Encoder(Module):
    """Residual blocks over coarser and coarser maps, in one list."""

    def __init__(self, config: FrameAutoencoderConfig) -> None:
        super().__init__()
        widths = [config.base_dim * times for times in (1, *config.dim_mult)]
        self.conv_in = BlockConv2d(3, widths[0], 3, padding=1)
        self.down_blocks = ModuleList()
        for i, (before, width) in enumerate(pairwise(widths)):
            for inputs in (before, *[width] * (config.num_res_blocks - 1)):
                self.down_blocks.append(ResidualBlock(inputs, width))
            if i + 1 < len(config.dim_mult):
                self.down_blocks.append(Smaller(width))
        self.mid_block = Middle(widths[-1])
        self.norm_out = LengthNorm(widths[-1])
        self.conv_out = BlockConv2d(widths[-1], 2 * config.z_dim, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, 3, scale * H, scale * W) → (B, 2 * C, H, W)."""
        x = self.conv_in(x)
        for block in self.down_blocks:
            x = block(x)
        return self.conv_out(ops.silu(self.norm_out(self.mid_block(x))))


class Level(Module):
    """Residual blocks, and what leads to the next finer level, if there is one."""

    def __init__(self, before: int, width: int, blocks: int, last: bool) -> None:
        super().__init__()
        self.resnets = ModuleList(ResidualBlock(inputs, width) for inputs in (before, *[width] * blocks))
        self.upsamplers = ModuleList([] if last else [Larger(width)])

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C', H', W')."""
        for block in (*self.resnets, *self.upsamplers):
            x = block(x)
        return x


class Decoder(Module):
    """Residual blocks over finer and finer maps."""

    def __init__(self, config: FrameAutoencoderConfig) -> None:
        super().__init__()
        times = config.dim_mult[::-1]
        widths = [config.base_dim * n for n in (times[0], *times)]
        self.conv_in = BlockConv2d(config.z_dim, widths[0], 3, padding=1)
        self.mid_block = Middle(widths[0])
        self.up_blocks = ModuleList(
            Level(before // 2 if i else before, width, config.num_res_blocks, i + 1 == len(times))
            for i, (before, width) in enumerate(pairwise(widths))
        )
        self.norm_out = LengthNorm(widths[-1])
        self.conv_out = BlockConv2d(widths[-1], 3, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, 3, scale * H, scale * W)."""
        x = self.mid_block(self.conv_in(x))
        for level in self.up_blocks:
            x = level(x)
        return self.conv_out(ops.silu(self.norm_out(x)))


class FrameAutoencoder(Module):
    """Pixels to latents, and back."""

    def __init__(self, config: FrameAutoencoderConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder, self.decoder = Encoder(config), Decoder(config)
        self.quant_conv = BlockConv2d(2 * config.z_dim, 2 * config.z_dim, 1)
        self.post_quant_conv = BlockConv2d(config.z_dim, config.z_dim, 1)

    def _statistics(self, like: Tensor) -> list[Tensor]:
        """The means and the deviations (1, C, 1, 1) of the latents."""
        given = (self.config.latents_mean, self.config.latents_std)
        return [ops.tensor([*map(float, x)], device=like.device).reshape(1, -1, 1, 1) for x in given]

    def encode(self, pixels: Tensor, noise: Noise) -> Tensor:
        """pixels (B, 3, scale * H, scale * W), from -1 to 1 → latents (B, C, H, W) of the network, drawn from what the
        encoder finds likely.
        """
        check_pixels(pixels, self.config.scale)
        mean, variance = ops.chunk(self.quant_conv(self.encoder(pixels)), 2, 1)
        middle, deviation = self._statistics(pixels)
        return (mean + (variance.clamp(LEAST, MOST) / 2).exp() * noise(mean) - middle) / deviation

    def forward(self, latents: Tensor) -> Tensor:
        """latents (B, C, H, W), as the network has them → pixels (B, 3, scale * H, scale * W), from -1 to 1."""
        check_latents(latents, self.config.z_dim)
        middle, deviation = self._statistics(latents)
        return self.decoder(self.post_quant_conv(latents * deviation + middle)).clamp(-1, 1)

    def stored(self) -> dict[str, Stored]:
        """How files store the filters: with those for the frames before."""
        found = {}
        for path, layer in self.named_modules():
            if isinstance(layer, BlockConv2d):
                name = f"{path}.weight"
                if not path.endswith((".resample.1", ".to_qkv", ".proj")):
                    found[name] = Stored((name,), values=partial(_last_frame, shape=tuple(layer.weight.shape)))
        return found


def _last_frame(value: Tensor, shape: tuple[int, ...]) -> Tensor:
    """A filter (O, C, frames, H, W) → (O, C, H, W), its part for the frame itself. ModelError for another form."""
    fits = value.ndim == 5 and (*value.shape[:2], *value.shape[3:]) == shape
    require(fits, f"a filter is {list(value.shape)}, expected frames and {list(shape)}")
    last: Tensor = quant.dequantize(value)[:, :, -1]
    return last.contiguous()
