"""The parts of EfficientNet (Tan & Le 2019, arXiv 1905.11946): MobileNet's layers with weights for channels, scaled in
width and depth together. A configuration has the fields of EfficientNetConfig.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from ..layers.channel_normalization import BatchNorm2d
from ..layers.containers import ModuleList
from ..layers.convolution import Conv2d
from ..layers.gated import activation_named
from ..module import Module
from .vision import ImageModel, check_pictures, mean_of_places

STEM = 32  # channels of the first filter


class Embeddings(Module):
    """The first filter, which halves the picture's sides."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        width = config.channels(STEM)
        self.convolution = Conv2d(config.num_channels, width, 3, 2, bias=False)
        self.batchnorm = BatchNorm2d(width, config.batch_norm_eps)
        self.activation = activation_named(config.hidden_act)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → (B, C, H / 2, W / 2)."""
        return self.activation(self.batchnorm(self.convolution(ops.pad(pixel_values, (0, 1, 0, 1)))))


class Expansion(Module):
    """A wider input."""

    def __init__(self, config: Any, before: int, width: int) -> None:
        super().__init__()
        self.expand_conv = Conv2d(before, width, 1, bias=False)
        self.expand_bn = BatchNorm2d(width, config.batch_norm_eps)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H, W)."""
        return self.activation(self.expand_bn(self.expand_conv(x)))


class Depthwise(Module):
    """A filter for each channel. With a stride the picture is padded by half a filter, at the start by one less unless
    the block is named in depthwise_padding.
    """

    def __init__(self, config: Any, width: int, kernel: int, stride: int, square: bool) -> None:
        super().__init__()
        half = kernel // 2
        before = half if square else half - 1
        self.padding = (before, half, before, half) if stride == 2 else None
        padding: int | str = 0 if stride == 2 else "same"
        self.depthwise_conv = Conv2d(width, width, kernel, stride, padding, groups=width, bias=False)
        self.depthwise_norm = BatchNorm2d(width, config.batch_norm_eps)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H / stride, W / stride)."""
        x = x if self.padding is None else ops.pad(x, self.padding)
        return self.activation(self.depthwise_norm(self.depthwise_conv(x)))


class SqueezeExcite(Module):
    """The channels times weights that the mean of the places gives (Hu et al. 2017, arXiv 1709.01507)."""

    def __init__(self, config: Any, width: int, inner: int) -> None:
        super().__init__()
        self.reduce = Conv2d(width, inner, 1)
        self.expand = Conv2d(inner, width, 1)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        weights = self.expand(self.activation(self.reduce(x.mean((2, 3), keepdim=True))))  # (B, C, 1, 1)
        return x * ops.sigmoid(weights)


class Projection(Module):
    """The narrow output."""

    def __init__(self, config: Any, before: int, width: int) -> None:
        super().__init__()
        self.project_conv = Conv2d(before, width, 1, bias=False)
        self.project_bn = BatchNorm2d(width, config.batch_norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H, W)."""
        return self.project_bn(self.project_conv(x))


class Block(Module):
    """Wider, a filter for each channel, weights of channels, narrower; all but the first of a stage add their input."""

    def __init__(self, config: Any, stage: int, number: int, first: bool) -> None:
        super().__init__()
        width, stride = config.channels(config.out_channels[stage]), config.strides[stage] if first else 1
        before = config.channels(config.in_channels[stage]) if first else width
        inner = before * config.expand_ratios[stage]
        kernel, square = config.kernel_sizes[stage], number in config.depthwise_padding
        self.adds = not first
        self.expansion = Expansion(config, before, inner) if config.expand_ratios[stage] != 1 else None
        self.depthwise_conv = Depthwise(config, inner, kernel, stride, square)
        self.squeeze_excite = SqueezeExcite(config, inner, max(1, int(before * config.squeeze_expansion_ratio)))
        self.projection = Projection(config, inner, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C', H', W')."""
        y = x if self.expansion is None else self.expansion(x)
        y = self.projection(self.squeeze_excite(self.depthwise_conv(y)))
        return x + y if self.adds else y


class Encoder(Module):
    """The blocks, and a last filter if there is one."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        places = [(stage, i == 0) for stage in range(len(config.in_channels)) for i in range(config.depth(stage))]
        self.blocks = ModuleList(Block(config, stage, number, first) for number, (stage, first) in enumerate(places))
        before, width = config.channels(config.out_channels[-1]), config.hidden_dim
        self.top_conv = Conv2d(before, width, 1, bias=False) if config.last_filter else None
        self.top_bn = BatchNorm2d(width, config.batch_norm_eps) if config.last_filter else None
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, hidden_dim, H', W')."""
        for block in self.blocks:
            x = block(x)
        if self.top_conv is None or self.top_bn is None:
            return x
        return self.activation(self.top_bn(self.top_conv(x)))


class EfficientNet(ImageModel):
    """The network, for pictures of any size."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → features of places (B, C, H', W')."""
        check_pictures("EfficientNet", pixel_values, self.config.num_channels, least=2)
        return self.encoder(self.embeddings(pixel_values))

    def pooled(self, x: Tensor) -> Tensor:
        """The features (B, C) of a picture: the mean or the largest of its places (B, C, H, W)."""
        return x.amax((2, 3)) if self.config.pooling_type == "max" else mean_of_places(x)
