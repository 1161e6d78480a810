"""The U-Net of Stable Diffusion: convolutions with the time of the step, and transformers that read the text.

Parameters and fields have the names of diffusers' UNet2DConditionModel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError
from pyapp.nn import GroupNorm, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders.encoders import attend
from pyapp.nn.layers.convolution import BlockConv2d
from pyapp.nn.layers.linear import ResidualLinear
from pyapp.nn.vision.latent_maps import ResidualBlock

from ..loading.config import check_fields, read_config, require
from .network import Network
from .texts import Reader, TextEncoder

EPSILON = 1e-6  # of the norms before the transformers
WIDEST = 1 << 14  # channels
ATTENTION = "CrossAttn"  # in the names of blocks with transformers
KNOWN = {
    "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"), "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
}  # fmt: skip
# What other networks of diffusers' class say, and Stable Diffusion's do not.
PLAIN: Mapping[str, tuple[Any, ...]] = {
    "only_cross_attention": (False,), "dual_cross_attention": (False,), "class_embed_type": (None,),
    "encoder_hid_dim_type": (None,), "time_embedding_type": ("positional",),
    "mid_block_type": ("UNetMidBlock2DCrossAttn",),
    "resnet_time_scale_shift": ("default",), "act_fn": ("silu",), "time_embedding_act_fn": (None,),
    "center_input_sample": (False,), "conv_in_kernel": (3,), "conv_out_kernel": (3,), "downsample_padding": (1,),
    "mid_block_scale_factor": (1,), "attention_type": ("default",), "cross_attention_norm": (None,),
    "addition_embed_type": (None, "text_time"), "flip_sin_to_cos": (True,), "freq_shift": (0,),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class UNetConfig:
    """The hyper-parameters. Numbers that diffusers gives once for all levels are lists here."""

    block_out_channels: tuple[int, ...]
    down_block_types: tuple[str, ...]
    up_block_types: tuple[str, ...]
    layers_per_block: tuple[int, ...]
    heads: tuple[int, ...]  # diffusers calls them attention_head_dim in older files
    transformer_layers_per_block: tuple[int, ...]
    sample_size: int = 64
    in_channels: int = 4
    out_channels: int = 4
    cross_attention_dim: int = 768
    norm_num_groups: int = 32
    norm_eps: float = 1e-5
    use_linear_projection: bool = False
    addition_embed_type: str | None = None
    addition_time_embed_dim: int | None = None
    projection_class_embeddings_input_dim: int | None = None
    time_cond_proj_dim: int | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        levels = len(self.block_out_channels)
        require(1 <= levels <= 8, f"block_out_channels has {levels} levels")
        for name, known in KNOWN.items():
            kinds = getattr(self, name)
            require(len(kinds) == levels, f"{name} has {len(kinds)} levels, block_out_channels {levels}")
            for kind in kinds:
                require(kind in known, f"the block {kind!r:.60} is not known", f"Known: {', '.join(known)}")
        for channels, heads in zip(self.block_out_channels, self.heads, strict=True):
            require(1 <= channels <= WIDEST, f"{channels:,} channels of a level")
            require(channels % self.norm_num_groups == 0, f"norm_num_groups does not divide {channels} channels")
            require(1 <= heads and channels % heads == 0, f"{heads} heads do not divide {channels} channels")
        for name in ("layers_per_block", "transformer_layers_per_block"):
            require(all(1 <= n <= 64 for n in getattr(self, name)), f"{name} is {getattr(self, name)}")
        for name in ("in_channels", "out_channels"):
            require(getattr(self, name) <= 256, f"{name} is {getattr(self, name):,}")
        require(self.cross_attention_dim <= WIDEST, f"cross_attention_dim is {self.cross_attention_dim:,}")
        if self.addition_embed_type is not None:
            for name in ("addition_time_embed_dim", "projection_class_embeddings_input_dim"):
                given = getattr(self, name)
                require(given is not None and 2 <= given <= WIDEST, f"{name} is {given}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> UNetConfig:
        """From the object of a config.json. ModelError for a network of another kind."""
        for name, known in PLAIN.items():
            given = values.get(name, known[0])
            require(given in known, f"{name} {given!r:.60} is not supported")
        channels: Any = values.get("block_out_channels")
        require(isinstance(channels, list | tuple) and len(channels) > 0, f"block_out_channels is {channels!r:.60}")
        levels = len(channels)
        heads = values.get("num_attention_heads")
        heads = values.get("attention_head_dim", 8) if heads is None else heads
        return read_config(
            cls,
            {
                **values, "block_out_channels": tuple(channels),
                "heads": _of_levels("attention_head_dim", heads, levels),
                "layers_per_block": _of_levels("layers_per_block", values.get("layers_per_block", 2), levels),
                "transformer_layers_per_block": _of_levels(
                    "transformer_layers_per_block", values.get("transformer_layers_per_block", 1), levels
                ),
            },
        )  # fmt: skip


def _of_levels(name: str, given: Any, levels: int) -> tuple[int, ...]:
    """A number of each level; one number stands for all."""
    found = (given,) * levels if type(given) is int else tuple(given) if isinstance(given, list | tuple) else ()
    plausible = len(found) == levels and all(type(n) is int for n in found)
    require(plausible, f"{name} is {given!r:.60}, expected a number, or one for each of {levels} levels")
    return found


def waves(times: Tensor, width: int) -> Tensor:
    """times (N,) → cosines, then sines (N, width) of angular speeds from 1 to nearly 1 / 10,000."""
    speeds = ops.tensor(np.exp(-log(10000) * np.arange(width // 2) / (width // 2)).astype("float32"))
    angles = times.to("float32").reshape(-1, 1) * speeds.to(times.device)
    return ops.cat([angles.cos(), angles.sin()], 1)


class TimeEmbedding(Module):
    """Two linear layers with an activation; guidance has a projection of its own (LCM, Luo et al. 2023, arXiv
    2310.04378).
    """

    def __init__(self, inputs: int, width: int, guidance: int | None = None, bias: bool = True) -> None:
        super().__init__()
        self.linear_1 = Linear(inputs, width, bias=bias)
        self.linear_2 = Linear(width, width, bias=bias)
        self.cond_proj = None if guidance is None else Linear(guidance, inputs, bias=False)

    def forward(self, x: Tensor, guidance: Tensor | None = None) -> Tensor:
        """x (B, inputs), guidance (B, G) → (B, width)."""
        if guidance is not None and self.cond_proj is not None:
            x = x + self.cond_proj(guidance)
        return self.linear_2(ops.silu(self.linear_1(x)))


class Resized(Module):
    """A filter that halves the sides of a map (rounded up), or doubles them first."""

    def __init__(self, width: int, half: bool) -> None:
        super().__init__()
        self.halves = half
        self.conv = BlockConv2d(width, width, 3, 2 if half else 1, 1)

    def forward(self, x: Tensor, size: tuple[int, int] | None = None) -> Tensor:
        """x (B, C, H, W) → (B, C, H / 2, W / 2), or (B, C, *size), which is 2 * H and 2 * W by default."""
        if not self.halves:
            x = ops.interpolate(x, size or (2 * x.shape[2], 2 * x.shape[3]), mode="nearest")
        return self.conv(x)


class TextAttention(Module):
    """Attention of places to each other, or to the tokens of a text of width `source`."""

    def __init__(self, width: int, heads: int, source: int | None = None) -> None:
        super().__init__()
        self.heads = heads
        self.to_q = Linear(width, width, bias=False)
        self.to_k = Linear(source or width, width, bias=False)
        self.to_v = Linear(source or width, width, bias=False)
        self.to_out = ModuleList([ResidualLinear(width, width)])
        # Of an adapter (adapter.py): how many of the text's last tokens are a picture's, how they are read, how much.
        self.pictured, self.share = 0, 1.0
        self.to_k_ip: Linear | None = None
        self.to_v_ip: Linear | None = None

    def forward(self, x: Tensor, residual: Tensor, text: Tensor | None = None) -> Tensor:
        """x and residual (B, T, D), text (B, S, D') → residual + attention (B, T, D)."""
        if text is not None and self.to_k_ip is not None and self.to_v_ip is not None:
            return self._with_picture(x, residual, text, self.to_k_ip, self.to_v_ip)
        source = x if text is None else text
        q, k, v = (
            layer(y).reshape(*y.shape[:2], self.heads, -1)
            for layer, y in ((self.to_q, x), (self.to_k, source), (self.to_v, source))
        )
        return self.to_out[0](attend(q, k, v, None), residual)

    def _with_picture(self, x: Tensor, residual: Tensor, text: Tensor, to_k: Linear, to_v: Linear) -> Tensor:
        """As forward; the last tokens of the text are those of a picture."""
        count = text.shape[1] - self.pictured
        words, seen = text.narrow(1, 0, count), text.narrow(1, count, self.pictured)
        q, k, v, own_k, own_v = (
            layer(y).reshape(*y.shape[:2], self.heads, -1)
            for layer, y in ((self.to_q, x), (self.to_k, words), (self.to_v, words), (to_k, seen), (to_v, seen))
        )
        y = attend(q, k, v, None) + attend(q, own_k, own_v, None) * self.share
        return self.to_out[0](y, residual)


class Gated(Module):
    """A linear layer, half of whose outputs scale the other half by their GELU (Shazeer 2020, arXiv 2002.05202)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.proj = Linear(width, 2 * inner)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., width) → (..., inner)."""
        values, gates = ops.chunk(self.proj(x), 2, -1)
        return values * ops.gelu(gates)


class TransformerBlock(Module):
    """Attention to the places, attention to the text and a feed-forward part, each with a norm before it."""

    def __init__(self, width: int, heads: int, text: int) -> None:
        super().__init__()
        self.norm1, self.norm2, self.norm3 = LayerNorm(width), LayerNorm(width), LayerNorm(width)
        self.attn1 = TextAttention(width, heads)
        self.attn2 = TextAttention(width, heads, text)
        self.ff = Module()
        self.ff.net = ModuleList([Gated(width, 4 * width), Module(), ResidualLinear(4 * width, width)])

    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        """x (B, T, D), text (B, S, D') → (B, T, D)."""
        x = self.attn1(self.norm1(x), x)
        x = self.attn2(self.norm2(x), x, text)
        return self.ff.net[2](self.ff.net[0](self.norm3(x)), x)


class Transformer(Module):
    """Blocks over the places of a map, between two projections, and a residual around all."""

    def __init__(self, config: UNetConfig, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.linear = config.use_linear_projection
        self.norm = GroupNorm(config.norm_num_groups, width, EPSILON)
        self.proj_in = Linear(width, width) if self.linear else BlockConv2d(width, width, 1)
        self.transformer_blocks = ModuleList(
            TransformerBlock(width, heads, config.cross_attention_dim) for _ in range(layers)
        )
        self.proj_out = Linear(width, width) if self.linear else BlockConv2d(width, width, 1)

    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        """x (B, C, H, W), text (B, S, D) → (B, C, H, W)."""
        y = self.norm(x)
        y = y if self.linear else self.proj_in(y)
        y = y.flatten(2).transpose(1, 2)  # (B, H * W, C)
        y = self.proj_in(y) if self.linear else y
        for block in self.transformer_blocks:
            y = block(y, text)
        y = self.proj_out(y) if self.linear else y
        y = y.transpose(1, 2).reshape(x.shape)
        return x + (y if self.linear else self.proj_out(y))


class Level(Module):
    """Residual blocks, a transformer after each if the level has them, and the filter that leads to the next level."""

    def __init__(self, config: UNetConfig, level: int, inputs: list[int], reads: bool, half: bool | None) -> None:
        super().__init__()
        width, time = config.block_out_channels[level], 4 * config.block_out_channels[0]
        self.resnets = ModuleList(
            ResidualBlock(before, width, time, config.norm_num_groups, config.norm_eps) for before in inputs
        )
        if reads:
            layers = config.transformer_layers_per_block[level]
            self.attentions = ModuleList(Transformer(config, width, config.heads[level], layers) for _ in inputs)
        if half is not None:
            self.add_module("downsamplers" if half else "upsamplers", ModuleList([Resized(width, half)]))
        self.reads = reads

    def run(self, i: int, x: Tensor, time: Tensor, text: Tensor) -> Tensor:
        """The i-th block: x (B, C, H, W) → (B, C', H, W)."""
        x = self.resnets[i](x, time)
        return self.attentions[i](x, text) if self.reads else x

    def resized(self, x: Tensor, size: tuple[int, int] | None = None) -> Tensor | None:
        """x (B, C, H, W) for the next level, of this size on the way up; None at the last one."""
        for name in ("downsamplers", "upsamplers"):
            if name in self._modules:
                found: Tensor = self._modules[name][0](x, size)
                return found
        return None


class Middle(Module):
    """The coarsest level: a transformer between two residual blocks."""

    def __init__(self, config: UNetConfig) -> None:
        super().__init__()
        width, time = config.block_out_channels[-1], 4 * config.block_out_channels[0]
        self.resnets = ModuleList(
            ResidualBlock(width, width, time, config.norm_num_groups, config.norm_eps) for _ in range(2)
        )
        layers = config.transformer_layers_per_block[-1]
        self.attentions = ModuleList([Transformer(config, width, config.heads[-1], layers)])

    def forward(self, x: Tensor, time: Tensor, text: Tensor) -> Tensor:
        """x (B, C, H, W), time (B, T), text (B, S, D) → (B, C, H, W)."""
        return self.resnets[1](self.attentions[0](self.resnets[0](x, time), text), time)


class WayDown(Module):
    """The half of a U-Net that makes maps coarser, as the U-Net and a ControlNet have it."""

    def __init__(self, config: UNetConfig) -> None:
        super().__init__()
        self.config = config
        widths, time = config.block_out_channels, 4 * config.block_out_channels[0]
        last = len(widths) - 1
        self.conv_in = BlockConv2d(config.in_channels, widths[0], 3, padding=1)
        self.time_embedding = TimeEmbedding(widths[0], time, config.time_cond_proj_dim)
        if config.addition_embed_type is not None:
            self.add_embedding = TimeEmbedding(config.projection_class_embeddings_input_dim or 0, time)
        self.widths = [widths[0]]  # the channels of the maps that the way up reads again
        self.down_blocks = ModuleList()
        for level, kind in enumerate(config.down_block_types):
            count = config.layers_per_block[level]
            inputs = [widths[max(level - 1, 0)], *[widths[level]] * (count - 1)]
            self.down_blocks.append(Level(config, level, inputs, ATTENTION in kind, True if level < last else None))
            self.widths += [widths[level]] * (count + (level < last))
        self.mid_block = Middle(config)

    def embedded(
        self, batch: int, time: Tensor, pooled: Tensor | None, sizes: Tensor | None, guidance: Tensor | None = None
    ) -> Tensor:
        """The vector (B, T) of the time, and what else is not a map; arguments as of the U-Net."""
        found = self.time_embedding(waves(time.expand(batch), self.config.block_out_channels[0]), guidance)
        if self.config.addition_embed_type is None:
            return found
        if pooled is None or sizes is None:
            raise ArgumentError(f"{type(self).__name__}: this network needs the pooled text and the sizes")
        places = waves(sizes.reshape(-1), self.config.addition_time_embed_dim or 0).reshape(batch, -1)
        return found + self.add_embedding(ops.cat([pooled, places], 1))

    def coarser(self, x: Tensor, embedded: Tensor, text: Tensor) -> tuple[Tensor, list[Tensor]]:
        """x (B, C, H, W) after the first filter → the coarsest map, and all maps on the way there, x included."""
        kept = [x]
        for level in self.down_blocks:
            for i in range(len(level.resnets)):
                x = level.run(i, x, embedded, text)
                kept.append(x)
            smaller = level.resized(x)
            if smaller is not None:
                x = smaller
                kept.append(x)
        return self.mid_block(x, embedded, text), kept

    def check(self, latents: Tensor, text: Tensor) -> None:
        """ArgumentError for latents and texts of another form."""
        name, channels = type(self).__name__, self.config.in_channels
        if latents.ndim != 4 or latents.shape[1] != channels or not latents.numel():
            raise ArgumentError(f"{name}: latents are (B, {channels}, H, W), not {describe(latents)}")
        if text.ndim != 3 or text.shape[2] != self.config.cross_attention_dim:
            raise ArgumentError(f"{name}: the text is (B, S, {self.config.cross_attention_dim}), not {describe(text)}")


class UNet(WayDown, Network):
    """What of noisy latents is noise."""

    def __init__(self, config: UNetConfig) -> None:
        super().__init__(config)
        widths, kept = config.block_out_channels, list(self.widths)
        last = len(widths) - 1
        self.up_blocks = ModuleList()
        before = widths[last]
        for level, kind in zip(range(last, -1, -1), config.up_block_types, strict=True):
            inputs = []
            for _ in range(config.layers_per_block[level] + 1):
                inputs.append(before + kept.pop())
                before = widths[level]
            self.up_blocks.append(Level(config, level, inputs, ATTENTION in kind, False if level else None))
        self.conv_norm_out = GroupNorm(config.norm_num_groups, widths[0], config.norm_eps)
        self.conv_out = BlockConv2d(widths[0], config.out_channels, 3, padding=1)

    @property
    def side(self) -> int:
        found: int = self.config.sample_size
        return found

    @property
    def learnt_guidance(self) -> bool:
        return self.config.time_cond_proj_dim is not None

    @property
    def fills(self) -> bool:
        return bool(self.config.in_channels > self.config.out_channels)

    @property
    def is_xl(self) -> bool:
        """Whether it reads two encoders' states, vectors of texts and sizes."""
        return self.config.addition_embed_type is not None

    def usual(self, schedule: Mapping[str, Any], settings: Mapping[str, Any]) -> tuple[int, float]:
        """Few steps, and no guidance, for models that learnt to need no more."""
        kind = schedule.get("_class_name")
        if self.learnt_guidance or kind == "LCMScheduler":
            return 4, 8.5
        if kind == "EulerAncestralDiscreteScheduler" and schedule.get("timestep_spacing") == "trailing":
            return 1, 0.0  # turbo
        return 30, 7.5 if not self.is_xl else 5.0

    def check_fit(self, readers: Sequence[Reader], channels: int) -> None:
        config, wide = self.config, sum(reader.width for reader in readers)
        encoders = [reader.encoder for reader in readers if isinstance(reader.encoder, TextEncoder)]
        require(len(encoders) == len(readers), "a U-Net reads texts with CLIP alone")
        require(
            wide == config.cross_attention_dim,
            f"the texts have {wide} numbers, the U-Net reads {config.cross_attention_dim}",
        )
        require(
            config.out_channels == channels and config.in_channels in (channels, 2 * channels + 1),
            f"the U-Net has {config.in_channels} to {config.out_channels} channels, the autoencoder {channels}",
        )
        if self.is_xl:
            last = encoders[-1]
            pooled = 0 if last.text_projection is None else last.pooled_width
            count = pooled + 6 * (config.addition_time_embed_dim or 0)
            read = config.projection_class_embeddings_input_dim
            require(count == read, f"the vector of a text and the sizes are {count} numbers, the U-Net reads {read}")

    def texts(
        self, readers: Sequence[Reader], prompts: Sequence[str], negative: int = 0
    ) -> tuple[Tensor, Tensor | None]:
        found = [reader.clip(prompts) for reader in readers]
        states = [before if self.is_xl else after for before, after, _ in found]
        return ops.cat(states, 2), found[-1][2] if self.is_xl else None

    def forward(
        self, latents: Tensor, time: Tensor, text: Tensor, pooled: Tensor | None = None, sizes: Tensor | None = None,
        guidance: Tensor | None = None, added: Sequence[Tensor] = (),
    ) -> Tensor:  # fmt: skip
        """latents (B, C, H, W) at the times (B,) or (1,), text (B, S, D) → their noise (B, C', H, W), or what the
        schedule's prediction_type says. XL: the text as a vector `pooled` (B, P) and `sizes` (B, 6). guidance (B, G):
        the waves of its scale, for networks that learnt it. added: what a ControlNet adds to the maps on the way down
        and to the coarsest one.
        """
        self.check(latents, text)
        embedded = self.embedded(latents.shape[0], time, pooled, sizes, guidance)
        x, kept = self.coarser(self.conv_in(latents), embedded, text)
        if added:
            *rest, own = added
            x, kept = x + own, [y + more for y, more in zip(kept, rest, strict=True)]
        for level in self.up_blocks:
            for i in range(len(level.resnets)):
                x = level.run(i, ops.cat([x, kept.pop()], 1), embedded, text)
            larger = level.resized(x, kept[-1].shape[2:] if kept else None)
            x = x if larger is None else larger
        return self.conv_out(ops.silu(self.conv_norm_out(x)))
