"""Deformable DETR (Zhu et al. 2020, arXiv 2010.04159): DETR over several maps, whose places and queries attend to a few
points of each. Queries are learned, or those of the most promising places (`two_stage`); layers may move the boxes of
the ones before (`with_box_refine`).

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import InputError
from pyapp.nn import Embedding, LayerNorm, Linear, Module, ModuleList
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.detection import (
    Backbone,
    Detector,
    PointAttention,
    PointsLayer,
    PositionedAttention,
    PredictionHead,
    boxes_of_places,
    centres_of_places,
    from_timm,
    maps_in_one_width,
    moved,
    projected,
    sines_of_numbers,
    sines_of_places,
)
from pyapp.nn.vision.vision import as_sequence, check_pictures

from .loading.config import require
from .loading.pictures_config import DetectorConfig, check_numbers, stages_of

MODEL_TYPES = ("deformable_detr",)
IMAGE_PROCESSOR = "DeformableDetr"  # of files that name none
BASE = "model"  # the name of all but the heads in files
GROUPS = 32  # of norms
LEVELS, POINTS, QUERIES = 16, 64, 1 << 14  # at most
renamed = from_timm


def adapted(settings: Mapping[str, Any], names: Mapping[str, Any]) -> Mapping[str, Any]:
    """The configuration of a file with these tensors, which may have one head for the labels of all layers."""
    several = any(f"{before}class_embed.1.weight" in names for before in ("", "model.decoder."))
    return {**settings, "class_embed_share": not several}


@dataclass(frozen=True, kw_only=True)
class Config(DetectorConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    stages: tuple[int, ...]  # of the backbone, whose maps are read
    num_queries: int = 300
    encoder_ffn_dim: int = 1024
    decoder_ffn_dim: int = 1024
    num_feature_levels: int = 4
    encoder_n_points: int = 4
    decoder_n_points: int = 4
    two_stage: bool = False
    two_stage_num_proposals: int = 300
    with_box_refine: bool = False
    class_embed_share: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.d_model % GROUPS == 0, f"d_model is {self.d_model:,}, expected a multiple of {GROUPS}")
        check_numbers("encoder_n_points and decoder_n_points", (self.encoder_n_points, self.decoder_n_points), POINTS)
        check_numbers("two_stage_num_proposals", [self.two_stage_num_proposals], QUERIES)
        fits = len(self.stages) <= self.num_feature_levels <= LEVELS
        require(fits, f"num_feature_levels is {self.num_feature_levels:,}, the backbone has {len(self.stages)} maps")
        require(self.with_box_refine or not self.two_stage, "two_stage without with_box_refine is not supported")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        own = values.get("backbone_config")
        own = own if isinstance(own, dict) else {}
        depths = own.get("depths")
        count = len(depths) if isinstance(depths, list | tuple) else 4
        usual = (count - 1,) if values.get("num_feature_levels") == 1 else tuple(range(1, count))
        return super().from_dict({**values, "stages": stages_of(own, count, usual)})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        own = super().to_dict()
        own["backbone_config"] |= {"out_features": [f"stage{i + 1}" for i in own.pop("stages")]}
        return own


class DecoderLayer(Module):
    """Queries attend to each other, then to points of the maps; a feed-forward part. A norm follows each residual."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, heads = config.d_model, config.decoder_attention_heads
        self.self_attn = PositionedAttention(width, heads)
        self.self_attn_layer_norm = LayerNorm(width)
        self.encoder_attn = PointAttention(width, heads, config.num_feature_levels, config.decoder_n_points)
        self.encoder_attn_layer_norm = LayerNorm(width)
        self.fc1, self.fc2 = Linear(width, config.decoder_ffn_dim), Linear(config.decoder_ffn_dim, width)
        self.final_layer_norm = LayerNorm(width)
        self.activation = activation_named(config.activation_function)

    def forward(self, x: Tensor, places: Tensor, boxes: Tensor, source: Tensor, sizes: list[tuple[int, int]]) -> Tensor:
        """x (B, Q, D) at places (B, Q, D) with boxes (B, Q, 4), or their centres (B, Q, 2), source (B, S, D) of maps of
        `sizes` → (B, Q, D).
        """
        x = self.self_attn_layer_norm(self.self_attn(x, places, x))
        read = self.encoder_attn.around if boxes.shape[2] == 2 else self.encoder_attn.in_boxes
        x = self.encoder_attn_layer_norm(x + read(x + places, boxes, source, sizes))
        return self.final_layer_norm(x + self.fc2(self.activation(self.fc1(x))))


class Transformer(Module):
    """All but the output."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, width, levels = config, config.d_model, config.num_feature_levels
        self.backbone = Backbone(config.backbone)
        widths = [config.backbone.hidden_sizes[stage] for stage in config.stages]
        self.input_proj = maps_in_one_width(widths, width, levels)
        self.level_embed = new_parameter(ops.zeros, levels, width)
        self.encoder = Module()
        self.encoder.layers = ModuleList(
            PointsLayer(
                width, config.encoder_attention_heads, levels, config.encoder_n_points, config.encoder_ffn_dim,
                config.activation_function,
            )
            for _ in range(config.encoder_layers)
        )  # fmt: skip
        self.decoder = Module()
        self.decoder.layers = ModuleList(DecoderLayer(config) for _ in range(config.decoder_layers))
        if config.two_stage:
            self.enc_output, self.enc_output_norm = Linear(width, width), LayerNorm(width)
            self.pos_trans, self.pos_trans_norm = Linear(2 * width, 2 * width), LayerNorm(2 * width)
        else:
            self.query_position_embeddings = Embedding(config.num_queries, 2 * width)
            self.reference_points = Linear(width, 2)

    def encode(self, pixel_values: Tensor) -> tuple[Tensor, list[tuple[int, int]]]:
        """pixel_values (B, 3, H, W) → the places (B, S, D) of all maps, and the maps' sizes."""
        seen, width, device = self.backbone.maps(pixel_values), self.config.d_model, pixel_values.device
        maps = projected(self.input_proj, [seen[stage] for stage in self.config.stages])
        sizes = [(int(x.shape[2]), int(x.shape[3])) for x in maps]
        waves = ops.cat(
            [sines_of_places(*size, width, device, first=0.5) + self.level_embed[i] for i, size in enumerate(sizes)], 1
        )  # (1, S, D)
        x, centres = ops.cat([as_sequence(part) for part in maps], 1), centres_of_places(sizes, device)
        for layer in self.encoder.layers:
            x = layer(x, waves, centres, sizes)
        return x, sizes

    def promising(self, source: Tensor, sizes: list[tuple[int, int]], labels: Module, head: Module) -> Tensor:
        """The boxes (B, Q, 4) of the places of source (B, S, D) that the heads find the most promising."""
        logits, inside = boxes_of_places(sizes, source.device)
        x = self.enc_output_norm(self.enc_output(source * inside.to(source.dtype)))
        best = ops.topk(labels(x)[..., 0], self.config.two_stage_num_proposals, 1)[1].unsqueeze(2)  # (B, Q, 1)
        found = ops.gather(head(x) + logits, 1, best.expand(*best.shape[:2], 4))
        return ops.sigmoid(found).detach()

    def forward(self, pixel_values: Tensor, labels: ModuleList, heads: ModuleList) -> tuple[Tensor, Tensor]:
        """pixel_values (B, 3, H, W), the heads of labels and boxes → what the queries have found (B, Q, D), and their
        boxes (B, Q, 4) or the centres of those (B, Q, 2), before the last layer.
        """
        config, device = self.config, pixel_values.device
        source, sizes = self.encode(pixel_values)
        if config.two_stage:
            if source.shape[1] < config.two_stage_num_proposals:
                needed = f"{source.shape[1]:,} places, {config.two_stage_num_proposals:,} are needed"
                raise InputError(f"a picture of {describe(pixel_values)} has {needed}: make it larger")
            boxes = self.promising(source, sizes, labels[-1], heads[-1])
            waves = sines_of_numbers(boxes, config.d_model // 2).flatten(2)  # (B, Q, 2 * D)
            places, x = ops.chunk(self.pos_trans_norm(self.pos_trans(waves)), 2, 2)
        else:
            numbers = ops.arange(config.num_queries, dtype="int32", device=device)
            queries = self.query_position_embeddings(numbers).unsqueeze(0)  # (1, Q, 2 * D)
            places, x = ops.chunk(queries.expand(source.shape[0], *queries.shape[1:]), 2, 2)
            boxes = ops.sigmoid(self.reference_points(places))
        for i, layer in enumerate(self.decoder.layers):
            if i and config.with_box_refine:
                boxes = moved(boxes, heads[i - 1](x)).detach()
            x = layer(x, places, boxes, source, sizes)
        return x, boxes


class DeformableDetrForObjectDetection(Detector):
    """Labels and boxes of the objects in pictures of any size."""

    background = False

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, width = config, config.d_model
        self.model = Transformer(config)
        count = config.decoder_layers + config.two_stage
        several, one = count if config.with_box_refine else 1, config.class_embed_share or not config.with_box_refine
        heads = [PredictionHead(width, width, 4) for _ in range(several)]
        labels = [Linear(width, len(config.labels)) for _ in range(1 if one else count)]
        self.bbox_embed = ModuleList(heads * (count // len(heads)))
        self.class_embed = ModuleList(labels * (count // len(labels)))
        if config.with_box_refine:  # by the names that files have for them then
            self.model.decoder.bbox_embed = self.bbox_embed
        if config.two_stage:
            self.model.decoder.class_embed = self.class_embed

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, Tensor]:
        check_pictures("Deformable DETR", pixel_values, self.config.num_channels)
        x, boxes = self.model(pixel_values, self.class_embed, self.bbox_embed)
        last = self.config.decoder_layers - 1
        return self.class_embed[last](x), moved(boxes, self.bbox_embed[last](x))


TASKS: Mapping[str, Callable[[Config], Module]] = {"object-detection": DeformableDetrForObjectDetection}
