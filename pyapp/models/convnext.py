"""ConvNeXt (Liu et al. 2022, arXiv 2201.03545): a convolutional network with the layout of a transformer: depthwise
filters of 7 x 7 pixels, norms over channels, and linear layers at each pixel.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Conv2d, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision import ImageHead, ImageModel, check_pictures, over_channels

from .loading.config import require
from .loading.pictures_config import PictureConfig, check_stages

MODEL_TYPES = ("convnext",)
BASE = "convnext"  # the network's name in files with a head
EPSILON = 1e-6  # of all norms but the last


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    patch_size: int = 4
    hidden_sizes: tuple[int, ...] = (96, 192, 384, 768)
    depths: tuple[int, ...] = (3, 3, 9, 3)
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-12
    layer_scale_init_value: float = 1e-6

    def __post_init__(self) -> None:
        super().__post_init__()
        check_stages(self.hidden_sizes, self.depths)
        require(self.patch_size <= 1 << 10, f"patch_size is {self.patch_size:,}, expected at most 1,024")


class Embeddings(Module):
    """Patches and their norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        size = config.patch_size
        self.patch_embeddings = Conv2d(config.num_channels, config.hidden_sizes[0], size, stride=size)
        self.layernorm = LayerNorm(config.hidden_sizes[0], EPSILON)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → (B, C, H / patch, W / patch)."""
        return over_channels(self.patch_embeddings(pixel_values), self.layernorm)


class Layer(Module):
    """A depthwise filter, a norm, two linear layers with an activation between them, scaled and added to a residual."""

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        self.dwconv = Conv2d(width, width, 7, padding=3, groups=width)
        self.layernorm = LayerNorm(width, EPSILON)
        self.pwconv1 = Linear(width, 4 * width)
        self.pwconv2 = Linear(4 * width, width)
        self.activation = activation_named(config.hidden_act)
        scaled = config.layer_scale_init_value > 0
        self.layer_scale_parameter = new_parameter(ops.ones, width) if scaled else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        y = self.layernorm(self.dwconv(x).permute(0, 2, 3, 1))  # (B, H, W, C)
        y = self.pwconv2(self.activation(self.pwconv1(y)))
        if self.layer_scale_parameter is not None:
            y = y * self.layer_scale_parameter
        return x + y.permute(0, 3, 1, 2)


class Stage(Module):
    """Layers of one width. All stages but the first begin with a norm and halve the picture's sides."""

    def __init__(self, config: Config, before: int, width: int, depth: int, first: bool) -> None:
        super().__init__()
        parts = [] if first else [LayerNorm(before, EPSILON), Conv2d(before, width, 2, stride=2)]
        self.downsampling_layer = ModuleList(parts)
        self.layers = ModuleList(Layer(config, width) for _ in range(depth))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C', H', W')."""
        if len(self.downsampling_layer):
            norm, halve = self.downsampling_layer
            x = halve(over_channels(x, norm))
        for layer in self.layers:
            x = layer(x)
        return x


class Encoder(Module):
    """The stages."""

    def __init__(self, config: Config) -> None:
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

    def __init__(self, config: Config) -> None:
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


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture."""
    network = ConvNext(config)
    return ImageHead(BASE, network, config.hidden_sizes[-1], len(config.labels), network.pooled)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": ConvNext,
    "image-classification": image_classification,
}
