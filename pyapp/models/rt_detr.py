"""RT-DETR (Zhao et al. 2023, arXiv 2304.08069): a detector whose queries are the most promising places of three maps,
and whose decoder looks at a few points of each map around a query's box. Also RT-DETR v2 (Lv et al. 2024, arXiv
2407.17140), whose points may be whole places.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Device, Tensor, ops
from pyapp.engine.lazy import np
from pyapp.nn import BatchNorm2d, Conv2d, LayerNorm, Linear, Module, ModuleList, Sequential
from pyapp.nn.detection import (
    Detector,
    PlacesLayer,
    PointAttention,
    PositionedAttention,
    PredictionHead,
    boxes_of_places,
    moved,
)
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.residual import DeepEmbeddings, ResidualStages
from pyapp.nn.vision import as_map, as_sequence, check_pictures, freeze_norms

from .loading.config import check_depth, require
from .loading.pictures_config import WIDEST, PictureConfig, ResidualConfig, check_numbers, stages_of

MODEL_TYPES = ("rt_detr", "rt_detr_v2")
IMAGE_PROCESSOR = "RTDetr"  # of files that name none
BASE = "model"  # the name of all but the heads in files
# Of the training; the decoder's own; computed.
IGNORED = r"(model\.)?denoising_class_embed\.weight|(class_embed|bbox_embed)\..*|.*\.encoder_attn\.n_points_scale"
METHODS = ("default", "discrete")
BLOCKS = 3  # filters of a joint


@dataclass(frozen=True, kw_only=True)
class Backbone(ResidualConfig):
    """The ResNet that the detector sees by."""

    model_type = "rt_detr_resnet"
    pooled_shortcuts = True


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    backbone: Backbone
    stages: tuple[int, ...]  # of the backbone, whose maps are read
    batch_norm_eps: float = 1e-5
    layer_norm_eps: float = 1e-5
    encoder_hidden_dim: int = 256
    encoder_layers: int = 1
    encoder_ffn_dim: int = 1024
    encoder_attention_heads: int = 8
    encode_proj_layers: tuple[int, ...] = (2,)
    positional_encoding_temperature: int = 10000
    encoder_activation_function: str = "gelu"
    activation_function: str = "silu"
    hidden_expansion: float = 1.0
    d_model: int = 256
    num_queries: int = 300
    decoder_ffn_dim: int = 1024
    decoder_n_points: int = 4
    decoder_layers: int = 6
    decoder_attention_heads: int = 8
    decoder_activation_function: str = "relu"
    decoder_offset_scale: float = 0.5
    decoder_method: str = METHODS[0]

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.decoder_method in METHODS, f"decoder_method is {self.decoder_method!r:.60}")
        require(0 < self.decoder_offset_scale <= 64, f"decoder_offset_scale is {self.decoder_offset_scale}")
        for name, width in (("encoder_hidden_dim", self.encoder_hidden_dim), ("d_model", self.d_model)):
            require(width <= WIDEST and width % 4 == 0, f"{name} is {width:,}, expected a multiple of 4")
        for heads, width in (
            (self.encoder_attention_heads, self.encoder_hidden_dim), (self.decoder_attention_heads, self.d_model),
        ):  # fmt: skip
            require(width % heads == 0, f"{heads} heads do not divide the width {width}")
        check_numbers("encode_proj_layers", self.encode_proj_layers, len(self.stages) - 1, least=0)
        check_depth(max(self.encoder_layers, self.decoder_layers))
        require(self.num_queries <= 1 << 14, f"{self.num_queries:,} queries are too many")
        require(self.decoder_n_points <= 64, f"decoder_n_points is {self.decoder_n_points:,}")
        require(0 < self.hidden_expansion <= 16, f"hidden_expansion is {self.hidden_expansion}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored. ModelError for what is not supported."""
        own = values.get("backbone_config") or {}
        require(isinstance(own, dict), f"backbone_config is {own!r:.60}, expected an object")
        kind = own.get("model_type", "rt_detr_resnet")
        require(kind == "rt_detr_resnet", f"the backbone {kind!r:.60} is not known", "Known: rt_detr_resnet")
        backbone = Backbone.from_dict(own)
        stages = stages_of(own, len(backbone.depths), (1, 2, 3))
        for name, wanted in (("normalize_before", False), ("learn_initial_query", False), ("eval_size", None)):
            given = values.get(name, wanted)
            require(given in (None, wanted), f"RT-DETR with {name} {given!r:.60} is not supported")
        newer = values.get("model_type") == NewerConfig.model_type
        for name in ("num_feature_levels", "decoder_n_levels")[: 1 + newer]:
            levels = values.get(name, len(stages))
            require(levels == len(stages), f"{name} is {levels!r:.60}, the backbone has {len(stages)} maps")
        usual = {} if newer else {"decoder_offset_scale": None, "decoder_method": None}  # which only the newer one has
        found = {**values, "backbone": backbone, "stages": stages, **usual}
        return super(Config, NewerConfig if newer else cls).from_dict(found)

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        own = super().to_dict()
        del own["backbone"], own["stages"]
        names = [f"stage{i + 1}" for i in self.stages]
        backbone = self.backbone.to_dict() | {"out_features": names}
        levels = {"num_feature_levels": len(names), "decoder_n_levels": len(names)}
        return own | {"backbone_config": backbone} | levels


class NewerConfig(Config):
    """As Config, of RT-DETR v2."""

    model_type = MODEL_TYPES[1]


class Filter(Module):
    """A filter, the norm of batches, an activation."""

    def __init__(
        self, config: Config, before: int, width: int, kernel: int, stride: int, activation: str | None
    ) -> None:
        super().__init__()
        self.conv = Conv2d(before, width, kernel, stride, (kernel - 1) // 2, bias=False)
        self.norm = BatchNorm2d(width, config.batch_norm_eps)
        self.activation = None if activation is None else activation_named(activation)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, width, H / stride, W / stride), rounded up."""
        x = self.norm(self.conv(x))
        return x if self.activation is None else self.activation(x)


class Pair(Module):
    """The activation of the sum of a filter of 3 x 3 and one of 1 x 1 (RepVGG, Ding et al. 2021, arXiv 2101.03697)."""

    def __init__(self, config: Config, width: int) -> None:
        super().__init__()
        self.conv1 = Filter(config, width, width, 3, 1, None)
        self.conv2 = Filter(config, width, width, 1, 1, None)
        self.activation = activation_named(config.activation_function)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        return self.activation(self.conv1(x) + self.conv2(x))


class Joint(Module):
    """Two maps that lie on each other become one."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, kind = config.encoder_hidden_dim, config.activation_function
        inner = int(width * config.hidden_expansion)
        self.conv1 = Filter(config, 2 * width, inner, 1, 1, kind)
        self.conv2 = Filter(config, 2 * width, inner, 1, 1, kind)
        self.bottlenecks = Sequential(*(Pair(config, inner) for _ in range(BLOCKS)))
        self.conv3 = Filter(config, inner, width, 1, 1, kind) if inner != width else None

    def forward(self, x: Tensor) -> Tensor:
        """x (B, 2 * C, H, W) → (B, C, H, W)."""
        x = self.bottlenecks(self.conv1(x)) + self.conv2(x)
        return x if self.conv3 is None else self.conv3(x)


def waves_of_places(rows: int, columns: int, width: int, slowest: float, device: Device) -> Tensor:
    """The positions of the places of a map (1, rows * columns, width): sines and cosines of the row, then those of the
    column.
    """
    speeds = slowest ** -(np.arange(width // 4) / (width // 4))
    row, column = np.divmod(np.arange(rows * columns), columns)
    down, along = row[:, None] * speeds, column[:, None] * speeds
    waves = np.concatenate([np.sin(down), np.cos(down), np.sin(along), np.cos(along)], 1)
    return ops.tensor(waves.astype("float32"), device=device).unsqueeze(0)


class PlacesOfMap(Module):
    """Layers in which the places of one map attend to each other."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.slowest = config.positional_encoding_temperature
        self.layers = ModuleList(
            PlacesLayer(
                config.encoder_hidden_dim, config.encoder_attention_heads, config.encoder_ffn_dim,
                config.encoder_activation_function, epsilon=config.layer_norm_eps,
            )
            for _ in range(config.encoder_layers)
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, H, W) → (B, C, H, W)."""
        rows, columns = int(x.shape[2]), int(x.shape[3])
        places = waves_of_places(rows, columns, int(x.shape[1]), self.slowest, x.device)
        x = as_sequence(x)
        for layer in self.layers:
            x = layer(x, places)
        return as_map(x, rows, columns)


class HybridEncoder(Module):
    """Attention within the coarsest map; then the maps are joined from coarse to fine, and from fine to coarse."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, kind, joints = config.encoder_hidden_dim, config.activation_function, len(config.stages) - 1
        self.numbers = config.encode_proj_layers if config.encoder_layers else ()
        self.encoder = ModuleList(PlacesOfMap(config) for _ in config.encode_proj_layers)
        self.lateral_convs = ModuleList(Filter(config, width, width, 1, 1, kind) for _ in range(joints))
        self.fpn_blocks = ModuleList(Joint(config) for _ in range(joints))
        self.downsample_convs = ModuleList(Filter(config, width, width, 3, 2, kind) for _ in range(joints))
        self.pan_blocks = ModuleList(Joint(config) for _ in range(joints))

    def forward(self, maps: list[Tensor]) -> list[Tensor]:
        """maps (B, C, H, W) each, the finest first → the same shapes."""
        maps = list(maps)
        for number, layers in zip(self.numbers, self.encoder, strict=False):
            maps[number] = layers(maps[number])
        found = [maps[-1]]
        for i, (lateral, joint) in enumerate(zip(self.lateral_convs, self.fpn_blocks, strict=True)):
            found[0] = lateral(found[0])
            finer = ops.interpolate(found[0], scale_factor=2.0, mode="nearest")
            found.insert(0, joint(ops.cat([finer, maps[-2 - i]], 1)))
        joined = found[:1]
        for i, (halve, joint) in enumerate(zip(self.downsample_convs, self.pan_blocks, strict=True)):
            joined.append(joint(ops.cat([halve(joined[-1]), found[i + 1]], 1)))
        return joined


class DecoderLayer(Module):
    """Queries attend to each other, then to points of the maps; a feed-forward part. A norm follows each residual."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.d_model
        self.self_attn = PositionedAttention(width, config.decoder_attention_heads)
        self.self_attn_layer_norm = LayerNorm(width, config.layer_norm_eps)
        levels, points = len(config.stages), config.decoder_n_points
        nearest = config.decoder_method == METHODS[1]
        self.encoder_attn = PointAttention(width, config.decoder_attention_heads, levels, points, nearest)
        self.scale = config.decoder_offset_scale
        self.encoder_attn_layer_norm = LayerNorm(width, config.layer_norm_eps)
        self.fc1 = Linear(width, config.decoder_ffn_dim)
        self.fc2 = Linear(config.decoder_ffn_dim, width)
        self.final_layer_norm = LayerNorm(width, config.layer_norm_eps)
        self.activation = activation_named(config.decoder_activation_function)

    def forward(self, x: Tensor, places: Tensor, boxes: Tensor, source: Tensor, sizes: list[tuple[int, int]]) -> Tensor:
        """x (B, Q, D) at places (B, Q, D) with boxes (B, Q, 4), source (B, S, D) of maps of `sizes` → (B, Q, D)."""
        x = self.self_attn_layer_norm(self.self_attn(x, places, x))
        x = self.encoder_attn_layer_norm(x + self.encoder_attn.in_boxes(x + places, boxes, source, sizes, self.scale))
        return self.final_layer_norm(x + self.fc2(self.activation(self.fc1(x))))


class Decoder(Module):
    """The layers; each moves the boxes."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, layers = config.d_model, config.decoder_layers
        self.layers = ModuleList(DecoderLayer(config) for _ in range(layers))
        self.query_pos_head = PredictionHead(4, 2 * width, width, 2)
        self.bbox_embed = ModuleList(PredictionHead(width, width, 4) for _ in range(layers))
        self.class_embed = ModuleList(Linear(width, len(config.labels)) for _ in range(layers))

    def forward(self, x: Tensor, boxes: Tensor, source: Tensor, sizes: list[tuple[int, int]]) -> tuple[Tensor, Tensor]:
        """x (B, Q, D) with boxes (B, Q, 4), source (B, S, D) of maps of `sizes` → the last layer's logits (B, Q,
        labels) and boxes (B, Q, 4).
        """
        for layer, head in zip(self.layers, self.bbox_embed, strict=True):
            boxes = boxes.detach()
            x = layer(x, self.query_pos_head(boxes), boxes, source, sizes)
            boxes = moved(boxes, head(x))
        return self.class_embed[len(self.layers) - 1](x), boxes


class Transformer(Module):
    """All but the output."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width, inner, seen = config.d_model, config.encoder_hidden_dim, config.backbone
        self.backbone = Module()
        self.backbone.model = Module()
        self.backbone.model.embedder = DeepEmbeddings(seen)
        self.backbone.model.encoder = ResidualStages(seen)
        freeze_norms(self.backbone)
        self.encoder_input_proj = ModuleList(
            Sequential(Conv2d(seen.hidden_sizes[stage], inner, 1, bias=False), BatchNorm2d(inner))
            for stage in config.stages
        )
        self.encoder = HybridEncoder(config)
        self.enc_output = Sequential(Linear(width, width), LayerNorm(width, config.layer_norm_eps))
        self.enc_score_head = Linear(width, len(config.labels))
        self.enc_bbox_head = PredictionHead(width, width, 4)
        self.decoder_input_proj = ModuleList(
            Sequential(Conv2d(inner, width, 1, bias=False), BatchNorm2d(width, config.batch_norm_eps))
            for _ in config.stages
        )
        self.decoder = Decoder(config)

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, Tensor]:
        """pixel_values (B, 3, H, W) → logits (B, Q, labels) and boxes (B, Q, 4)."""
        network = self.backbone.model
        maps = network.encoder.maps(network.embedder(pixel_values))
        maps = [layer(maps[stage]) for stage, layer in zip(self.config.stages, self.encoder_input_proj, strict=True)]
        maps = [layer(x) for layer, x in zip(self.decoder_input_proj, self.encoder(maps), strict=True)]
        sizes = [(int(x.shape[2]), int(x.shape[3])) for x in maps]
        source = ops.cat([as_sequence(x) for x in maps], 1)  # (B, S, D)
        boxes, inside = boxes_of_places(sizes, source.device)
        promising = self.enc_output(source * inside.to(source.dtype))
        scores = self.enc_score_head(promising).amax(2)  # (B, S)
        best = ops.topk(scores, self.config.num_queries, 1)[1].unsqueeze(2)  # (B, Q, 1)
        boxes = self.enc_bbox_head(promising) + boxes
        boxes = ops.gather(boxes, 1, best.expand(*best.shape[:2], 4))
        queries = ops.gather(promising, 1, best.expand(*best.shape[:2], promising.shape[2]))
        return self.decoder(queries.detach(), ops.sigmoid(boxes), source, sizes)


class RTDetrForObjectDetection(Detector):
    """Labels and boxes of the objects in pictures whose sides are multiples of 32 pixels."""

    background = False

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.model = Transformer(config)

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, Tensor]:
        check_pictures("RT-DETR", pixel_values, self.config.num_channels)
        return self.model(pixel_values)


TASKS: Mapping[str, Callable[[Config], Module]] = {"object-detection": RTDetrForObjectDetection}
