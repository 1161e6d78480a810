"""The filters of MobileViT's first stages: inverted residuals (Sandler et al. 2018, arXiv 1801.04381)."""

from __future__ import annotations

from typing import Any

from ...engine import Tensor
from ..layers.containers import ModuleList
from ..module import Module
from .vision import ConvolutionNorm, divisible


class InvertedResidual(Module):
    """Wider, a filter of each channel, narrower; added to its input, where the sizes allow it. `config` has
    expand_ratio and hidden_act.
    """

    def __init__(self, config: Any, before: int, width: int, stride: int, dilation: int = 1) -> None:
        super().__init__()
        inner, act = divisible(int(round(before * config.expand_ratio)), 8, 8), config.hidden_act
        self.adds = stride == 1 and before == width
        self.expand_1x1 = ConvolutionNorm(before, inner, 1, activation=act)
        self.conv_3x3 = ConvolutionNorm(inner, inner, 3, stride, act, inner, dilation)
        self.reduce_1x1 = ConvolutionNorm(inner, width, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H / stride, W / stride), rounded up."""
        y = self.reduce_1x1(self.conv_3x3(self.expand_1x1(x)))
        return x + y if self.adds else y


class FilterStage(Module):
    """Inverted residuals, one after the other."""

    def __init__(self, config: Any, before: int, width: int, stride: int, depth: int) -> None:
        super().__init__()
        self.layer = ModuleList(
            InvertedResidual(config, width if i else before, width, 1 if i else stride) for i in range(depth)
        )

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H / stride, W / stride), rounded up."""
        for layer in self.layer:
            x = layer(x)
        return x


def dilated_stages(output_stride: int) -> list[tuple[int, int]]:
    """The stride and the dilation of each of the three last stages, where the network's is 8, 16 or 32: a dilated stage
    does not halve the sides, and its filters reach as far as if the stages before it did.
    """
    found, dilation = [], 1
    for dilated in (False, output_stride == 8, output_stride < 32):
        found.append((1 if dilated else 2, dilation))
        dilation *= 2 if dilated else 1
    return found
