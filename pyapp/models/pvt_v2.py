"""PVT v2 (Wang et al. 2021, arXiv 2106.13797): stages of attention to a coarser picture, or to 7 x 7 means of it, with
feed-forward parts that look at neighbouring places too.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Conv2d, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.encoders import attend
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.layers.linear import ResidualLinear
from pyapp.nn.vision import ImageHead, ImageModel, as_map, as_sequence, check_pictures, mean_of_places

from .loading.config import require
from .loading.pictures_config import PictureConfig, check_numbers, check_stages

MODEL_TYPES = ("pvt_v2",)
IMAGE_PROCESSOR = "Pvt"  # of files that name none
BASE = "pvt_v2"  # the encoder's name in files with a head
MEANS = 7  # rows and columns of the coarser picture of linear attention


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    depths: tuple[int, ...] = (2, 2, 2, 2)
    sr_ratios: tuple[int, ...] = (8, 4, 2, 1)
    hidden_sizes: tuple[int, ...] = (32, 64, 160, 256)
    patch_sizes: tuple[int, ...] = (7, 3, 3, 3)
    strides: tuple[int, ...] = (4, 2, 2, 2)
    num_attention_heads: tuple[int, ...] = (1, 2, 5, 8)
    mlp_ratios: tuple[int, ...] = (8, 8, 4, 4)
    num_encoder_blocks: int | None = None
    hidden_act: str = "gelu"
    layer_norm_eps: float = 1e-6
    qkv_bias: bool = True
    linear_attention: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_stages(self.hidden_sizes, self.depths)
        stages = len(self.depths)
        require(
            self.num_encoder_blocks in (None, stages),
            f"num_encoder_blocks is {self.num_encoder_blocks}, depths has {stages} numbers",
        )
        for name, most in (
            ("sr_ratios", 64), ("patch_sizes", 64), ("strides", 64), ("num_attention_heads", 1 << 12),
            ("mlp_ratios", 64),
        ):  # fmt: skip
            check_numbers(name, getattr(self, name), most, count=stages)
        for width, heads in zip(self.hidden_sizes, self.num_attention_heads, strict=True):
            require(width % heads == 0, f"{heads} num_attention_heads do not divide the hidden size {width}")

    @property
    def least(self) -> int:
        """The fewest pixels of a picture's side, of which the last stage's coarser picture has a place."""
        found, step = 1, 1
        for stride, ratio in zip(self.strides, self.sr_ratios, strict=True):
            step *= stride
            found = max(found, step * (1 if self.linear_attention else ratio))
        return found


class Patches(Module):
    """Patches that overlap, and their norm."""

    def __init__(self, config: Config, stage: int) -> None:
        super().__init__()
        before = config.hidden_sizes[stage - 1] if stage else config.num_channels
        width, kernel = config.hidden_sizes[stage], config.patch_sizes[stage]
        self.proj = Conv2d(before, width, kernel, config.strides[stage], kernel // 2)
        self.layer_norm = LayerNorm(width, config.layer_norm_eps)

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """x (B, C, H, W) → (B, H' * W', D), and (H', W')."""
        x = self.proj(x)
        return self.layer_norm(as_sequence(x)), (int(x.shape[2]), int(x.shape[3]))


class Attention(Module):
    """Attention of each place to the places of a coarser picture."""

    def __init__(self, config: Config, stage: int) -> None:
        super().__init__()
        width, ratio = config.hidden_sizes[stage], config.sr_ratios[stage]
        self.heads, self.linear = config.num_attention_heads[stage], config.linear_attention
        self.query = Linear(width, width, config.qkv_bias)
        self.key = Linear(width, width, config.qkv_bias)
        self.value = Linear(width, width, config.qkv_bias)
        self.proj = ResidualLinear(width, width)
        side = 1 if self.linear else ratio
        coarser = self.linear or ratio > 1
        self.spatial_reduction = Conv2d(width, width, side, side) if coarser else None
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
        source = self._source(x, size)
        q, k, v = (
            layer(y).reshape(*y.shape[:2], self.heads, -1)
            for layer, y in ((self.query, x), (self.key, source), (self.value, source))
        )
        return self.proj(attend(q, k, v, None), residual)


class Layer(Module):
    """Attention and a feed-forward part, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, stage: int) -> None:
        super().__init__()
        width, epsilon = config.hidden_sizes[stage], config.layer_norm_eps
        inner = width * config.mlp_ratios[stage]
        self.layer_norm_1 = LayerNorm(width, epsilon)
        self.attention = Attention(config, stage)
        self.layer_norm_2 = LayerNorm(width, epsilon)
        self.mlp = Module()
        self.mlp.dense1 = Linear(width, inner)
        self.mlp.dwconv = Module()
        self.mlp.dwconv.dwconv = Conv2d(inner, inner, 3, padding=1, groups=inner)
        self.mlp.dense2 = ResidualLinear(inner, width)
        self.linear = config.linear_attention
        self.activation = activation_named(config.hidden_act)

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        """x (B, H * W, D) → (B, H * W, D)."""
        x = self.attention(self.layer_norm_1(x), x, size)
        y = self.mlp.dense1(self.layer_norm_2(x))
        y = self.mlp.dwconv.dwconv(as_map(y.relu() if self.linear else y, *size))
        return self.mlp.dense2(self.activation(as_sequence(y)), x)


class PVTv2(ImageModel):
    """The encoder, for pictures of any size from its largest step on."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.encoder = Module()
        self.encoder.layers = ModuleList()
        for i, depth in enumerate(config.depths):
            stage = Module()
            stage.patch_embedding = Patches(config, i)
            stage.blocks = ModuleList(Layer(config, i) for _ in range(depth))
            stage.layer_norm = LayerNorm(config.hidden_sizes[i], config.layer_norm_eps)
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
