"""The parts of ConvNeXt (Liu et al. 2022, arXiv 2201.03545): depthwise filters of 7 x 7 pixels, norms over channels,
and linear layers at each pixel. `config` is a ConvNextConfig of models/loading/pictures_config.py.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from typing import Any

from ...engine import Tensor, ops
from ..layers.containers import ModuleList
from ..layers.convolution import Conv2d
from ..layers.gated import activation_named
from ..layers.linear import Linear
from ..layers.normalization import LayerNorm
from ..module import Module
from ..parameter import new_parameter
from .vision import ImageModel, check_pictures, over_channels

EPSILON = 1e-6  # of all norms but the last


class Embeddings(Module):
    """Patches and their norm."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        size = config.patch_size
        self.patch_embeddings = Conv2d(config.num_channels, config.hidden_sizes[0], size, stride=size)
        self.layernorm = LayerNorm(config.hidden_sizes[0], EPSILON)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → (B, C, H / patch, W / patch)."""
        return over_channels(self.patch_embeddings(pixel_values), self.layernorm)


class ResponseNorm(Module):
    """Each channel's length over a picture, divided by the mean of all channels', times the channel, added to it (Woo
    et al. 2023, arXiv 2301.00808).
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = new_parameter(ops.zeros, 1, 1, 1, width)
        self.bias = new_parameter(ops.zeros, 1, 1, 1, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, H, W, C) → (B, H, W, C)."""
        length = x.square().sum((1, 2), True).sqrt()  # (B, 1, 1, C)
        share = length / (length.mean(-1, True) + EPSILON)
        return self.weight * (x * share) + self.bias + x


class Layer(Module):
    """A depthwise filter, a norm, two linear layers with an activation between them, added to a residual: scaled, or
    with a norm of responses after the activation.
    """

    def __init__(self, config: Any, width: int) -> None:
        super().__init__()
        self.dwconv = Conv2d(width, width, 7, padding=3, groups=width)
        self.layernorm = LayerNorm(width, EPSILON)
        self.pwconv1 = Linear(width, 4 * width)
        self.pwconv2 = Linear(4 * width, width)
        self.activation = activation_named(config.hidden_act)
        self.grn = ResponseNorm(4 * width) if config.response_norms else None
        self.layer_scale_parameter = new_parameter(ops.ones, width) if config.scales else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        y = self.layernorm(self.dwconv(x).permute(0, 2, 3, 1))  # (B, H, W, C)
        y = self.activation(self.pwconv1(y))
        y = self.pwconv2(y if self.grn is None else self.grn(y))
        if self.layer_scale_parameter is not None:
            y = y * self.layer_scale_parameter
        return x + y.permute(0, 3, 1, 2)


class Stage(Module):
    """Layers of one width. All stages but the first begin with a norm and halve the picture's sides."""

    def __init__(self, config: Any, before: int, width: int, depth: int, first: bool) -> None:
        super().__init__()
        parts = [] if first else [LayerNorm(before, EPSILON), Conv2d(before, width, 2, stride=2)]
        self.downsampling_layer = ModuleList(parts)
        self.layers = ModuleList(Layer(config, width) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C', H', W')."""
        if len(self.downsampling_layer):
            norm, halve = self.downsampling_layer
            assert isinstance(norm, LayerNorm)
            x = halve(over_channels(x, norm))
        for layer in self.layers:
            x = layer(x)
        return x


class Encoder(Module):
    """The stages."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        widths = config.hidden_sizes
        self.stages = ModuleList(
            Stage(config, widths[max(0, i - 1)], widths[i], config.depths[i], i == 0) for i in range(len(widths))
        )

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C', H', W')."""
        for stage in self.stages:
            x = stage(x)
        return x


class ConvNext(ImageModel):
    """The network, for pictures of any size from its largest step on."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        self.layernorm = LayerNorm(config.hidden_sizes[-1], config.layer_norm_eps)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → features of places (B, C, H', W')."""
        least = self.config.patch_size << (len(self.config.hidden_sizes) - 1)
        check_pictures("ConvNeXt", pixel_values, self.config.num_channels, least=least)
        return self.encoder(self.embeddings(pixel_values))

    def pooled(self, x: Tensor) -> Tensor:
        """The features (B, C) of a picture: the norm of the mean of its places (B, C, H, W)."""
        return self.layernorm(x.mean((2, 3)))
