"""The parts of ResNet (He et al. 2015, arXiv 1512.03385): convolutional layers that add to their input.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from ...engine import Tensor
from ..layers.containers import ModuleList, Sequential
from ..layers.gated import activation_named
from ..layers.pooling import AvgPool2d, MaxPool2d
from ..module import Module
from .vision import ConvolutionNorm

MakeLayer: TypeAlias = Callable[[Any, int, int, int, bool], Module]  # of a configuration, two widths, a stride, first


class ResidualEmbeddings(Module):
    """A filter of 7 x 7 pixels and a pool; each halves the picture's sides."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.embedder = ConvolutionNorm(config.num_channels, config.embedding_size, 7, 2, config.hidden_act)
        self.pooler = MaxPool2d(3, 2, 1)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → (B, C, H / 4, W / 4)."""
        return self.pooler(self.embedder(pixel_values))


class DeepEmbeddings(Module):
    """Three filters of 3 x 3 pixels, the first of which halves the picture's sides, and a pool, which halves them too
    (He et al. 2018, arXiv 1812.01187).
    """

    def __init__(self, config: Any) -> None:
        super().__init__()
        width, half = config.embedding_size, config.embedding_size // 2
        sizes = [(config.num_channels, half, 2), (half, half, 1), (half, width, 1)]
        self.embedder = Sequential(
            *(ConvolutionNorm(before, after, 3, step, config.hidden_act) for before, after, step in sizes)
        )
        self.pooler = MaxPool2d(3, 2, 1)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → (B, C, H / 4, W / 4)."""
        return self.pooler(self.embedder(pixel_values))


def shortcut_of(config: Any, before: int, width: int, stride: int, first: bool) -> Module | None:
    """What a layer, the `first` of its stage or a later one, does with its input before the sum; None: nothing. With
    `config.pooled_shortcuts` a pool of 2 x 2 comes first where the sides are halved (arXiv 1812.01187).
    """
    needed = before != width or stride != 1
    if not config.pooled_shortcuts:
        return ConvolutionNorm(before, width, 1, stride) if needed else None
    basic = config.layer_type == "basic"
    if before != width if basic else stride == 2:
        return Sequential(AvgPool2d(2, 2, 0, ceil_mode=True), ConvolutionNorm(before, width, 1))
    return ConvolutionNorm(before, width, 1, stride) if needed or (basic and first) else None


class ResidualLayer(Module):
    """Two filters of 3 x 3, or a bottleneck: one between two of 1 x 1; their sum with the input, or with its
    projection.
    """

    def __init__(self, config: Any, before: int, width: int, stride: int, first: bool) -> None:
        super().__init__()
        parts = [ConvolutionNorm(before, width, 3, stride, "relu"), ConvolutionNorm(width, width, 3)]
        if config.layer_type == "bottleneck":
            inner = width // config.reduction
            own, next_one = (stride, 1) if config.downsample_in_bottleneck else (1, stride)
            parts = [
                ConvolutionNorm(before, inner, 1, own, "relu"), ConvolutionNorm(inner, inner, 3, next_one, "relu"),
                ConvolutionNorm(inner, width, 1),
            ]  # fmt: skip
        self.shortcut = shortcut_of(config, before, width, stride, first)
        self.layer = Sequential(*parts)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C', H', W')."""
        residual = x if self.shortcut is None else self.shortcut(x)
        return self.activation(self.layer(x) + residual)


class ResidualStage(Module):
    """Layers of one width, the first of which may halve the picture's sides."""

    def __init__(self, config: Any, before: int, width: int, depth: int, stride: int, layer: MakeLayer) -> None:
        super().__init__()
        sizes = [(before, stride), *[(width, 1)] * (depth - 1)]
        self.layers = Sequential(
            *(layer(config, channels, width, step, i == 0) for i, (channels, step) in enumerate(sizes))
        )

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C', H', W')."""
        return self.layers(x)


class Stages(Module):
    """Parts of a network, one after the other."""

    def __init__(self, stages: Iterable[Module]) -> None:
        super().__init__()
        self.stages = ModuleList(stages)

    def maps(self, x: Tensor) -> list[Tensor]:
        """x (B, C, H, W) → the map (B, C', H', W') of each stage."""
        found = []
        for stage in self.stages:
            x = stage(x)
            found.append(x)
        return found

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C', H', W')."""
        return self.maps(x)[-1]


class ResidualStages(Stages):
    """The stages. `layer` makes a layer as ResidualLayer does."""

    def __init__(self, config: Any, layer: MakeLayer = ResidualLayer) -> None:
        widths = (config.embedding_size, *config.hidden_sizes)
        first = 2 if config.downsample_in_first_stage else 1
        super().__init__(
            ResidualStage(config, widths[i], widths[i + 1], depth, 2 if i else first, layer)
            for i, depth in enumerate(config.depths)
        )
