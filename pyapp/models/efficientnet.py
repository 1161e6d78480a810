"""EfficientNet (Tan & Le 2019, arXiv 1905.11946): MobileNet's layers with weights for channels, scaled in width and
depth together.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import ceil

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import BatchNorm2d, Conv2d, Module, ModuleList
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.vision.vision import ImageHead, ImageModel, check_pictures, divisible, mean_of_places

from .loading.config import check_depth, require
from .loading.pictures_config import WIDEST, PictureConfig, check_numbers

MODEL_TYPES = ("efficientnet",)
IMAGE_PROCESSOR = "EfficientNet"  # of files that name none
BASE = "efficientnet"  # the network's name in files with a head
STEM, LAST = 32, 1280  # channels of the first and of the last filter


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    width_coefficient: float = 2.0
    depth_coefficient: float = 3.1
    depth_divisor: int = 8
    kernel_sizes: tuple[int, ...] = (3, 3, 5, 3, 5, 5, 3)
    in_channels: tuple[int, ...] = (32, 16, 24, 40, 80, 112, 192)
    out_channels: tuple[int, ...] = (16, 24, 40, 80, 112, 192, 320)
    depthwise_padding: tuple[int, ...] = ()
    strides: tuple[int, ...] = (1, 2, 2, 2, 1, 2, 1)
    num_block_repeats: tuple[int, ...] = (1, 2, 2, 3, 3, 4, 1)
    expand_ratios: tuple[int, ...] = (1, 6, 6, 6, 6, 6, 6)
    squeeze_expansion_ratio: float = 0.25
    hidden_act: str = "swish"
    hidden_dim: int = 2560
    pooling_type: str = "mean"
    batch_norm_eps: float = 0.001

    def __post_init__(self) -> None:
        super().__post_init__()
        stages = len(self.in_channels)
        for name, most in (
            ("in_channels", WIDEST), ("out_channels", WIDEST), ("kernel_sizes", 64), ("strides", 2),
            ("num_block_repeats", 64), ("expand_ratios", 64),
        ):  # fmt: skip
            check_numbers(name, getattr(self, name), most, count=stages)
        require(1 <= stages <= 16, f"in_channels has {stages} numbers, expected 1 to 16")
        for name in ("width_coefficient", "depth_coefficient", "squeeze_expansion_ratio"):
            value = getattr(self, name)
            require(0 < value <= 16, f"{name} is {value}, expected a number above 0, at most 16")
        check_numbers("depthwise_padding", self.depthwise_padding, 1 << 16, 0, len(self.depthwise_padding))
        require(self.depth_divisor <= 1 << 10, f"depth_divisor is {self.depth_divisor:,}, expected at most 1,024")
        check_depth(sum(map(self.depth, range(stages))))
        require(self.pooling_type in ("mean", "max"), f"pooling_type is {self.pooling_type!r:.60}")
        width = self.channels(LAST)
        require(self.hidden_dim == width, f"hidden_dim is {self.hidden_dim}, the width_coefficient makes {width}")

    def channels(self, usual: int) -> int:
        """The channels of a layer that has `usual` ones where width_coefficient is 1."""
        return divisible(usual * self.width_coefficient, self.depth_divisor, self.depth_divisor)

    def depth(self, stage: int) -> int:
        """The blocks of a stage."""
        return ceil(self.depth_coefficient * self.num_block_repeats[stage])

    def norm(self, width: int) -> BatchNorm2d:
        """The norm of batches."""
        return BatchNorm2d(width, self.batch_norm_eps)


class Embeddings(Module):
    """The first filter, which halves the picture's sides."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.channels(STEM)
        self.convolution = Conv2d(config.num_channels, width, 3, 2, bias=False)
        self.batchnorm = config.norm(width)
        self.activation = activation_named(config.hidden_act)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → (B, C, H / 2, W / 2)."""
        return self.activation(self.batchnorm(self.convolution(ops.pad(pixel_values, (0, 1, 0, 1)))))


class Expansion(Module):
    """A wider input."""

    def __init__(self, config: Config, before: int, width: int) -> None:
        super().__init__()
        self.expand_conv = Conv2d(before, width, 1, bias=False)
        self.expand_bn = config.norm(width)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H, W)."""
        return self.activation(self.expand_bn(self.expand_conv(x)))


class Depthwise(Module):
    """A filter for each channel. With a stride the picture is padded by half a filter, at the start by one less unless
    the block is named in depthwise_padding.
    """

    def __init__(self, config: Config, width: int, kernel: int, stride: int, square: bool) -> None:
        super().__init__()
        half = kernel // 2
        before = half if square else half - 1
        self.padding = (before, half, before, half) if stride == 2 else None
        padding: int | str = 0 if stride == 2 else "same"
        self.depthwise_conv = Conv2d(width, width, kernel, stride, padding, groups=width, bias=False)
        self.depthwise_norm = config.norm(width)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H / stride, W / stride)."""
        x = x if self.padding is None else ops.pad(x, self.padding)
        return self.activation(self.depthwise_norm(self.depthwise_conv(x)))


class SqueezeExcite(Module):
    """The channels times weights that the mean of the places gives (Hu et al. 2017, arXiv 1709.01507)."""

    def __init__(self, config: Config, width: int, inner: int) -> None:
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

    def __init__(self, config: Config, before: int, width: int) -> None:
        super().__init__()
        self.project_conv = Conv2d(before, width, 1, bias=False)
        self.project_bn = config.norm(width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H, W)."""
        return self.project_bn(self.project_conv(x))


class Block(Module):
    """Wider, a filter for each channel, weights of channels, narrower; all but the first of a stage add their input."""

    def __init__(self, config: Config, stage: int, number: int, first: bool) -> None:
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
    """The blocks, and a last filter."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        places = [(stage, i == 0) for stage in range(len(config.in_channels)) for i in range(config.depth(stage))]
        self.blocks = ModuleList(Block(config, stage, number, first) for number, (stage, first) in enumerate(places))
        self.top_conv = Conv2d(config.channels(config.out_channels[-1]), config.hidden_dim, 1, bias=False)
        self.top_bn = config.norm(config.hidden_dim)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, hidden_dim, H', W')."""
        for block in self.blocks:
            x = block(x)
        return self.activation(self.top_bn(self.top_conv(x)))


class EfficientNet(ImageModel):
    """The network, for pictures of any size."""

    def __init__(self, config: Config) -> None:
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


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture."""
    network = EfficientNet(config)
    return ImageHead(BASE, network, config.hidden_dim, len(config.labels), network.pooled)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": EfficientNet,
    "image-classification": image_classification,
}
