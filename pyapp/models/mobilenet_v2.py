"""MobileNetV2 (Sandler et al. 2018, arXiv 1801.04381): layers that widen, filter each channel, and narrow again.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module, ModuleList
from pyapp.nn.vision.vision import ConvolutionNorm, ImageHead, ImageModel, check_pictures, divisible, mean_of_places

from .loading.config import require
from .loading.pictures_config import PictureConfig

MODEL_TYPES = ("mobilenet_v2",)
IMAGE_PROCESSOR = "MobileNetV2"  # of files that name none
BASE = "mobilenet_v2"  # the network's name in files with a head
STEM, LAST = 32, 1280  # channels of the first and of the last layer
WIDTHS = (16, 24, 24, 32, 32, 32, 64, 64, 64, 64, 96, 96, 96, 160, 160, 160, 320)
STRIDES = (2, 1, 2, 1, 1, 2, 1, 1, 1, 1, 1, 1, 2, 1, 1, 1)  # of the layers after the stem


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    depth_multiplier: float = 1.0
    depth_divisible_by: int = 8
    min_depth: int = 8
    expand_ratio: float = 6.0
    output_stride: int = 32
    first_layer_is_expansion: bool = True
    finegrained_output: bool = True
    hidden_act: str = "relu6"
    tf_padding: bool = True
    layer_norm_eps: float = 0.001

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("depth_multiplier", "expand_ratio"):
            value = getattr(self, name)
            require(0 < value <= 32, f"{name} is {value}, expected a number above 0, at most 32")
        for name in ("depth_divisible_by", "min_depth"):
            require(getattr(self, name) <= 1 << 10, f"{name} is {getattr(self, name):,}, expected at most 1,024")
        require(self.output_stride in (2, 4, 8, 16, 32), f"output_stride is {self.output_stride}")

    def channels(self, usual: int) -> int:
        """The channels of a layer that has `usual` ones where depth_multiplier is 1."""
        return divisible(round(usual * self.depth_multiplier), self.depth_divisible_by, self.min_depth)

    @property
    def last_width(self) -> int:
        """The channels of the features."""
        return LAST if self.finegrained_output and self.depth_multiplier < 1 else self.channels(LAST)

    def layer(
        self, before: int, width: int, kernel: int = 1, stride: int = 1, each: bool = False, dilation: int = 1,
        activation: bool = True,
    ) -> ConvolutionNorm:  # fmt: skip
        """A filter, its norm and the activation; `each`: of every channel on its own."""
        return ConvolutionNorm(
            before, width, kernel, stride, self.hidden_act if activation else None, before if each else 1, dilation,
            self.layer_norm_eps, self.tf_padding,
        )  # fmt: skip


class Stem(Module):
    """The first layers, which halve the picture's sides."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, after = config.channels(STEM), config.channels(WIDTHS[0])
        self.first_conv = config.layer(config.num_channels, width, 3, 2)
        self.expand_1x1 = None if config.first_layer_is_expansion else config.layer(width, width)
        self.conv_3x3 = config.layer(width, width, 3, each=True)
        self.reduce_1x1 = config.layer(width, after, activation=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, 3, H, W) → (B, C, H / 2, W / 2)."""
        x = self.first_conv(x)
        if self.expand_1x1 is not None:
            x = self.expand_1x1(x)
        return self.reduce_1x1(self.conv_3x3(x))


class Layer(Module):
    """An inverted residual: wider, a filter for each channel, narrower; added to its input if the sizes allow it."""

    def __init__(self, config: Config, before: int, width: int, stride: int, dilation: int) -> None:
        super().__init__()
        inner = divisible(round(before * config.expand_ratio), config.depth_divisible_by, config.min_depth)
        self.adds = stride == 1 and before == width
        self.expand_1x1 = config.layer(before, inner)
        self.conv_3x3 = config.layer(inner, inner, 3, stride, True, dilation)
        self.reduce_1x1 = config.layer(inner, width, activation=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C', H', W')."""
        y = self.reduce_1x1(self.conv_3x3(self.expand_1x1(x)))
        return x + y if self.adds else y


class MobileNetV2(ImageModel):
    """The network, for pictures of any size. Once the sides are divided by output_stride, filters have gaps instead of
    strides.
    """

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        widths = [config.channels(width) for width in WIDTHS]
        self.conv_stem = Stem(config)
        layers, divided, gap = [], 2, 1
        for i, stride in enumerate(STRIDES):
            if divided == config.output_stride:
                layers.append(Layer(config, widths[i], widths[i + 1], 1, gap))
                gap *= stride
            else:
                layers.append(Layer(config, widths[i], widths[i + 1], stride, 1))
                divided *= stride
        self.layer = ModuleList(layers)
        self.conv_1x1 = config.layer(widths[-1], config.last_width)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → features of places (B, C, H', W')."""
        check_pictures("MobileNetV2", pixel_values, self.config.num_channels)
        x = self.conv_stem(pixel_values)
        for layer in self.layer:
            x = layer(x)
        return self.conv_1x1(x)


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture, read at the mean of its places."""
    return ImageHead(BASE, MobileNetV2(config), config.last_width, len(config.labels), mean_of_places)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": MobileNetV2,
    "image-classification": image_classification,
}
