"""RF-DETR (Robinson et al. 2025, arXiv 2511.09554): a DINOv2 whose layers attend within windows by turns, its maps
joined into one, and queries that begin at the most promising places of that map.

Parameters have the names of published files, which are Roboflow's own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import InputError
from pyapp.nn import Conv2d, Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.detection import Detector, PredictionHead
from pyapp.nn.vision.grouped_queries import Joined, Transformer, refined
from pyapp.nn.vision.scaled_vision import ScaledLayer
from pyapp.nn.vision.vision import (
    PatchEmbeddings,
    as_map,
    as_sequence,
    check_pictures,
    over_channels,
    resized_positions,
    token,
    with_tokens,
)

from .loading.config import require
from .loading.pictures_config import GroupedDetectorConfig, ScaledConfig, stages_of

MODEL_TYPES = ("rf_detr",)
IMAGE_PROCESSOR = "RfDetr"  # of files that name none
BASE = ""
# The mask's token, and the heads of the other groups of queries, are for training.
IGNORED = r"backbone\.0\.encoder\.encoder\.embeddings\.mask_token|transformer\.enc_out\w*\.[1-9]\d*\..*"


@dataclass(frozen=True, kw_only=True)
class BackboneConfig(ScaledConfig):
    """The fields of backbone_config. stages: the layers, from 0, whose outputs are read."""

    model_type = "rf_detr_dinov2"

    stages: tuple[int, ...]
    num_windows: int = 4
    apply_layernorm: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.num_windows <= 1 << 6, f"num_windows is {self.num_windows}, expected at most 64")
        sides = (*self.image_size, *self.patch_size)
        square = sides[0] == sides[1] and sides[2] == sides[3]
        require(square, f"image_size is {self.image_size} and patch_size {self.patch_size}, expected squares")
        require(not self.use_swiglu_ffn, "RF-DETR with use_swiglu_ffn is not supported")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        layers = values.get("num_hidden_layers", 12)
        require(type(layers) is int and 1 <= layers <= 1 << 10, f"num_hidden_layers is {layers!r:.60}")
        return super().from_dict({**values, "stages": stages_of(values, layers, (layers - 1,))})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        own = super().to_dict()
        return own | {"out_features": [f"stage{i + 1}" for i in own.pop("stages")]}

    def is_whole(self, layer: int) -> bool:
        """Whether a layer, from 0, attends to the whole picture: those with the numbers of the stages that are read,
        which count from 1, and all after the last of them.
        """
        return layer - 1 in self.stages or layer - 1 > self.stages[-1]

    @property
    def step(self) -> int:
        """Pixels of which a picture's sides are multiples."""
        return self.patch_size[0] * self.num_windows


@dataclass(frozen=True, kw_only=True)
class Config(GroupedDetectorConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    backbone = BackboneConfig

    backbone_config: BackboneConfig
    layer_norm_eps: float = 1e-5

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored. ModelError for other backbones than DINOv2."""
        levels = values.get("num_feature_levels", 1)
        require(levels == 1, f"num_feature_levels is {levels!r:.60}, expected 1")
        return super().from_dict(values)


class FilterNorm(Module):
    """A filter, a norm of each place's channels and an activation."""

    def __init__(self, config: Config, before: int, width: int, kernel: int) -> None:
        super().__init__()
        self.conv = Conv2d(before, width, kernel, padding=kernel // 2, bias=False)
        self.bn = LayerNorm(width, config.layer_norm_eps)
        self.activation = activation_named(config.activation_function)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H, W)."""
        return self.activation(over_channels(self.conv(x), self.bn))


class Embeddings(Module):
    """The class token and the patches, which have positions for any grid."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.config, width = config, config.hidden_size
        self.cls_token = token(width)
        self.patch_embeddings = PatchEmbeddings(config.num_channels, width, config.patch_size)
        self.position_embeddings = new_parameter(ops.zeros, 1, config.patches + 1, width)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, S, S) → (B, 1 + patches, D)."""
        side = pixel_values.shape[2] // self.config.patch_size[0]
        x = with_tokens(self.patch_embeddings(pixel_values), self.cls_token)
        return x + resized_positions(self.position_embeddings, 1, 0, self.config.grid, (side, side), True)


class Windows(Module):
    """The DINOv2. Each window has a class token of its own."""

    def __init__(self, config: BackboneConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = Module()
        self.encoder.layer = ModuleList(ScaledLayer(config) for _ in range(config.num_hidden_layers))
        self.layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, pixel_values: Tensor) -> list[Tensor]:
        """pixel_values (B, C, S, S) → the maps (B, D, side, side) that are read."""
        config, batch = self.config, pixel_values.shape[0]
        across, side = config.num_windows, pixel_values.shape[2] // config.patch_size[0]
        x = self.embeddings(pixel_values)  # (B, 1 + side², D)
        small, width = side // across, x.shape[2]
        first, patches = x.narrow(1, 0, 1), x.narrow(1, 1, side * side)
        patches = patches.reshape(batch, across, small, across, small, width).transpose(2, 3)
        patches = patches.reshape(batch * across**2, small**2, width)
        first = first.expand(batch, across**2, width).reshape(batch * across**2, 1, width)
        x, found = ops.cat([first, patches], 1), []  # (B * windows, 1 + small², D)
        last = config.stages[-1]
        for i, layer in enumerate(self.encoder.layer[: last + 1]):
            if config.is_whole(i):
                x = layer(x.reshape(batch, across**2 * x.shape[1], width)).reshape(x.shape)
            else:
                x = layer(x)
            if i in config.stages:
                y = (self.layernorm(x) if config.apply_layernorm else x).narrow(1, 1, small**2)
                y = y.reshape(batch, across, across, small, small, width).transpose(2, 3)
                found.append(as_map(y.reshape(batch, side * side, width), side, side))
        return found


class RfDetr(Detector):
    """Labels and boxes of the objects in square pictures, whose sides are multiples of the windows'."""

    background = False

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, own, width = config, config.backbone_config, config.d_model
        part = Module()
        part.encoder = Module()
        part.encoder.encoder = Windows(own)
        part.projector = Module()
        before = own.hidden_size * len(own.stages)
        joined = Joined(config, before, partial(FilterNorm, config))
        part.projector.stages = ModuleList([ModuleList([joined, LayerNorm(width, 1e-6)])])
        self.backbone = ModuleList([part])
        self.transformer = Transformer(config)
        self.query_feat = Embedding(config.num_queries * config.group_detr, width)
        self.refpoint_embed = Embedding(config.num_queries * config.group_detr, 4)
        self.class_embed = Linear(width, len(config.labels))
        self.bbox_embed = PredictionHead(width, width, 4)

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, Tensor]:
        step, count = self.config.backbone_config.step, self.config.num_queries
        check_pictures("RF-DETR", pixel_values, self.config.num_channels, least=step)
        high, wide = pixel_values.shape[2:]
        if high != wide or high % step:
            raise InputError(f"RF-DETR: pictures are squares of multiples of {step} pixels, not {high} x {wide}")
        [part] = self.backbone
        [[joined, norm]] = [[*stage] for stage in part.projector.stages]
        x = over_channels(joined(ops.cat(part.encoder.encoder(pixel_values), 1)), norm)  # (B, D, side, side)
        size = int(x.shape[2]), int(x.shape[3])
        if size[0] * size[1] < count:
            raise InputError(f"a picture of {high} x {wide} has {size[0] * size[1]:,} places, {count:,} are needed")
        numbers = ops.arange(count, dtype="int32", device=x.device)
        queries, steps = (table(numbers).unsqueeze(0) for table in (self.query_feat, self.refpoint_embed))
        x, boxes = self.transformer(as_sequence(x), [size], queries, steps)
        return self.class_embed(x), refined(boxes, self.bbox_embed(x))


TASKS: Mapping[str, Callable[[Config], Module]] = {"object-detection": RfDetr}
