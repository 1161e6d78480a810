"""The network of TinyViT (Wu et al. 2022, arXiv 2207.10666), by which MobileSAM sees too: filters, then stages of
attention within windows with a filter after it.

Parameters have the names of timm's files.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ...engine import Tensor, ops
from ..encoders.encoders import attend
from ..layers.containers import Sequential
from ..layers.linear import Linear
from ..layers.normalization import LayerNorm
from ..module import Module
from .distance_biases import DistanceBiases
from .mobile import FilterNorm, Style
from .windows import in_windows, out_of_windows

RATIO = 4  # of the channels inside of blocks
STYLE = Style()


class FilterBlock(Module):
    """Filters in four times the channels, with a residual around them."""

    def __init__(self, width: int) -> None:
        super().__init__()
        inner = RATIO * width
        self.conv1 = FilterNorm(width, inner, STYLE, activation="gelu")
        self.conv2 = FilterNorm(inner, inner, STYLE, 3, activation="gelu", each=True)
        self.conv3 = FilterNorm(inner, width, STYLE)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        return ops.gelu(x + self.conv3(self.conv2(self.conv1(x))))


class Merging(Module):
    """Filters that divide the sides by `stride`."""

    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = FilterNorm(before, width, STYLE, activation="gelu")
        self.conv2 = FilterNorm(width, width, STYLE, 3, stride, activation="gelu", each=True)
        self.conv3 = FilterNorm(width, width, STYLE)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H / stride, W / stride), rounded up."""
        return self.conv3(self.conv2(self.conv1(x)))


class Attention(DistanceBiases):
    """Attention of the places of a window, of a norm of them."""

    def __init__(self, width: int, heads: int, side: int) -> None:
        super().__init__(heads, side)
        self.heads = heads
        self.norm = LayerNorm(width)
        self.qkv = Linear(width, 3 * width)  # of each head: query, key and value
        self.proj = Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (N, side², D) → (N, side², D)."""
        qkv = self.qkv(self.norm(x)).reshape(*x.shape[:2], self.heads, 3, -1)
        q, k, v = (qkv.select(3, i) for i in range(3))  # (N, T, H, d)
        return self.proj(attend(q, k, v, self.biases()))


class FeedForward(Module):
    """Two linear layers of a norm."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = LayerNorm(width)
        self.fc1, self.fc2 = Linear(width, RATIO * width), Linear(RATIO * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (..., D) → (..., D)."""
        return self.fc2(ops.gelu(self.fc1(self.norm(x))))


class Block(Module):
    """Attention within windows, which at the right and the bottom reach over the map, a filter of each channel, and a
    feed-forward part.
    """

    def __init__(self, width: int, heads: int, side: int) -> None:
        super().__init__()
        self.attn = Attention(width, heads, side)
        self.local_conv = FilterNorm(width, width, STYLE, 3, each=True)
        self.mlp = FeedForward(width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        side, (_, width, high, wide) = self.attn.side, x.shape
        y = x.permute(0, 2, 3, 1)
        below, right = -high % side, -wide % side
        if below or right:
            y = ops.pad(y, [0, 0, 0, right, 0, below])
        y = in_windows(y, side)  # (B, R, C, T, D)
        y = out_of_windows(self.attn(y.reshape(-1, side * side, width)).reshape(*y.shape), side)
        x = self.local_conv(x + y[:, :high, :wide].permute(0, 3, 1, 2))
        return x + self.mlp(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Stage(Module):
    """Blocks of one width; all stages but the first begin with smaller sides, and attend."""

    def __init__(self, config: Any, stage: int) -> None:
        super().__init__()
        width, depth = config.embed_dims[stage], config.depths[stage]
        self.merges = stage > 0
        if not self.merges:
            self.blocks = Sequential(*(FilterBlock(width) for _ in range(depth)))
            return
        heads, side = config.num_heads[stage], config.window_sizes[stage]
        self.downsample = Merging(config.embed_dims[stage - 1], width, config.strides[stage - 1])
        self.blocks = Sequential(*(Block(width, heads, side) for _ in range(depth)))


class TinyVitTrunk(Module):
    """The network without a head. Of the configuration it reads num_channels, embed_dims, depths, num_heads,
    window_sizes and strides.
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        width = config.embed_dims[0]
        self.patch_embed = Module()
        self.patch_embed.conv1 = FilterNorm(config.num_channels, width // 2, STYLE, 3, 2, activation="gelu")
        self.patch_embed.conv2 = FilterNorm(width // 2, width, STYLE, 3, 2)
        self.stages = Sequential(*(Stage(config, stage) for stage in range(len(config.depths))))

    def steps(self, pixel_values: Tensor) -> Generator[tuple[int, int], None, Tensor]:
        """pixel_values (B, C, H, W) → the last map (B, D, H', W'); yields how many blocks are done, and how many there
        are.
        """
        x = self.patch_embed.conv2(self.patch_embed.conv1(pixel_values))
        done, total = 0, sum(len(stage.blocks) for stage in self.stages)
        for stage in self.stages:
            x = stage.downsample(x) if stage.merges else x
            for block in stage.blocks:
                x, done = block(x), done + 1
                yield done, total
        return x
