"""DenseNet (Huang et al. 2016, arXiv 1608.06993): each layer's filters read the maps of all layers before it in its
block.

Parameters have the names of timm's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import AvgPool2d, BatchNorm2d, Conv2d, Linear, MaxPool2d, Module, ModuleDict
from pyapp.nn.vision.vision import ImageModel, check_pictures, mean_of_places

from .loading.config import require
from .loading.pictures_config import DEEPEST, WIDEST, PictureConfig, check_numbers

MODEL_TYPES = ("densenet",)
IMAGE_PROCESSOR = "TimmWrapper"  # of files that name none
BASE = ""  # files with a head put nothing before the network's names
LEAST = 32  # pixels of a side: the sides are halved five times


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters: the channels that a layer adds, the layers of each block, and how many times as many
    channels a layer has between its two filters.
    """

    model_type = MODEL_TYPES[0]

    growth_rate: int = 32
    block_config: tuple[int, ...] = (6, 12, 24, 16)
    bn_size: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("block_config", self.block_config, DEEPEST, count=4)
        for name, most in (("growth_rate", WIDEST), ("bn_size", 64)):
            value = getattr(self, name)
            require(value <= most, f"{name} is {value:,}, expected at most {most:,}")
        require(self.width <= WIDEST, f"a last map of {self.width:,} channels, expected at most {WIDEST:,}")

    @property
    def width(self) -> int:
        """The channels of the last map."""
        width = 2 * self.growth_rate
        for count in self.block_config[:-1]:
            width = (width + count * self.growth_rate) // 2
        return width + self.block_config[-1] * self.growth_rate


class DenseLayer(Module):
    """Two filters, each behind the norm of batches and an activation."""

    def __init__(self, config: Config, before: int) -> None:
        super().__init__()
        growth, inner = config.growth_rate, config.bn_size * config.growth_rate
        self.norm1, self.conv1 = BatchNorm2d(before), Conv2d(before, inner, 1, bias=False)
        self.norm2, self.conv2 = BatchNorm2d(inner), Conv2d(inner, growth, 3, padding=1, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, growth_rate, H, W)."""
        return self.conv2(ops.relu(self.norm2(self.conv1(ops.relu(self.norm1(x))))))


class DenseBlock(ModuleDict):
    """Layers, each of which adds its channels to those that it read."""

    def __init__(self, config: Config, before: int, count: int) -> None:
        super().__init__({
            f"denselayer{i + 1}": DenseLayer(config, before + i * config.growth_rate) for i in range(count)
        })  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C + layers * growth_rate, H, W)."""
        for layer in self.values():
            x = ops.cat([x, layer(x)], 1)
        return x


class Transition(Module):
    """Half as many channels, and half the sides."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.conv = BatchNorm2d(width), Conv2d(width, width // 2, 1, bias=False)
        self.pool = AvgPool2d(2, 2)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C / 2, H / 2, W / 2)."""
        return self.pool(self.conv(ops.relu(self.norm(x))))


class DenseNet(ImageModel):
    """The network, for pictures of any size from 32 pixels."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width = 2 * config.growth_rate
        parts: dict[str, Module] = {
            "conv0": Conv2d(config.num_channels, width, 7, 2, 3, bias=False), "norm0": BatchNorm2d(width),
        }  # fmt: skip
        for number, count in enumerate(config.block_config, 1):
            parts[f"denseblock{number}"] = DenseBlock(config, width, count)
            width += count * config.growth_rate
            if number < len(config.block_config):
                parts[f"transition{number}"] = Transition(width)
                width //= 2
        parts["norm5"] = BatchNorm2d(width)
        self.features = ModuleDict(parts)
        self.pool = MaxPool2d(3, 2, 1)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → features of places (B, C', H', W')."""
        check_pictures("DenseNet", pixel_values, self.config.num_channels, least=LEAST)
        x = pixel_values
        for name, part in self.features.items():
            x = part(x)
            if name.startswith("norm"):
                x = ops.relu(x)
            if name == "norm0":
                x = self.pool(x)
        return x


class DenseNetClassifier(DenseNet):
    """Scores of the labels of a picture, read at the mean of its places."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.classifier = Linear(config.width, len(config.labels))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → logits (B, labels)."""
        return self.classifier(mean_of_places(super().forward(pixel_values)))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": DenseNet,
    "image-classification": DenseNetClassifier,
}
