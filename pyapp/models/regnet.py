"""RegNet (Radosavovic et al. 2020, arXiv 2003.13678): residual layers whose middle filter sees groups of channels, with
weights of channels by the whole picture in the Y form.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Conv2d, Flatten, Module, ReLU, Sequential, Sigmoid
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.vision.residual import ResidualStages
from pyapp.nn.vision.vision import ConvolutionNorm, ImageHead, ImageModel, check_pictures, mean_of_places

from .loading.config import require
from .loading.pictures_config import WIDEST, PictureConfig, check_numbers, check_stages

MODEL_TYPES = ("regnet",)
IMAGE_PROCESSOR = "ConvNext"  # of files that name none
BASE = "regnet"  # the network's name in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    embedding_size: int = 32
    hidden_sizes: tuple[int, ...] = (128, 192, 512, 1088)
    depths: tuple[int, ...] = (2, 6, 12, 2)
    groups_width: int = 64
    layer_type: str = "y"
    hidden_act: str = "relu"
    downsample_in_first_stage: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_stages(self.hidden_sizes, self.depths)
        require(self.layer_type in ("x", "y"), f"layer_type is {self.layer_type!r:.60}, expected 'x' or 'y'")
        for name in ("embedding_size", "groups_width"):
            check_numbers(name, [getattr(self, name)], WIDEST)
        for width in self.hidden_sizes:
            groups = self.groups(width)
            require(width % groups == 0, f"groups_width {self.groups_width} does not divide the {width} channels")

    def groups(self, width: int) -> int:
        """The groups of a layer's channels."""
        return max(1, width // self.groups_width)


class ChannelWeights(Module):
    """The channels of a picture, weighted by what the whole picture shows (Hu et al. 2017, arXiv 1709.01507)."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.attention = Sequential(Conv2d(width, inner, 1), ReLU(), Conv2d(inner, width, 1), Sigmoid())

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        return x * self.attention(x.mean((2, 3), True))


class Layer(Module):
    """A filter of 3 x 3 pixels between two of 1 x 1, and their sum with the input, or with its projection."""

    def __init__(self, config: Config, before: int, width: int, stride: int, first: bool) -> None:
        super().__init__()
        act = config.hidden_act
        parts: list[Module] = [
            ConvolutionNorm(before, width, 1, 1, act),
            ConvolutionNorm(width, width, 3, stride, act, config.groups(width)),
        ]
        if config.layer_type == "y":
            parts.append(ChannelWeights(width, max(1, round(before / 4))))
        needed = before != width or stride != 1
        self.shortcut = ConvolutionNorm(before, width, 1, stride) if needed else None
        self.layer = Sequential(*parts, ConvolutionNorm(width, width, 1))
        self.activation = activation_named(act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C', H', W')."""
        residual = x if self.shortcut is None else self.shortcut(x)
        return self.activation(self.layer(x) + residual)


class Embeddings(Module):
    """A filter that halves the picture's sides."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.embedder = ConvolutionNorm(config.num_channels, config.embedding_size, 3, 2, config.hidden_act)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → (B, C, H / 2, W / 2)."""
        return self.embedder(pixel_values)


class RegNet(ImageModel):
    """The network, for pictures of any size."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embedder = Embeddings(config)
        self.encoder = ResidualStages(config, Layer)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → features of places (B, C, H', W')."""
        check_pictures("RegNet", pixel_values, self.config.num_channels)
        return self.encoder(self.embedder(pixel_values))


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture, read at the mean of its places."""
    head = ImageHead(BASE, RegNet(config), config.hidden_sizes[-1], len(config.labels), mean_of_places)
    head.classifier = Sequential(Flatten(), head.classifier)  # as files number them
    return head


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": RegNet,
    "image-classification": image_classification,
}
