"""Filters of pictures over coarser and coarser maps, as autoencoders of latents have them (Rombach et al. 2022, arXiv
2112.10752). Parameters have the names of diffusers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...engine import Tensor, ops
from ..encoders.encoders import attend
from ..layers.channel_normalization import GroupNorm
from ..layers.containers import ModuleList
from ..layers.convolution import BlockConv2d
from ..layers.linear import Linear
from ..module import Module

EPSILON = 1e-6  # of all norms


class ResidualBlock(Module):
    """Two filters with norms before them, the time between them (0: without), and the input, projected if its channels
    are others.
    """

    def __init__(self, before: int, width: int, time: int, groups: int, epsilon: float) -> None:
        super().__init__()
        self.norm1 = GroupNorm(groups, before, epsilon)
        self.conv1 = BlockConv2d(before, width, 3, padding=1)
        self.time_emb_proj = Linear(time, width) if time else None
        self.norm2 = GroupNorm(groups, width, epsilon)
        self.conv2 = BlockConv2d(width, width, 3, padding=1)
        self.conv_shortcut = BlockConv2d(before, width, 1) if before != width else None

    def forward(self, x: Tensor, time: Tensor | None = None) -> Tensor:
        """x (B, C, H, W), time (B, T) → (B, width, H, W)."""
        y = self.conv1(ops.silu(self.norm1(x)))
        if self.time_emb_proj is not None and time is not None:
            y = y + self.time_emb_proj(ops.silu(time)).unsqueeze(2).unsqueeze(3)
        y = self.conv2(ops.silu(self.norm2(y)))
        return y + (x if self.conv_shortcut is None else self.conv_shortcut(x))


class PlaceAttention(Module):
    """Attention of all places of a map to each other, by one head, with a norm before it and a residual around it."""

    def __init__(self, width: int, groups: int) -> None:
        super().__init__()
        self.group_norm = GroupNorm(groups, width, EPSILON)
        self.to_q, self.to_k, self.to_v, out = (self.layer(width) for _ in range(4))
        self.to_out = ModuleList([out])

    def layer(self, width: int) -> Module:
        """One of its projections."""
        return Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        y = self.group_norm(x).flatten(2).transpose(1, 2)  # (B, H * W, C)
        q, k, v = (layer(y).unsqueeze(2) for layer in (self.to_q, self.to_k, self.to_v))
        y = self.to_out[0](attend(q, k, v, None))
        return x + y.transpose(1, 2).reshape(x.shape)


class FilteredPlaceAttention(PlaceAttention):
    """The same, whose projections are filters of one pixel (Esser et al. 2021, arXiv 2012.09841)."""

    def layer(self, width: int) -> Module:
        return BlockConv2d(width, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        y = self.group_norm(x)
        q, k, v = (layer(y).flatten(2).transpose(1, 2).unsqueeze(2) for layer in (self.to_q, self.to_k, self.to_v))
        y = attend(q, k, v, None)  # (B, H * W, C)
        return x + self.to_out[0](y.transpose(1, 2).reshape(x.shape))


class Middle(Module):
    """The coarsest level: attention between two residual blocks."""

    def __init__(self, width: int, groups: int, attention: type[PlaceAttention] | None) -> None:
        super().__init__()
        self.resnets = ModuleList(ResidualBlock(width, width, 0, groups, EPSILON) for _ in range(2))
        self.attentions = ModuleList([] if attention is None else [attention(width, groups)])

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        x = self.resnets[0](x)
        for attention in self.attentions:
            x = attention(x)
        return self.resnets[1](x)


class Halved(Module):
    """A filter that halves the sides of a map, with zeros below and on the right."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv = BlockConv2d(width, width, 3, 2)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H / 2, W / 2)."""
        return self.conv(ops.pad(x, (0, 1, 0, 1)))


class Level(Module):
    """Residual blocks, and what leads to the next level ("downsamplers" or "upsamplers"), None at the last one."""

    def __init__(self, inputs: list[int], width: int, groups: int, name: str, resized: Module | None) -> None:
        super().__init__()
        self.resnets = ModuleList(ResidualBlock(before, width, 0, groups, EPSILON) for before in inputs)
        self.resized = name if resized is not None else None
        if resized is not None:
            self.add_module(name, ModuleList([resized]))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H', W')."""
        for block in self.resnets:
            x = block(x)
        return x if self.resized is None else self._modules[self.resized][0](x)


class MapEncoder(Module):
    """Residual blocks over coarser and coarser maps: `count` in each level. widths: those of the first filter and of
    the levels.
    """

    def __init__(
        self, inputs: int, widths: Sequence[int], outputs: int, count: int, groups: int,
        attention: type[PlaceAttention] | None = PlaceAttention,
    ) -> None:  # fmt: skip
        super().__init__()
        self.conv_in = BlockConv2d(inputs, widths[0], 3, padding=1)
        self.down_blocks = ModuleList()
        for i, width in enumerate(widths[1:], 1):
            befores = [widths[i - 1], *[width] * (count - 1)]
            resized = Halved(width) if i + 1 < len(widths) else None
            self.down_blocks.append(Level(befores, width, groups, "downsamplers", resized))
        self.mid_block = Middle(widths[-1], groups, attention)
        self.conv_norm_out = GroupNorm(groups, widths[-1], EPSILON)
        self.conv_out = BlockConv2d(widths[-1], outputs, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, inputs, scale * H, scale * W) → (B, outputs, H, W)."""
        x = self.conv_in(x)
        for level in self.down_blocks:
            x = level(x)
        return self.conv_out(ops.silu(self.conv_norm_out(self.mid_block(x))))
