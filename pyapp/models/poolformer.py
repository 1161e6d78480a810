"""PoolFormer (Yu et al. 2021, arXiv 2111.11418): a network with the layout of a transformer, in which the mean of the
places around each takes the place of attention.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Conv2d, GroupNorm, Linear, Module, ModuleList
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.vision import ImageModel, check_pictures, mean_of_places

from .loading.config import require
from .loading.pictures_config import PictureConfig, check_numbers, check_stages

MODEL_TYPES = ("poolformer",)
IMAGE_PROCESSOR = "PoolFormer"  # of files that name none
BASE = "poolformer"  # the network's name in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    pool_size: int = 3
    mlp_ratio: float = 4.0
    depths: tuple[int, ...] = (2, 2, 6, 2)
    hidden_sizes: tuple[int, ...] = (64, 128, 320, 512)
    patch_sizes: tuple[int, ...] = (7, 3, 3, 3)
    strides: tuple[int, ...] = (4, 2, 2, 2)
    padding: tuple[int, ...] = (2, 1, 1, 1)
    num_encoder_blocks: int | None = None
    hidden_act: str = "gelu"
    use_layer_scale: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        check_stages(self.hidden_sizes, self.depths, self.num_encoder_blocks)
        for name, least in (("patch_sizes", 1), ("strides", 1), ("padding", 0)):
            check_numbers(name, getattr(self, name), 64, least, count=len(self.depths))
        require(self.pool_size % 2 == 1 and self.pool_size <= 63, f"pool_size is {self.pool_size}, expected 1, 3 … 63")
        require(0 < self.mlp_ratio <= 64, f"mlp_ratio is {self.mlp_ratio}, expected at most 64")


class Layer(Module):
    """The mean of the places around each, and two layers at each place; each with a norm before it and a residual
    around it.
    """

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        self.size, inner = config.pool_size, int(width * config.mlp_ratio)
        self.before_norm = GroupNorm(1, width)
        self.after_norm = GroupNorm(1, width)
        self.output = Module()
        self.output.conv1 = Conv2d(width, inner, 1)
        self.output.conv2 = Conv2d(inner, width, 1)
        self.activation = activation_named(config.hidden_act)
        for name in ("layer_scale_1", "layer_scale_2"):
            setattr(self, name, new_parameter(ops.ones, width) if config.use_layer_scale else None)

    def _scaled(self, x: Tensor, scale: Tensor | None) -> Tensor:
        return x if scale is None else x * scale.reshape(-1, 1, 1)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        y = self.before_norm(x)
        around = ops.avg_pool2d(y, self.size, 1, self.size // 2, count_include_pad=False)
        x = x + self._scaled(around - y, self.layer_scale_1)
        y = self.output.conv2(self.activation(self.output.conv1(self.after_norm(x))))
        return x + self._scaled(y, self.layer_scale_2)


class PoolFormer(ImageModel):
    """The network, for pictures of any size from its largest step on."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.encoder = Module()
        self.encoder.patch_embeddings = ModuleList()
        before = config.num_channels
        sizes = zip(config.hidden_sizes, config.patch_sizes, config.strides, config.padding, strict=True)
        for width, kernel, stride, padding in sizes:
            patches = Module()
            patches.projection = Conv2d(before, width, kernel, stride, padding)
            self.encoder.patch_embeddings.append(patches)
            before = width
        self.encoder.block = ModuleList(
            ModuleList(Layer(config, width) for _ in range(depth))
            for width, depth in zip(config.hidden_sizes, config.depths, strict=True)
        )

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → features of places (B, C', H', W')."""
        check_pictures("PoolFormer", pixel_values, self.config.num_channels, least=prod(self.config.strides))
        x = pixel_values
        for patches, layers in zip(self.encoder.patch_embeddings, self.encoder.block, strict=True):
            x = patches.projection(x)
            for layer in layers:
                x = layer(x)
        return x


class Classifier(ImageModel):
    """The network, a norm, and a head for labels, read at the mean of the places."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.poolformer = PoolFormer(config)
        self.norm = GroupNorm(1, config.hidden_sizes[-1])
        self.classifier = Linear(config.hidden_sizes[-1], len(config.labels))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → logits (B, labels)."""
        return self.classifier(mean_of_places(self.norm(self.poolformer(pixel_values))))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": PoolFormer,
    "image-classification": Classifier,
}
