"""The parts of PP-HGNet V2 (PaddlePaddle 2023; as DETRs use it, Zhao et al. 2023, arXiv 2304.08069): blocks whose last
filters read the outputs of all filters before them.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from ..layers.containers import ModuleList, Sequential
from ..layers.pooling import MaxPool2d
from ..module import Module
from ..parameter import new_parameter
from .residual import Stages
from .vision import ConvolutionNorm


class AffineBlock(Module):
    """x times a number, plus a number."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = new_parameter(ops.ones, 1)
        self.bias = new_parameter(ops.zeros, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (...) → (...)."""
        return self.scale * x + self.bias


class Filter(ConvolutionNorm):
    """A filter, the norm of batches, an activation and, where `affine`, one factor and one addend for all."""

    def __init__(
        self, affine: bool, before: int, width: int, kernel: int, stride: int = 1, activation: str = "relu",
        groups: int = 1,
    ) -> None:  # fmt: skip
        super().__init__(before, width, kernel, stride, activation, groups)
        self.lab = AffineBlock() if affine else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H / stride, W / stride), rounded up."""
        x = super().forward(x)
        return x if self.lab is None else self.lab(x)


class LightFilter(Module):
    """A filter of 1 x 1, and one within each channel."""

    def __init__(self, affine: bool, before: int, width: int, kernel: int) -> None:
        super().__init__()
        self.conv1 = ConvolutionNorm(before, width, 1)
        self.conv2 = Filter(affine, width, width, kernel, groups=width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H, W)."""
        return self.conv2(self.conv1(x))


class Stem(Module):
    """Five filters; two of them stand beside a pool."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        channels, half, width = config.stem_channels[0], config.stem_channels[1], config.stem_channels[2]
        sizes = {
            "stem1": (channels, half, 3), "stem2a": (half, half // 2, 2), "stem2b": (half // 2, half, 2),
            "stem3": (2 * half, half, 3), "stem4": (half, width, 1),
        }  # fmt: skip
        for (name, (before, after, kernel)), stride in zip(sizes.items(), config.stem_strides, strict=True):
            part = Filter(config.use_learnable_affine_block, before, after, kernel, stride, config.hidden_act)
            self.add_module(name, part)
        self.pool = MaxPool2d(2, 1, ceil_mode=True)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → (B, C, H / 4, W / 4)."""
        x = ops.pad(self.stem1(pixel_values), [0, 1, 0, 1])
        filtered = self.stem2b(ops.pad(self.stem2a(x), [0, 1, 0, 1]))
        return self.stem4(self.stem3(ops.cat([self.pool(x), filtered], 1)))


class Block(Module):
    """Filters one after the other, and two filters of 1 x 1 that read them all; plus the input (`residual`)."""

    def __init__(
        self, affine: bool, before: int, middle: int, width: int, count: int, kernel: int, residual: bool, light: bool
    ) -> None:
        super().__init__()
        self.residual = residual
        kind = LightFilter if light else Filter
        self.layers = ModuleList(kind(affine, middle if i else before, middle, kernel) for i in range(count))
        total = before + count * middle
        self.aggregation = Sequential(Filter(affine, total, width // 2, 1), Filter(affine, width // 2, width, 1))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, before, H, W) → (B, width, H, W)."""
        found = [x]
        for layer in self.layers:
            found.append(layer(found[-1]))
        y = self.aggregation(ops.cat(found, 1))
        return y + x if self.residual else y


class Stage(Module):
    """Blocks of one width; a filter within each channel may halve the map's sides before them."""

    def __init__(self, config: Any, number: int) -> None:
        super().__init__()
        before, width = config.stage_in_channels[number], config.stage_out_channels[number]
        stride = config.stage_downsample_strides[number]
        halves = config.stage_downsample[number]
        self.downsample = ConvolutionNorm(before, before, 3, stride, groups=before) if halves else None
        self.blocks = ModuleList(
            Block(
                config.use_learnable_affine_block, width if i else before, config.stage_mid_channels[number], width,
                config.stage_numb_of_layers[number], config.stage_kernel_size[number], i > 0,
                config.stage_light_block[number],
            )
            for i in range(config.stage_num_blocks[number])
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C', H', W')."""
        if self.downsample is not None:
            x = self.downsample(x)
        for block in self.blocks:
            x = block(x)
        return x


def stages_of(config: Any) -> Stages:
    """All stages of the network."""
    return Stages(Stage(config, number) for number in range(len(config.stage_out_channels)))
