"""ConvMixer (Trockman and Kolter 2022, arXiv 2201.09792): patches, mixed by a filter of each channel and then by one of
each place, again and again.

Parameters have the names of timm's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import BatchNorm2d, Conv2d, Linear, Module, Sequential
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.vision.vision import ImageModel, check_pictures, mean_of_places

from .loading.config import require
from .loading.pictures_config import DEEPEST, WIDEST, PictureConfig

MODEL_TYPES = ("convmixer",)
IMAGE_PROCESSOR = "TimmWrapper"  # of files that name none
BASE = ""  # files with a head put nothing before the network's names


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters: the channels, the layers, and the pixels of a side of a filter and of a patch."""

    model_type = MODEL_TYPES[0]

    hidden_size: int
    num_hidden_layers: int
    kernel_size: int = 9
    patch_size: int = 7
    hidden_act: str = "gelu"

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.hidden_size <= WIDEST, f"hidden_size is {self.hidden_size:,}, expected at most {WIDEST:,}")
        require(self.num_hidden_layers <= DEEPEST, f"num_hidden_layers is {self.num_hidden_layers:,}")
        require(self.kernel_size <= 255, f"kernel_size is {self.kernel_size:,}, expected at most 255")
        require(self.patch_size <= 1 << 10, f"patch_size is {self.patch_size:,}, expected at most 1,024")


class Residual(Module):
    """x and what `fn` makes of it."""

    def __init__(self, fn: Module) -> None:
        super().__init__()
        self.fn = fn

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        return x + self.fn(x)


class Activated(Module):
    """An activation by its name in the configuration."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """Any shape → the same shape."""
        return self.activation(x)


class ConvMixer(ImageModel):
    """The network, for pictures of any size from a patch on."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width = config.hidden_size

        def normed(filter: Conv2d) -> tuple[Module, ...]:
            return filter, Activated(config), BatchNorm2d(width)

        self.stem = Sequential(*normed(Conv2d(config.num_channels, width, config.patch_size, config.patch_size)))
        self.blocks = Sequential(*(
            Sequential(
                Residual(Sequential(*normed(Conv2d(width, width, config.kernel_size, padding="same", groups=width)))),
                *normed(Conv2d(width, width, 1)),
            )
            for _ in range(config.num_hidden_layers)
        ))  # fmt: skip

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → features of places (B, C, H', W')."""
        check_pictures("ConvMixer", pixel_values, self.config.num_channels, least=self.config.patch_size)
        return self.blocks(self.stem(pixel_values))


class ConvMixerClassifier(ConvMixer):
    """Scores of the labels of a picture, read at the mean of its places."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.head = Linear(config.hidden_size, len(config.labels))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → logits (B, labels)."""
        return self.head(mean_of_places(super().forward(pixel_values)))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": ConvMixer,
    "image-classification": ConvMixerClassifier,
}
