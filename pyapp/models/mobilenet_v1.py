"""MobileNetV1 (Howard et al. 2017, arXiv 1704.04861): filters of each channel on its own, then of each pixel.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module, ModuleList
from pyapp.nn.vision.vision import ConvolutionNorm, ImageHead, ImageModel, check_pictures, mean_of_places

from .loading.config import require
from .loading.pictures_config import PictureConfig

MODEL_TYPES = ("mobilenet_v1",)
IMAGE_PROCESSOR = "MobileNetV1"  # of files that name none
BASE = "mobilenet_v1"  # the network's name in files with a head
WIDTHS = (32, 64, 128, 128, 256, 256, *[512] * 6, 1024, 1024)  # channels of the stem and after each layer
STRIDES = (1, 2, 1, 2, 1, 2, 1, 1, 1, 1, 1, 2, 1)


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    depth_multiplier: float = 1.0
    min_depth: int = 8
    hidden_act: str = "relu6"
    tf_padding: bool = True
    layer_norm_eps: float = 0.001

    def __post_init__(self) -> None:
        super().__post_init__()
        factor, least = self.depth_multiplier, self.min_depth
        require(0 < factor <= 32, f"depth_multiplier is {factor}, expected a number above 0, at most 32")
        require(least <= 1 << 10, f"min_depth is {least:,}, expected at most 1,024")

    def channels(self, usual: int) -> int:
        """The channels of a layer that has `usual` ones where depth_multiplier is 1."""
        return max(int(usual * self.depth_multiplier), self.min_depth)

    def layer(self, before: int, width: int, kernel: int, stride: int = 1, groups: int = 1) -> ConvolutionNorm:
        """A filter, its norm and the activation."""
        return ConvolutionNorm(
            before, width, kernel, stride, self.hidden_act, groups, epsilon=self.layer_norm_eps,
            tensorflow=self.tf_padding,
        )  # fmt: skip


class MobileNetV1(ImageModel):
    """The network, for pictures of any size."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        widths = [config.channels(width) for width in WIDTHS]
        self.conv_stem = config.layer(config.num_channels, widths[0], 3, 2)
        self.layer = ModuleList(
            layer
            for before, width, stride in zip(widths, widths[1:], STRIDES, strict=False)
            for layer in (config.layer(before, before, 3, stride, before), config.layer(before, width, 1))
        )

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → features of places (B, C, H', W')."""
        check_pictures("MobileNetV1", pixel_values, self.config.num_channels)
        x = self.conv_stem(pixel_values)
        for layer in self.layer:
            x = layer(x)
        return x


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture, read at the mean of its places."""
    return ImageHead(BASE, MobileNetV1(config), config.channels(WIDTHS[-1]), len(config.labels), mean_of_places)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": MobileNetV1,
    "image-classification": image_classification,
}
