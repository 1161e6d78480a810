"""Würstchen (Pernias et al. 2023, arXiv 2306.00637): a small network, the prior, draws a picture of a few numbers from
a text; a second one, the decoder, draws the latents of an autoencoder from these numbers.

Parameters and fields have the names of diffusers' WuerstchenPrior and WuerstchenDiffNeXt, but those of the norm of
responses, which are `weight` and `bias` here (`plain_name`).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import log
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.engine.user_errors import describe
from pyapp.errors import ArgumentError
from pyapp.nn import (
    GELU,
    ConvTranspose2d,
    Identity,
    LayerNorm,
    LeakyReLU,
    Linear,
    Module,
    ModuleList,
    PixelShuffle,
    PixelUnshuffle,
    Sequential,
    SiLU,
)
from pyapp.nn.encoders.encoders import attend
from pyapp.nn.layers.convolution import BlockConv2d
from pyapp.nn.vision.convnext import ResponseNorm
from pyapp.nn.vision.vision import as_sequence

from ..loading.config import check_fields, read_config, require
from .network import Network
from .unet import WIDEST

EPSILON = 1e-6  # of all norms
POSITIONS = 10000  # times of a whole schedule
LEAST = 1e-3  # the decoder's deviations are from it to 1 less it
DEEPEST = 256  # blocks
KINDS = "CTA"  # a filter, the time, attention


def plain_name(name: str) -> str:
    """The name here of a tensor of a file."""
    return name.replace("channelwise.2.gamma", "channelwise.2.weight").replace(
        "channelwise.2.beta", "channelwise.2.bias"
    )


@dataclass(frozen=True, kw_only=True)
class WuerstchenPriorConfig:
    """The hyper-parameters of the prior."""

    c_in: int = 16
    c: int = 1280
    c_cond: int = 1024
    c_r: int = 64
    depth: int = 16
    nhead: int = 16

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("c_in", "c", "c_cond", "c_r"):
            require(getattr(self, name) <= WIDEST, f"{name} is {getattr(self, name):,}")
        require(self.c_r >= 4, f"c_r is {self.c_r}, expected 4 or more")
        require(self.depth <= DEEPEST, f"depth is {self.depth:,}")
        require(self.c % self.nhead == 0, f"{self.nhead} heads do not divide {self.c} channels")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> WuerstchenPriorConfig:
        """From the object of a config.json."""
        return read_config(cls, values)


@dataclass(frozen=True, kw_only=True)
class WuerstchenConfig:
    """The hyper-parameters of the decoder. level_config: the blocks of each level, by the letters of KINDS."""

    c_in: int = 4
    c_out: int = 4
    c_r: int = 64
    patch_size: int = 2
    c_cond: int = 1024
    c_hidden: tuple[int, ...] = (320, 640, 1280, 1280)
    nhead: tuple[int, ...] = (-1, 10, 20, 20)
    blocks: tuple[int, ...] = (4, 4, 14, 4)
    level_config: tuple[str, ...] = ("CT", "CTA", "CTA", "CTA")
    inject_effnet: tuple[bool, ...] = (False, True, True, True)
    effnet_embd: int = 16
    clip_embd: int = 1024
    kernel_size: int = 3

    def __post_init__(self) -> None:
        check_fields(self)
        for name in ("c_in", "c_out", "c_r", "c_cond", "effnet_embd", "clip_embd"):
            require(getattr(self, name) <= WIDEST, f"{name} is {getattr(self, name):,}")
        require(self.c_r >= 4, f"c_r is {self.c_r}, expected 4 or more")
        require(self.c_in == self.c_out, f"c_in is {self.c_in}, c_out {self.c_out}")
        require(self.patch_size <= 16, f"patch_size is {self.patch_size:,}")
        require(self.kernel_size <= 31 and self.kernel_size % 2 == 1, f"kernel_size is {self.kernel_size}")
        levels = len(self.c_hidden)
        require(1 <= levels <= 8, f"c_hidden has {levels} levels")
        for name in ("nhead", "blocks", "level_config", "inject_effnet"):
            given = getattr(self, name)
            require(len(given) == levels, f"{name} has {len(given)} levels, c_hidden {levels}")
        require(all(type(n) is int and 1 <= n <= WIDEST for n in self.c_hidden), f"c_hidden is {self.c_hidden!r:.60}")
        require(all(type(n) is int and 1 <= n <= 64 for n in self.blocks), f"blocks is {self.blocks!r:.60}")
        for width, heads, kinds, inject in zip(
            self.c_hidden, self.nhead, self.level_config, self.inject_effnet, strict=True
        ):
            known = isinstance(kinds, str) and 1 <= len(kinds) <= 16 and {*kinds} <= {*KINDS}
            require(known, f"the level {kinds!r:.60} is not known", f"Known: the letters of {KINDS}")
            require(kinds[0] == "C", f"the level {kinds!r} begins without a filter")
            require(type(inject) is bool, f"inject_effnet is {self.inject_effnet!r:.60}")
            fits = "A" not in kinds or (type(heads) is int and heads >= 1 and width % heads == 0)
            require(fits, f"{heads!r:.60} heads do not divide {width} channels")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> WuerstchenConfig:
        """From the object of a config.json."""
        lists = ("c_hidden", "nhead", "blocks", "level_config", "inject_effnet")
        return read_config(
            cls,
            {key: tuple(value) if key in lists and isinstance(value, list) else value for key, value in values.items()},
        )

    @property
    def multiple(self) -> int:
        """A side of the latents is a multiple of it."""
        return self.patch_size << (len(self.c_hidden) - 1)


class Norm(LayerNorm):
    """A norm of each place's channels, without parameters."""

    def __init__(self, width: int) -> None:
        super().__init__(width, EPSILON, elementwise_affine=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Filter(Module):
    """A depthwise filter, a norm, and two linear layers with a norm of responses between them, added to a residual.
    skip: channels that the linear layers read besides.
    """

    def __init__(self, width: int, skip: int = 0, kernel: int = 3) -> None:
        super().__init__()
        self.depthwise = BlockConv2d(width, width, kernel, padding=kernel // 2, groups=width)
        self.norm = Norm(width)
        self.channelwise = Sequential(
            Linear(width + skip, 4 * width), GELU(), ResponseNorm(4 * width), Identity(), Linear(4 * width, width)
        )

    def forward(self, x: Tensor, skip: Tensor | None = None) -> Tensor:
        """x (B, C, H, W), skip (B, S, H, W) → (B, C, H, W)."""
        y = self.norm(self.depthwise(x))
        y = y if skip is None else ops.cat([y, skip], 1)
        return x + self.channelwise(y.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Time(Module):
    """The time of the step chooses a scale and a shift of each channel."""

    def __init__(self, width: int, waves: int) -> None:
        super().__init__()
        self.mapper = Linear(waves, 2 * width)

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        """x (B, C, H, W), time (B, R) → (B, C, H, W)."""
        scale, shift = ops.chunk(self.mapper(time)[:, :, None, None], 2, 1)
        return x * (1 + scale) + shift


class Attention(Module):
    """Projections of queries, keys and values, and one after the attention."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.to_q, self.to_k, self.to_v = (Linear(width, width) for _ in range(3))
        self.to_out = ModuleList([Linear(width, width)])

    def forward(self, x: Tensor, read: Tensor) -> Tensor:
        """x (B, T, C), read (B, S, C) → (B, T, C)."""
        q, k, v = (y.reshape(*y.shape[:2], self.heads, -1) for y in (self.to_q(x), self.to_k(read), self.to_v(read)))
        return self.to_out[0](attend(q, k, v, None))


class Attended(Module):
    """Attention of all places to one another and to the text, added to a residual."""

    def __init__(self, width: int, text: int, heads: int) -> None:
        super().__init__()
        self.norm = Norm(width)
        self.attention = Attention(width, heads)
        self.kv_mapper = Sequential(SiLU(), Linear(text, width))

    def forward(self, x: Tensor, text: Tensor) -> Tensor:
        """x (B, C, H, W), text (B, S, D) → (B, C, H, W)."""
        own = as_sequence(self.norm(x))  # (B, H * W, C)
        found = self.attention(own, ops.cat([own, self.kv_mapper(text)], 1))
        return x + found.transpose(1, 2).reshape(*x.shape)


def time_waves(time: Tensor, width: int) -> Tensor:
    """time (B,) from 0 to 1 → sines, then cosines (B, width) of angular speeds from 1 to 1 / 10,000."""
    half = width // 2
    speeds = np.exp(-log(POSITIONS) / (half - 1) * np.arange(half, dtype="float32")).astype("float32")
    angles = time.to("float32").reshape(-1, 1) * POSITIONS * ops.tensor(speeds, device=time.device)
    return ops.pad(ops.cat([angles.sin(), angles.cos()], 1), (0, width % 2))


class WuerstchenPrior(Network):
    """The noise in a picture of a few numbers."""

    def __init__(self, config: WuerstchenPriorConfig) -> None:
        super().__init__()
        self.config = config
        width = config.c
        self.projection = BlockConv2d(config.c_in, width, 1)
        self.cond_mapper = Sequential(Linear(config.c_cond, width), LeakyReLU(0.2), Linear(width, width))
        self.blocks = ModuleList()
        for _ in range(config.depth):
            self.blocks.append(Filter(width))
            self.blocks.append(Time(width, config.c_r))
            self.blocks.append(Attended(width, width, config.nhead))
        self.out = Sequential(Norm(width), BlockConv2d(width, 2 * config.c_in, 1))

    def forward(self, x: Tensor, time: Tensor, text: Tensor) -> Tensor:
        """x (B, C, H, W) at the times (B,) or (1,) from 0 to 1, text (B, S, D) → noise (B, C, H, W)."""
        _check("WuerstchenPrior", x, self.config.c_in, text, self.config.c_cond)
        y, read = self.projection(x), self.cond_mapper(text)
        waves = time_waves(time.expand(x.shape[0]), self.config.c_r)  # (B, R)
        for block in self.blocks:
            y = (
                block(y, read)
                if isinstance(block, Attended)
                else block(y, waves)
                if isinstance(block, Time)
                else block(y)
            )
        shift, scale = ops.chunk(self.out(y), 2, 1)
        return (x - shift) / ((1 - scale).abs() + 1e-5)


class WuerstchenDecoder(Network):
    """The noise in latents, by levels of smaller and smaller sides, and back."""

    def __init__(self, config: WuerstchenConfig) -> None:
        super().__init__()
        self.config, self.multiple = config, config.multiple
        widths, text = config.c_hidden, config.c_cond
        levels, patch = len(widths), config.patch_size
        self.clip_mapper = Linear(config.clip_embd, text)
        inject = [*config.inject_effnet, *reversed(config.inject_effnet)]
        self.effnet_mappers = ModuleList(
            BlockConv2d(config.effnet_embd, text, 1) if read else Identity() for read in inject
        )
        self.seq_norm = LayerNorm(text, EPSILON, elementwise_affine=False)
        self.embedding = Sequential(
            PixelUnshuffle(patch), BlockConv2d(config.c_in * patch**2, widths[0], 1), Norm(widths[0])
        )

        def block(kind: str, i: int, skip: int) -> Module:
            if kind == "C":
                skip += text if config.inject_effnet[i] else 0
                return Filter(widths[i], skip, config.kernel_size)
            return Time(widths[i], config.c_r) if kind == "T" else Attended(widths[i], text, config.nhead[i])

        self.down_blocks, self.up_blocks = ModuleList(), ModuleList()
        for i in range(levels):
            level = ModuleList()
            if i > 0:
                level.append(Sequential(Norm(widths[i - 1]), BlockConv2d(widths[i - 1], widths[i], 2, 2)))
            for _ in range(config.blocks[i]):
                level.extend(block(kind, i, 0) for kind in config.level_config[i])
            self.down_blocks.append(level)
        for i in reversed(range(levels)):
            level = ModuleList()
            for j in range(config.blocks[i]):
                for k, kind in enumerate(config.level_config[i]):
                    level.append(block(kind, i, widths[i] if i < levels - 1 and j == k == 0 else 0))
            if i > 0:
                level.append(Sequential(Norm(widths[i]), ConvTranspose2d(widths[i], widths[i - 1], 2, 2)))
            self.up_blocks.append(level)
        self.clf = Sequential(
            Norm(widths[0]), BlockConv2d(widths[0], 2 * config.c_out * patch**2, 1), PixelShuffle(patch)
        )

    def _level(
        self, i: int, x: Tensor, time: Tensor, small: Tensor, text: Tensor, before: Tensor | None = None
    ) -> Tensor:
        """x (B, C, H, W) after the blocks of a level; those of the way up count on. before: what the first filter reads
        of the way down.
        """
        down = len(self.down_blocks)
        level: Any = self.down_blocks[i] if i < down else self.up_blocks[i - down]
        mapper, read = self.effnet_mappers[i], None
        for j, block in enumerate(level):
            if isinstance(block, Filter):
                if read is None and not isinstance(mapper, Identity):
                    wide = ops.interpolate(small, x.shape[2:], mode="bicubic", antialias=True, align_corners=True)
                    read = mapper(wide)  # (B, D, H, W)
                parts = [part for part in (before if j == 0 else None, read) if part is not None]
                x = block(x, ops.cat(parts, 1) if parts else None)
            elif isinstance(block, Attended):
                x = block(x, text)
            elif isinstance(block, Time):
                x = block(x, time)
            else:
                x = block(x)
        return x

    def forward(self, x: Tensor, time: Tensor, small: Tensor, text: Tensor) -> Tensor:
        """x (B, C, H, W) at the times (B,) or (1,) from 0 to 1, the prior's picture small (B, E, h, w), text (B, S, D)
        → noise (B, C, H, W). ArgumentError for sides that are not multiples of `multiple`.
        """
        config = self.config
        _check("WuerstchenDecoder", x, config.c_in, text, config.clip_embd, config.multiple)
        waves = time_waves(time.expand(x.shape[0]), config.c_r)
        read = self.seq_norm(self.clip_mapper(text))  # (B, S, D)
        y = self.embedding(x)
        levels, states = len(config.c_hidden), []
        for i in range(levels):
            y = self._level(i, y, waves, small, read)
            states.append(y)
        for i in range(levels):
            y = self._level(levels + i, y, waves, small, read, states[-1 - i] if i else None)
        shift, scale = ops.chunk(self.clf(y), 2, 1)
        return (x - shift) / (ops.sigmoid(scale) * (1 - 2 * LEAST) + LEAST)


def _check(name: str, x: Tensor, channels: int, text: Tensor, width: int, multiple: int = 1) -> None:
    """ArgumentError for latents and texts of another form."""
    if x.ndim != 4 or x.shape[1] != channels or any(n < 1 or n % multiple for n in x.shape[2:]):
        raise ArgumentError(
            f"{name}: latents are (B, {channels}, H, W) with sides of multiples of {multiple}, not {describe(x)}"
        )
    if text.ndim != 3 or text.shape[2] != width:
        raise ArgumentError(f"{name}: the text is (B, S, {width}), not {describe(text)}")
