"""VGG (Simonyan and Zisserman 2014, arXiv 1409.1556): small filters one after the other, and three full layers.

Parameters have the names of timm's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import InputError
from pyapp.formats.checkpoint import TensorInfo
from pyapp.nn import BatchNorm2d, Conv2d, Linear, MaxPool2d, Module, ReLU, Sequential
from pyapp.nn.vision.vision import ImageModel, check_pictures

from .loading.config import require
from .loading.pictures_config import DEEPEST, WIDEST, PictureConfig, check_numbers
from .loading.stored import Stored

MODEL_TYPES = ("vgg",)
IMAGE_PROCESSOR = "TimmWrapper"  # of files that name none
BASE = ""  # files with a head put nothing before the network's names
PLACES = 7  # rows, and columns, of the map that the full layers read


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters: the channels of the filters between pools, and the widths of the full layers."""

    model_type = MODEL_TYPES[0]

    layers: tuple[tuple[int, ...], ...]
    has_norms: bool = False
    head_size: int = 4096
    inner_size: int = 4096

    def __post_init__(self) -> None:
        super().__post_init__()
        shaped = 1 <= len(self.layers) <= 8 and all(isinstance(stage, list | tuple) and stage for stage in self.layers)
        require(shaped, f"layers is {self.layers!r:.60}, expected the channels of up to 8 stages")
        for stage in self.layers:
            require(len(stage) <= DEEPEST, "a stage of more than 1,024 filters")
            check_numbers("layers", stage, WIDEST, count=len(stage))
        check_numbers("head_size and inner_size", (self.head_size, self.inner_size), WIDEST, count=2)

    @property
    def width(self) -> int:
        """The channels of the last map."""
        return self.layers[-1][-1]


class VGG(ImageModel):
    """The network, for pictures of any size."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        parts: list[Module] = []
        before = config.num_channels
        for stage in config.layers:
            for width in stage:
                parts.append(Conv2d(before, width, 3, padding=1))
                parts += [BatchNorm2d(width)] if config.has_norms else []
                parts.append(ReLU())
                before = width
            parts.append(MaxPool2d(2, 2))
        self.features = Sequential(*parts)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → features of places (B, C, H', W')."""
        least = 1 << len(self.config.layers)
        check_pictures("VGG", pixel_values, self.config.num_channels, least=least)
        return self.features(pixel_values)


class VGGClassifier(VGG):
    """Scores of the labels of a picture, of a map of 7 x 7 places."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.pre_logits = Module()
        self.pre_logits.fc1 = Linear(config.width * PLACES**2, config.inner_size)
        self.pre_logits.fc2 = Linear(config.inner_size, config.head_size)
        self.head = Module()
        self.head.fc = Linear(config.head_size, len(config.labels))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → logits (B, labels). InputError for pictures of more than 7 x 7 places."""
        x = super().forward(pixel_values)
        rows, columns = int(x.shape[2]), int(x.shape[3])
        if max(rows, columns) > PLACES:
            most = ((PLACES + 1) << len(self.config.layers)) - 1
            raise InputError(
                f"the pictures have {pixel_values.shape[2]} x {pixel_values.shape[3]} pixels, but VGG reads at most "
                f"{most} a side: use the image processor of the model"
            )
        if (rows, columns) != (PLACES, PLACES):
            x = ops.adaptive_avg_pool2d(x, (PLACES, PLACES))
        x = ops.relu(self.pre_logits.fc1(x.reshape(x.shape[0], -1)))
        return self.head.fc(ops.relu(self.pre_logits.fc2(x)))


def stored(config: Config, tensors: Mapping[str, TensorInfo]) -> dict[str, Stored]:
    """timm's files have the full layers as filters."""
    return {
        name: Stored((name,), values=_as_matrix) for name in ("pre_logits.fc1.weight", "pre_logits.fc2.weight")
        if name in tensors and len(tensors[name].shape) == 4
    }  # fmt: skip


def _as_matrix(value: Tensor) -> Tensor:
    """(out, in, height, width) → (out, in * height * width)."""
    return value.reshape(value.shape[0], -1)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": VGG,
    "image-classification": VGGClassifier,
}
