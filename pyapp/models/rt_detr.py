"""RT-DETR (Zhao et al. 2023, arXiv 2304.08069): a detector whose queries are the most promising places of three maps,
and whose decoder looks at a few points of each map around a query's box. Also RT-DETR v2 (Lv et al. 2024, arXiv
2407.17140), whose points may be whole places.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import LayerNorm, Linear, Module, ModuleList
from pyapp.nn.vision.detection import Detector, PointAttention, PredictionHead, moved
from pyapp.nn.vision.real_time_detection import Filter, HybridEncoder, LookingLayer, PartialPairs, Promising
from pyapp.nn.vision.residual import DeepEmbeddings, ResidualStages
from pyapp.nn.vision.vision import check_pictures

from .loading.config import require
from .loading.pictures_config import METHODS, RealTimeDetectorConfig, ResidualConfig

MODEL_TYPES = ("rt_detr", "rt_detr_v2")
IMAGE_PROCESSOR = "RTDetr"  # of files that name none
BASE = "model"  # the name of all but the heads in files
# Of the training; the decoder's own; computed.
IGNORED = r"(model\.)?denoising_class_embed\.weight|(class_embed|bbox_embed)\..*|.*\.encoder_attn\.n_points_scale"
BLOCKS = 3  # filters of a joint


@dataclass(frozen=True, kw_only=True)
class Backbone(ResidualConfig):
    """The ResNet that the detector sees by."""

    model_type = "rt_detr_resnet"
    pooled_shortcuts = True


@dataclass(frozen=True, kw_only=True)
class Config(RealTimeDetectorConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    decoder_n_points: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.decoder_n_points <= 64, f"decoder_n_points is {self.decoder_n_points:,}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored. ModelError for what is not supported."""
        if values.get("model_type") == NewerConfig.model_type:
            return NewerConfig.read(values, Backbone, ("num_feature_levels", "decoder_n_levels"))
        usual = {"decoder_offset_scale": None, "decoder_method": None}  # which only the newer one has
        return cls.read({**values, **usual}, Backbone, ("num_feature_levels",))

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return super().to_dict() | {"decoder_n_levels": len(self.stages)}


class NewerConfig(Config):
    """As Config, of RT-DETR v2."""

    model_type = MODEL_TYPES[1]


class DecoderLayer(LookingLayer):
    """A layer of the decoder."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        width, levels, points = config.d_model, len(config.stages), config.decoder_n_points
        nearest = config.decoder_method == METHODS[1]
        self.encoder_attn = PointAttention(width, config.decoder_attention_heads, levels, points, nearest)
        self.scale = config.decoder_offset_scale
        self.encoder_attn_layer_norm = LayerNorm(width, config.layer_norm_eps)

    def look(self, x: Tensor, places: Tensor, boxes: Tensor, source: Tensor, sizes: list[tuple[int, int]]) -> Tensor:
        read = self.encoder_attn.in_boxes(x + places, boxes, source, sizes, self.scale)
        return self.encoder_attn_layer_norm(x + read)


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


def transformer(config: Config) -> Promising:
    """All but the output."""
    width, kind = config.encoder_hidden_dim, config.activation_function
    joint = partial(PartialPairs, config, 2 * width, int(width * config.hidden_expansion), width, BLOCKS)
    encoder = HybridEncoder(config, joint, partial(Filter, config, width, width, 3, 2, kind), kind)
    seen = config.backbone
    return Promising(config, DeepEmbeddings(seen), ResidualStages(seen), seen.hidden_sizes, encoder, Decoder(config))


class RTDetrForObjectDetection(Detector):
    """Labels and boxes of the objects in pictures whose sides are multiples of 32 pixels."""

    background = False

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.model = transformer(config)

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, Tensor]:
        check_pictures("RT-DETR", pixel_values, self.config.num_channels)
        return self.model(pixel_values)


TASKS: Mapping[str, Callable[[Config], Module]] = {"object-detection": RTDetrForObjectDetection}
