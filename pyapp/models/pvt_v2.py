"""PVT v2 (Wang et al. 2021, arXiv 2106.13797): stages of attention to a coarser picture, or to 7 x 7 means of it, with
feed-forward parts that look at neighbouring places too.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Conv2d, LayerNorm, Module, ModuleList
from pyapp.nn.layers.linear import ResidualLinear
from pyapp.nn.vision.pyramid import CoarserAttention, NeighbourFeedForward, OverlappingPatches
from pyapp.nn.vision.vision import ImageHead, ImageModel, as_map, as_sequence, check_pictures, mean_of_places

from .loading.pictures_config import PyramidConfig

MODEL_TYPES = ("pvt_v2",)
IMAGE_PROCESSOR = "Pvt"  # of files that name none
BASE = "pvt_v2"  # the encoder's name in files with a head
MEANS = 7  # rows and columns of the coarser picture of linear attention


@dataclass(frozen=True, kw_only=True)
class Config(PyramidConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    mlp_ratios: tuple[int, ...] = (8, 8, 4, 4)
    layer_norm_eps: float = 1e-6
    qkv_bias: bool = True
    linear_attention: bool = False

    @property
    def steps(self) -> tuple[int, ...]:
        """As PyramidConfig's; the means of linear attention are of pictures of any size."""
        return (1,) * len(self.sr_ratios) if self.linear_attention else self.sr_ratios


class Attention(CoarserAttention):
    """Attention of each place to the places of a coarser picture, if there is one, and its output projection."""

    def __init__(self, config: Config, stage: int) -> None:
        width, step = config.hidden_sizes[stage], config.steps[stage]
        super().__init__(width, config.num_attention_heads[stage], config.qkv_bias)
        self.linear = config.linear_attention
        self.proj = ResidualLinear(width, width)
        coarser = self.linear or step > 1
        self.spatial_reduction = Conv2d(width, width, step, step) if coarser else None
        self.layer_norm = LayerNorm(width, config.layer_norm_eps) if coarser else None

    def _source(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        """The places (B, S, D) that are attended to."""
        if self.spatial_reduction is None or self.layer_norm is None:
            return x
        places = as_map(x, *size)
        if not self.linear:
            return self.layer_norm(as_sequence(self.spatial_reduction(places)))
        means = ops.adaptive_avg_pool2d(places, MEANS)
        return ops.gelu(self.layer_norm(as_sequence(self.spatial_reduction(means))))

    def forward(self, x: Tensor, residual: Tensor, size: tuple[int, int]) -> Tensor:
        """x and residual (B, H * W, D) → (B, H * W, D)."""
        return self.proj(self.attend_to(self._source(x, size), x), residual)


class Layer(Module):
    """Attention and a feed-forward part, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, stage: int) -> None:
        super().__init__()
        width, epsilon = config.hidden_sizes[stage], config.layer_norm_eps
        self.layer_norm_1 = LayerNorm(width, epsilon)
        self.attention = Attention(config, stage)
        self.layer_norm_2 = LayerNorm(width, epsilon)
        self.mlp = NeighbourFeedForward(
            width, width * config.mlp_ratios[stage], config.hidden_act, config.linear_attention
        )

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        """x (B, H * W, D) → (B, H * W, D)."""
        x = self.attention(self.layer_norm_1(x), x, size)
        return self.mlp(self.layer_norm_2(x), x, size)


class PVTv2(ImageModel):
    """The encoder, for pictures of any size from its largest step on."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.encoder = Module()
        self.encoder.layers = ModuleList()
        widths, epsilon = (config.num_channels, *config.hidden_sizes), config.layer_norm_eps
        for i, depth in enumerate(config.depths):
            stage = Module()
            stage.patch_embedding = OverlappingPatches(
                widths[i], widths[i + 1], config.patch_sizes[i], config.strides[i], epsilon
            )
            stage.blocks = ModuleList(Layer(config, i) for _ in range(depth))
            stage.layer_norm = LayerNorm(widths[i + 1], epsilon)
            self.encoder.layers.append(stage)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → features of places (B, D, H', W')."""
        check_pictures("PVT v2", pixel_values, self.config.num_channels, least=self.config.least)
        x = pixel_values
        for stage in self.encoder.layers:
            y, size = stage.patch_embedding(x)
            for layer in stage.blocks:
                y = layer(y, size)
            x = as_map(stage.layer_norm(y), *size)
        return x


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture, read at the mean of its places."""
    return ImageHead(BASE, PVTv2(config), config.hidden_sizes[-1], len(config.labels), mean_of_places)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": PVTv2,
    "image-classification": image_classification,
}
