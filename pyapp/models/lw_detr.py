"""LW-DETR (Chen et al. 2024, arXiv 2406.03459): a Vision Transformer whose layers attend within windows by turns, its
maps joined into one or several, and queries that begin at their most promising places.

Parameters have the names of Hugging Face's files, but for those of parts that RF-DETR has too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import partial
from math import isqrt
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import InputError
from pyapp.nn import Conv2d, ConvTranspose2d, Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.detection import Detector, PredictionHead
from pyapp.nn.vision.grouped_queries import Joined, ProjectedDecoderLayer, Transformer, refined
from pyapp.nn.vision.real_time_detection import Filter
from pyapp.nn.vision.vision import (
    PatchAttention,
    as_map,
    as_sequence,
    check_pictures,
    over_channels,
    resized_positions,
)

from .loading.config import require
from .loading.pictures_config import GroupedDetectorConfig, ScaledConfig, stages_of

MODEL_TYPES = ("lw_detr",)
IMAGE_PROCESSOR = "DeformableDetr"  # of files that name none
BASE = ""
# The heads of the other groups of queries, are for training.
IGNORED = r"model\.enc_out\w*\.[1-9]\d*\..*"
SCALES = (0.5, 1.0, 2.0)  # of maps
NARROW = 512  # channels up to which a map is made larger at once
# The names of files, and those here.
NAMES = (
    (r"^model\.backbone\.", ""),
    (r"^model\.(decoder|enc_out\w*)\.", r"transformer.\1."),
    (r"^model\.(query_feat|reference_point_embed)\.", r"\1."),
    (r"\.attention\.output\.(weight|bias)$", r".attention.output.dense.\1"),
    (r"\.projector_layer\.conv([12])\.", r".projector_layer.cv\1."),
    (r"\.projector_layer\.bottlenecks\.(\d+)\.conv([12])\.", r".projector_layer.m.\1.cv\2."),
    (r"\.self_attn\.o_proj\.", ".self_attn.out_proj."),
    (r"\.self_attn_layer_norm\.", ".norm1."),
    (r"\.cross_attn_layer_norm\.", ".norm2."),
    (r"^(transformer\.decoder\.layers\.\d+)\.layer_norm\.", r"\1.norm3."),
    (r"^(transformer\.decoder\.layers\.\d+)\.mlp\.fc([12])\.", r"\1.linear\2."),
    (r"^transformer\.decoder\.layernorm\.", "transformer.decoder.norm."),
)


@dataclass(frozen=True, kw_only=True)
class BackboneConfig(ScaledConfig):
    """The fields of backbone_config; image_size is that of the pictures of the first training. stages: the layers, from
    0, whose outputs are read.
    """

    model_type = "lw_detr_vit"
    patch = 16

    stages: tuple[int, ...]
    num_windows: int = 16
    window_block_indices: tuple[int, ...] = ()
    use_absolute_position_embeddings: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        layers, across = self.num_hidden_layers, isqrt(self.num_windows)
        require(
            across**2 == self.num_windows <= 1 << 12,
            f"num_windows is {self.num_windows}, expected a square up to 4,096",
        )
        known = all(type(i) is int and 0 <= i < layers for i in self.window_block_indices)
        require(known, f"window_block_indices is {self.window_block_indices!r:.60}, of {layers} layers")
        require(
            self.image_size[0] == self.image_size[1], f"pretrain_image_size is {self.image_size}, expected a square"
        )
        require(self.patch_size[0] == self.patch_size[1], f"patch_size is {self.patch_size}, expected a square")
        require(not self.use_swiglu_ffn, "LW-DETR with use_swiglu_ffn is not supported")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        layers = values.get("num_hidden_layers", 12)
        require(type(layers) is int and 1 <= layers <= 1 << 10, f"num_hidden_layers is {layers!r:.60}")
        own = {"image_size": values.get("pretrain_image_size", 224), "stages": stages_of(values, layers, (layers - 1,))}
        return super().from_dict({**values, **own})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        own = super().to_dict()
        stages, size = own.pop("stages"), own.pop("image_size")
        return own | {"out_features": [f"stage{i + 1}" for i in stages], "pretrain_image_size": size}

    @property
    def across(self) -> int:
        """The windows of a row."""
        return isqrt(self.num_windows)

    @property
    def step(self) -> int:
        """Pixels of which a picture's sides are multiples."""
        return self.patch_size[0] * self.across


@dataclass(frozen=True, kw_only=True)
class Config(GroupedDetectorConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    backbone = BackboneConfig

    backbone_config: BackboneConfig
    projector_scale_factors: tuple[float, ...] = (1.0,)
    batch_norm_eps: float = 1e-5

    def __post_init__(self) -> None:
        super().__post_init__()
        scales = self.projector_scale_factors
        known = 1 <= len(scales) <= 4 and all(type(scale) in (int, float) and scale in SCALES for scale in scales)
        require(known, f"projector_scale_factors is {scales!r:.60}, expected one to four of {SCALES}")
        require(0 < self.batch_norm_eps < 1, f"batch_norm_eps is {self.batch_norm_eps}")


class Embeddings(Module):
    """The patches, with positions for any grid, of which the first, a class token's, is not used."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.grid, width = config.grid, config.hidden_size
        placed = config.use_absolute_position_embeddings
        self.position_embeddings = new_parameter(ops.zeros, 1, config.patches + 1, width) if placed else None
        self.projection = Conv2d(config.num_channels, width, config.patch_size, config.patch_size)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, D, rows, columns)."""
        x = self.projection(pixel_values)
        if self.position_embeddings is None:
            return x
        rows, columns = int(x.shape[2]), int(x.shape[3])
        found = resized_positions(self.position_embeddings, 1, 0, self.grid, (rows, columns))
        return x + as_map(found.narrow(1, 1, rows * columns), rows, columns)


class Layer(Module):
    """Attention and a feed-forward part, each with a norm before it, scaled and added to a residual."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.attention = PatchAttention(width, config.num_attention_heads, config.qkv_bias, key_bias=False)
        self.intermediate = FeedForward(width, config.inner, config.hidden_act)
        self.layernorm_before, self.layernorm_after = (LayerNorm(width, config.layer_norm_eps) for _ in range(2))
        self.gamma_1, self.gamma_2 = (new_parameter(ops.ones, width) for _ in range(2))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        x = x + self.attention(self.layernorm_before(x), None) * self.gamma_1
        return x + self.intermediate(self.layernorm_after(x)) * self.gamma_2


class Windows(Module):
    """The Vision Transformer."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = Module()
        self.encoder.layer = ModuleList(Layer(config) for _ in range(config.num_hidden_layers))

    def forward(self, pixel_values: Tensor) -> list[Tensor]:
        """pixel_values (B, C, H, W) → the maps (B, D, rows, columns) that are read."""
        x = self.embeddings(pixel_values)  # (B, D, rows, columns)
        (batch, width, rows, columns), across = x.shape, self.config.across
        high, wide = rows // across, columns // across
        x = x.permute(0, 2, 3, 1).reshape(batch, across, high, across, wide, width).transpose(2, 3)
        x, found = x.reshape(batch * across**2, high * wide, width), []
        for i, layer in enumerate(self.encoder.layer[: self.config.stages[-1] + 1]):
            if i in self.config.window_block_indices:
                x = layer(x)
            else:
                x = layer(x.reshape(batch, rows * columns, width)).reshape(x.shape)
            if i in self.config.stages:
                y = x.reshape(batch, across, across, high, wide, width).transpose(2, 3)
                found.append(as_map(y.reshape(batch, rows * columns, width), rows, columns))
        return found


class Resized(Module):
    """A map of half or twice the sides, or as it is."""

    def __init__(self, config: Config, width: int, scale: float) -> None:
        super().__init__()
        layers: list[Module] = []
        if scale == 2 and width > NARROW:
            layers.append(Filter(config, width, width // 2, 1, 1, "relu"))
            width = width // 2
        if scale == 2:
            layers.append(ConvTranspose2d(width, width // 2, 2, 2))
        elif scale == 0.5:
            layers.append(Filter(config, width, width, 3, 2, "relu"))
        self.layers = ModuleList(layers)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C', scale H, scale W)."""
        for layer in self.layers:
            x = layer(x)
        return x


class Scaled(Module):
    """One map of all that the Vision Transformer's layers gave."""

    def __init__(self, config: Config, scale: float) -> None:
        super().__init__()
        own = config.backbone_config
        width = own.hidden_size
        self.sampling_layers = ModuleList(Resized(config, width, scale) for _ in own.stages)
        if scale == 2:
            width = width // (4 if width > NARROW else 2)
        self.projector_layer = Joined(config, width * len(own.stages), partial(_filter, config))
        self.layer_norm = LayerNorm(config.d_model, 1e-6)

    def forward(self, maps: list[Tensor]) -> Tensor:
        """maps (B, C, H, W) → (B, D, scale H, scale W)."""
        sampled = [layer(x) for layer, x in zip(self.sampling_layers, maps, strict=True)]
        return over_channels(self.projector_layer(ops.cat(sampled, 1)), self.layer_norm)


def _filter(config: Config, before: int, width: int, kernel: int) -> Filter:
    return Filter(config, before, width, kernel, 1, config.activation_function)


class LwDetr(Detector):
    """Labels and boxes of the objects in pictures, whose sides are multiples of the windows'."""

    background = False

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, width, scales = config, config.d_model, config.projector_scale_factors
        self.backbone = Windows(config.backbone_config)
        self.projector = Module()
        self.projector.scale_layers = ModuleList(Scaled(config, scale) for scale in scales)
        self.transformer = Transformer(config, len(scales), ProjectedDecoderLayer)
        self.query_feat = Embedding(config.num_queries * config.group_detr, width)
        self.reference_point_embed = Embedding(config.num_queries * config.group_detr, 4)
        self.class_embed = Linear(width, len(config.labels))
        self.bbox_embed = PredictionHead(width, width, 4)

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, Tensor]:
        step, count = self.config.backbone_config.step, self.config.num_queries
        check_pictures("LW-DETR", pixel_values, self.config.num_channels, least=step)
        high, wide = pixel_values.shape[2:]
        if high % step or wide % step:
            raise InputError(f"LW-DETR: pictures have multiples of {step} pixels a side, not {high} x {wide}")
        found = self.backbone(pixel_values)
        maps = [layer(found) for layer in self.projector.scale_layers]  # (B, D, rows, columns) each
        sizes = [(int(x.shape[2]), int(x.shape[3])) for x in maps]
        source = ops.cat([as_sequence(x) for x in maps], 1)  # (B, S, D)
        if source.shape[1] < count:
            raise InputError(f"a picture of {high} x {wide} has {source.shape[1]:,} places, {count:,} are needed")
        numbers = ops.arange(count, dtype="int32", device=source.device)
        queries, steps = (table(numbers).unsqueeze(0) for table in (self.query_feat, self.reference_point_embed))
        x, boxes = self.transformer(source, sizes, queries, steps)
        return self.class_embed(x), refined(boxes, self.bbox_embed(x))


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    for old, new in NAMES:
        name = re.sub(old, new, name)
    return name


TASKS: Mapping[str, Callable[[Config], Module]] = {"object-detection": LwDetr}
