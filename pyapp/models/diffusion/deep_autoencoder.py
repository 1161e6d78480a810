"""Sana's autoencoder (DC-AE, Chen et al. 2024, arXiv 2410.10733): few latents of many channels, between levels of
residual filters and linear attention, around each of which pixels are rearranged as channels.

Parameters and fields have the names of diffusers' AutoencoderDC.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Linear, Module, ModuleList
from pyapp.nn.layers.convolution import BlockConv2d
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import new_parameter

from ..loading.config import check_fields, read_config, require
from .autoencoder import check_latents, check_pixels
from .schedules import Noise
from .unet import WIDEST

EPSILON = 1e-5  # of all norms
NEARLY_NOTHING = 1e-15  # what a sum of scores has more, at least
RESIDUAL, ATTENTION = "ResBlock", "EfficientViTBlock"
FACTOR = 2  # of the sides of two levels
# What both ends of the autoencoder say of their levels: the words before the names of fields.
ENDS = ("encoder", "decoder")


@dataclass(frozen=True, kw_only=True)
class DeepAutoencoderConfig:
    """The hyper-parameters. Words that diffusers gives once for all levels are tuples here."""

    latent_channels: int = 32
    attention_head_dim: int = 32
    encoder_block_types: tuple[str, ...]
    decoder_block_types: tuple[str, ...]
    encoder_block_out_channels: tuple[int, ...] = (128, 256, 512, 512, 1024, 1024)
    decoder_block_out_channels: tuple[int, ...] = (128, 256, 512, 512, 1024, 1024)
    encoder_layers_per_block: tuple[int, ...] = (2, 2, 2, 3, 3, 3)
    decoder_layers_per_block: tuple[int, ...] = (3, 3, 3, 3, 3, 3)
    encoder_qkv_multiscales: tuple[tuple[int, ...], ...] = ((), (), (), (5,), (5,), (5,))
    decoder_qkv_multiscales: tuple[tuple[int, ...], ...] = ((), (), (), (5,), (5,), (5,))
    decoder_act_fns: tuple[str, ...]
    upsample_block_type: str = "pixel_shuffle"
    downsample_block_type: str = "pixel_unshuffle"
    encoder_out_shortcut: bool = True
    decoder_in_shortcut: bool = True
    decoder_conv_act_fn: str = "relu"
    scaling_factor: float = 1.0

    def __post_init__(self) -> None:
        check_fields(self)
        levels = len(self.encoder_block_out_channels)
        require(2 <= levels <= 8, f"encoder_block_out_channels has {levels} levels")
        require(self.latent_channels <= 1 << 10, f"latent_channels is {self.latent_channels:,}")
        for end in ENDS:
            widths, counts, kinds, scales = (self.of(end, name) for name in FIELDS)
            for name, found in zip(FIELDS, (widths, counts, kinds, scales), strict=True):
                require(len(found) == levels, f"{end}_{name} has {len(found)} levels, expected {levels}")
            for i, width in enumerate(widths):
                fits = type(width) is int and 1 <= width <= WIDEST
                require(fits, f"{end}_block_out_channels has {width!r:.20} channels")
                require(type(counts[i]) is int and 0 <= counts[i] <= 64, f"{end}_layers_per_block is {counts!r:.60}")
                require(counts[i] > 0 or i == 0, f"{end}_layers_per_block is {counts!r:.60}: only the first may be 0")
                require(kinds[i] in (RESIDUAL, ATTENTION), f"the block {kinds[i]!r:.60} is not known")
                sizes = scales[i] if isinstance(scales[i], tuple) else (0,)
                fits = all(type(n) is int and 1 <= n <= 15 and n % 2 == 1 for n in sizes)
                require(fits, f"{end}_qkv_multiscales is {scales!r:.60}")
                fits = kinds[i] != ATTENTION or width % self.attention_head_dim == 0
                require(fits, f"{width} channels are not heads of {self.attention_head_dim}")
            for small, large in zip(widths, widths[1:], strict=False):
                require(large <= 4 * small and 4 * small % large == 0, f"{small} and {large} channels of neighbours")
                require(large % 4 == 0, f"{large} channels of a level, expected a multiple of 4")
            fits = widths[-1] % self.latent_channels == 0
            require(fits, f"latent_channels {self.latent_channels} do not divide {widths[-1]} channels")
        for name, known in (
            ("upsample_block_type", ("pixel_shuffle", "interpolate")),
            ("downsample_block_type", ("pixel_unshuffle", "Conv", "conv")),
        ):  # fmt: skip
            require(getattr(self, name) in known, f"{name} {getattr(self, name)!r:.60} is not known")
        require(len(self.decoder_act_fns) == levels, f"decoder_act_fns has {len(self.decoder_act_fns)} levels")
        for name in (*self.decoder_act_fns, self.decoder_conv_act_fn):
            activation_named(name)
        require(0 < self.scaling_factor < 1e6, f"scaling_factor is {self.scaling_factor}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> DeepAutoencoderConfig:
        """From the object of a config.json. ModelError for an autoencoder of another kind."""
        channels = values.get("in_channels", 3)
        require(channels == 3, "only autoencoders of red, green and blue are supported")
        widths = values.get("encoder_block_out_channels", cls.encoder_block_out_channels)
        require(isinstance(widths, list | tuple), f"encoder_block_out_channels is {widths!r:.60}")
        levels = len(widths)
        norms = values.get("decoder_norm_types", "rms_norm")
        plain = norms == "rms_norm" or (isinstance(norms, list | tuple) and all(n == "rms_norm" for n in norms))
        require(plain, f"decoder_norm_types {norms!r:.60} are not supported, only rms_norm")
        read: dict[str, Any] = {}
        usual = {"decoder_act_fns": "silu", **{f"{end}_block_types": RESIDUAL for end in ENDS}}
        for name, word in usual.items():
            given = values.get(name, word)
            read[name] = (given,) * levels if isinstance(given, str) else given
        for end in ENDS:
            for name in (f"{end}_block_out_channels", f"{end}_layers_per_block", f"{end}_qkv_multiscales"):
                read[name] = values.get(name, getattr(cls, name))
        for name, given in read.items():
            require(isinstance(given, list | tuple), f"{name} is {given!r:.60}, expected a list")
            read[name] = tuple(tuple(part) if isinstance(part, list) else part for part in given)
        return read_config(cls, {**values, **read})

    def of(self, end: str, name: str) -> Any:
        """A field of the encoder or the decoder."""
        return getattr(self, f"{end}_{name}")

    @property
    def scale(self) -> int:
        """The pixels of a side for each latent."""
        return FACTOR ** (len(self.encoder_block_out_channels) - 1)


FIELDS = ("block_out_channels", "layers_per_block", "block_types", "qkv_multiscales")


class ChannelNorm(Module):
    """The root mean square of each place's channels becomes 1, then each channel gets a factor and an offset."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight, self.bias = new_parameter(ops.ones, width), new_parameter(ops.zeros, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        y = x * (x.square().mean(1, keepdim=True) + EPSILON).rsqrt()
        return y * self.weight.reshape(-1, 1, 1) + self.bias.reshape(-1, 1, 1)


class GatedFilters(Module):
    """A gated feed-forward part with filters of each channel inside; normed: with a norm after it, and a residual."""

    def __init__(self, width: int, inner: int, normed: bool = False) -> None:
        super().__init__()
        self.conv_inverted = BlockConv2d(width, 2 * inner, 1)
        self.conv_depth = BlockConv2d(2 * inner, 2 * inner, 3, 1, 1, groups=2 * inner)
        self.conv_point = BlockConv2d(inner, width, 1, bias=False)
        self.norm = ChannelNorm(width) if normed else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        values, gate = ops.chunk(self.conv_depth(ops.silu(self.conv_inverted(x))), 2, 1)
        y = self.conv_point(values * ops.silu(gate))
        return y if self.norm is None else x + self.norm(y)


class ResidualBlock(Module):
    """Two filters with an activation between them and a norm after them, and the input."""

    def __init__(self, width: int, activation: str) -> None:
        super().__init__()
        self.activation = activation_named(activation)
        self.conv1 = BlockConv2d(width, width, 3, padding=1)
        self.conv2 = BlockConv2d(width, width, 3, padding=1, bias=False)
        self.norm = ChannelNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        return x + self.norm(self.conv2(self.activation(self.conv1(x))))


class Surroundings(Module):
    """Queries, keys and values of each place that also see those around it."""

    def __init__(self, width: int, heads: int, size: int) -> None:
        super().__init__()
        self.proj_in = BlockConv2d(3 * width, 3 * width, size, 1, size // 2, groups=3 * width, bias=False)
        self.proj_out = BlockConv2d(3 * width, 3 * width, 1, groups=3 * heads, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, 3 * C, H, W) → (B, 3 * C, H, W)."""
        return self.proj_out(self.proj_in(x))


class ScaledAttention(Module):
    """Linear attention of all places to each other, also by what surrounds them, and the input."""

    def __init__(self, width: int, size: int, scales: Sequence[int]) -> None:
        super().__init__()
        self.size = size
        self.to_q, self.to_k, self.to_v = (Linear(width, width, bias=False) for _ in range(3))
        self.to_qkv_multiscale = ModuleList(Surroundings(width, width // size, scale) for scale in scales)
        self.to_out = Linear(width * (1 + len(scales)), width, bias=False)
        self.norm_out = ChannelNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        batch, _, height, width = x.shape
        places = x.permute(0, 2, 3, 1)  # (B, H, W, C)
        joined = ops.cat([layer(places) for layer in (self.to_q, self.to_k, self.to_v)], 3).permute(0, 3, 1, 2)
        joined = ops.cat([joined, *(block(joined) for block in self.to_qkv_multiscale)], 1)
        parts = joined.reshape(batch, -1, 3, self.size, height * width).to("float32")
        q, k, v = (part.squeeze(2).transpose(2, 3) for part in ops.chunk(parts, 3, 2))  # (B, heads, T, size)
        q, k = ops.relu(q), ops.relu(k)
        sums = q @ k.sum(2, keepdim=True).transpose(2, 3)  # (B, heads, T, 1)
        y = q @ (k.transpose(2, 3) @ v) / (sums + NEARLY_NOTHING)
        y = y.transpose(1, 2).reshape(batch, height, width, -1).to(x.dtype)
        return x + self.norm_out(self.to_out(y).permute(0, 3, 1, 2))


class AttentionBlock(Module):
    """Linear attention, then gated filters."""

    def __init__(self, width: int, size: int, scales: Sequence[int]) -> None:
        super().__init__()
        self.attn = ScaledAttention(width, size, scales)
        self.conv_out = GatedFilters(width, 4 * width, normed=True)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        return self.conv_out(self.attn(x))


class Smaller(Module):
    """Halves the sides of a map. shuffled: a filter makes fewer channels, and pixels become channels; else the filter
    does it. shortcut: the means of the input's pixels, as channels, are added.
    """

    def __init__(self, before: int, width: int, shuffled: bool, shortcut: bool) -> None:
        super().__init__()
        self.shuffled, self.group = shuffled, before * FACTOR**2 // width if shortcut else 0
        self.conv = BlockConv2d(before, width // FACTOR**2 if shuffled else width, 3, 1 if shuffled else FACTOR, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H / 2, W / 2)."""
        y = self.conv(x)
        y = ops.pixel_unshuffle(y, FACTOR) if self.shuffled else y
        return y + means(ops.pixel_unshuffle(x, FACTOR), self.group) if self.group else y


class Larger(Module):
    """Doubles the sides of a map: the other way round."""

    def __init__(self, before: int, width: int, shuffled: bool, shortcut: bool) -> None:
        super().__init__()
        self.shuffled, self.repeats = shuffled, width * FACTOR**2 // before if shortcut else 0
        self.conv = BlockConv2d(before, width * FACTOR**2 if shuffled else width, 3, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, 2 * H, 2 * W)."""
        if self.shuffled:
            y = ops.pixel_shuffle(self.conv(x), FACTOR)
        else:
            y = self.conv(ops.interpolate(x, (FACTOR * x.shape[2], FACTOR * x.shape[3]), mode="nearest"))
        return y + ops.pixel_shuffle(x.repeat_interleave(self.repeats, 1), FACTOR) if self.repeats else y


def means(x: Tensor, group: int) -> Tensor:
    """x (B, C, H, W) → the means (B, C / group, H, W) of neighbouring channels."""
    return x.reshape(x.shape[0], -1, group, *x.shape[2:]).mean(2)


def blocks(config: DeepAutoencoderConfig, end: str, level: int) -> list[Module]:
    """The blocks of a level of the encoder or the decoder."""
    width, count, kind, scales = (config.of(end, name)[level] for name in FIELDS)
    if kind == ATTENTION:
        return [AttentionBlock(width, config.attention_head_dim, scales) for _ in range(count)]
    activation = "silu" if end == "encoder" else config.decoder_act_fns[level]
    return [ResidualBlock(width, activation) for _ in range(count)]


class Encoder(Module):
    """Coarser and coarser levels."""

    def __init__(self, config: DeepAutoencoderConfig) -> None:
        super().__init__()
        widths, counts = config.encoder_block_out_channels, config.encoder_layers_per_block
        shuffled = config.downsample_block_type == "pixel_unshuffle"
        self.conv_in: Module = (
            BlockConv2d(3, widths[0], 3, padding=1) if counts[0] else Smaller(3, widths[1], shuffled, False)
        )
        self.down_blocks = ModuleList()
        for i, width in enumerate(widths):
            level = blocks(config, "encoder", i)
            if i + 1 < len(widths) and counts[i]:
                level.append(Smaller(width, widths[i + 1], shuffled, True))
            self.down_blocks.append(ModuleList(level))
        self.conv_out = BlockConv2d(widths[-1], config.latent_channels, 3, padding=1)
        self.group = widths[-1] // config.latent_channels if config.encoder_out_shortcut else 0

    def forward(self, x: Tensor) -> Tensor:
        """x (B, 3, scale * H, scale * W) → (B, C, H, W)."""
        x = self.conv_in(x)
        for level in self.down_blocks:
            for block in level:
                x = block(x)
        return self.conv_out(x) + means(x, self.group) if self.group else self.conv_out(x)


class Decoder(Module):
    """Finer and finer levels; files name them the other way round."""

    def __init__(self, config: DeepAutoencoderConfig) -> None:
        super().__init__()
        widths, counts = config.decoder_block_out_channels, config.decoder_layers_per_block
        shuffled = config.upsample_block_type == "pixel_shuffle"
        self.activation = activation_named(config.decoder_conv_act_fn)
        self.conv_in = BlockConv2d(config.latent_channels, widths[-1], 3, padding=1)
        self.repeats = widths[-1] // config.latent_channels if config.decoder_in_shortcut else 0
        self.up_blocks = ModuleList()
        for i, width in enumerate(widths):
            level: list[Module] = []
            if i + 1 < len(widths) and counts[i]:
                level.append(Larger(widths[i + 1], width, shuffled, True))
            self.up_blocks.append(ModuleList([*level, *blocks(config, "decoder", i)]))
        last = widths[0] if counts[0] else widths[1]
        self.norm_out = ChannelNorm(last)
        self.conv_out: Module = BlockConv2d(last, 3, 3, padding=1) if counts[0] else Larger(last, 3, shuffled, False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, 3, scale * H, scale * W)."""
        y = self.conv_in(x)
        x = y + x.repeat_interleave(self.repeats, 1) if self.repeats else y
        for i in reversed(range(len(self.up_blocks))):
            for block in self.up_blocks[i]:
                x = block(x)
        return self.conv_out(self.activation(self.norm_out(x)))


class DeepAutoencoder(Module):
    """Pixels to latents, and back."""

    def __init__(self, config: DeepAutoencoderConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder, self.decoder = Encoder(config), Decoder(config)

    def encode(self, pixels: Tensor, noise: Noise) -> Tensor:
        """pixels (B, 3, scale * H, scale * W), from -1 to 1 → latents (B, C, H, W) of the network. Nothing is drawn."""
        check_pixels(pixels, self.config.scale)
        return self.encoder(pixels) * self.config.scaling_factor

    def forward(self, latents: Tensor) -> Tensor:
        """latents (B, C, H, W), as the network has them → pixels (B, 3, scale * H, scale * W), from -1 to 1."""
        check_latents(latents, self.config.latent_channels)
        return self.decoder(latents / self.config.scaling_factor)
