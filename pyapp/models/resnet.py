"""ResNet (He et al. 2015, arXiv 1512.03385): a convolutional network whose layers add to their input.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pyapp.engine import Tensor
from pyapp.nn import Flatten, MaxPool2d, Module, ModuleList, Sequential
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.vision import ConvolutionNorm, ImageHead, ImageModel, check_pictures, mean_of_places

from .loading.config import require
from .loading.pictures_config import WIDEST, PictureConfig, check_stages

MODEL_TYPES = ("resnet",)
BASE = "resnet"  # the network's name in files with a head
REDUCTION = 4  # of the channels inside a bottleneck


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    embedding_size: int = 64
    hidden_sizes: tuple[int, ...] = (256, 512, 1024, 2048)
    depths: tuple[int, ...] = (3, 4, 6, 3)
    layer_type: str = "bottleneck"
    hidden_act: str = "relu"
    downsample_in_first_stage: bool = False
    downsample_in_bottleneck: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_stages(self.hidden_sizes, self.depths)
        require(self.layer_type in ("basic", "bottleneck"), f"layer_type is {self.layer_type!r:.60}")
        require(self.embedding_size <= WIDEST, f"embedding_size is {self.embedding_size:,}")
        narrow = self.layer_type == "bottleneck" and min(self.hidden_sizes) < REDUCTION
        require(not narrow, f"hidden_sizes {list(self.hidden_sizes)} are too small for bottlenecks")


class Embeddings(Module):
    """A filter of 7 x 7 pixels and a pool; each halves the picture's sides."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.embedder = ConvolutionNorm(config.num_channels, config.embedding_size, 7, 2, config.hidden_act)
        self.pooler = MaxPool2d(3, 2, 1)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → (B, C, H / 4, W / 4)."""
        return self.pooler(self.embedder(pixel_values))


class Layer(Module):
    """Two filters of 3 x 3, or a bottleneck: one between two of 1 x 1; their sum with the input, or with its
    projection.
    """

    def __init__(self, config: Config, before: int, width: int, stride: int) -> None:
        super().__init__()
        parts = [ConvolutionNorm(before, width, 3, stride, "relu"), ConvolutionNorm(width, width, 3)]
        if config.layer_type == "bottleneck":
            inner = width // REDUCTION
            first, second = (stride, 1) if config.downsample_in_bottleneck else (1, stride)
            parts = [
                ConvolutionNorm(before, inner, 1, first, "relu"), ConvolutionNorm(inner, inner, 3, second, "relu"),
                ConvolutionNorm(inner, width, 1),
            ]  # fmt: skip
        same = before == width and stride == 1
        self.shortcut = None if same else ConvolutionNorm(before, width, 1, stride)
        self.layer = Sequential(*parts)
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C', H', W')."""
        residual = x if self.shortcut is None else self.shortcut(x)
        return self.activation(self.layer(x) + residual)


class Stage(Module):
    """Layers of one width, the first of which may halve the picture's sides."""

    def __init__(self, config: Config, before: int, width: int, depth: int, stride: int) -> None:
        super().__init__()
        sizes = [(before, stride), *[(width, 1)] * (depth - 1)]
        self.layers = Sequential(*(Layer(config, channels, width, step) for channels, step in sizes))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C', H', W')."""
        return self.layers(x)


class Encoder(Module):
    """The stages."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        widths = (config.embedding_size, *config.hidden_sizes)
        first = 2 if config.downsample_in_first_stage else 1
        self.stages = ModuleList(
            Stage(config, widths[i], widths[i + 1], depth, 2 if i else first) for i, depth in enumerate(config.depths)
        )

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C', H', W')."""
        for stage in self.stages:
            x = stage(x)
        return x


class ResNet(ImageModel):
    """The network, for pictures of any size."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embedder = Embeddings(config)
        self.encoder = Encoder(config)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → features of places (B, C, H', W')."""
        check_pictures("ResNet", pixel_values, self.config.num_channels)
        return self.encoder(self.embedder(pixel_values))


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture, read at the mean of its places."""
    head = ImageHead(BASE, ResNet(config), config.hidden_sizes[-1], len(config.labels), mean_of_places)
    head.classifier = Sequential(Flatten(), head.classifier)  # as files number them
    return head


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": ResNet,
    "image-classification": image_classification,
}
