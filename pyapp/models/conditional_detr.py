"""Conditional DETR (Meng et al. 2021, arXiv 2108.06152): DETR whose queries have a place each, which they look around:
in the attention to the places of a picture, contents and positions stand beside each other.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm, Linear, Module, ModuleList
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.vision.detection import (
    Detector,
    PlacesAndQueries,
    PredictionHead,
    attend_beside,
    attend_in_heads,
    from_timm,
    moved,
    sines_of_numbers,
)
from pyapp.nn.vision.vision import check_pictures

from .loading.config import require
from .loading.pictures_config import DetectorConfig

MODEL_TYPES = ("conditional_detr",)
IMAGE_PROCESSOR = "ConditionalDetr"  # of files that name none
BASE = "model"  # the name of all but the heads in files
renamed = from_timm


@dataclass(frozen=True, kw_only=True)
class Config(DetectorConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    num_queries: int = 300

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        # With it transformers normalises the queries between layers, which no published model does.
        require(not values.get("auxiliary_loss"), "Conditional DETR with auxiliary_loss is not supported")
        return super().from_dict(values)


class DecoderLayer(Module):
    """Queries attend to each other, then to the places; a feed-forward part. A norm follows each residual. In the
    `first` layer the positions of queries and places are added to their contents, too.
    """

    def __init__(self, config: Config, first: bool) -> None:
        super().__init__()
        width = config.d_model
        self.heads, self.first = config.decoder_attention_heads, first
        for part in ("qcontent", "qpos", "kcontent", "kpos", "v"):
            self.add_module(f"sa_{part}_proj", Linear(width, width))
        for part in ("qcontent", *["qpos"] * first, "qpos_sine", "kcontent", "kpos", "v"):
            self.add_module(f"ca_{part}_proj", Linear(width, width))
        self.self_attn, self.encoder_attn = Module(), Module()
        self.self_attn.out_proj, self.encoder_attn.out_proj = Linear(width, width), Linear(width, width)
        self.self_attn_layer_norm, self.encoder_attn_layer_norm = LayerNorm(width), LayerNorm(width)
        self.fc1, self.fc2 = Linear(width, config.decoder_ffn_dim), Linear(config.decoder_ffn_dim, width)
        self.final_layer_norm = LayerNorm(width)
        self.activation = activation_named(config.activation_function)

    def look(self, x: Tensor, queries: Tensor, source: Tensor, places: Tensor, around: Tensor) -> Tensor:
        """x (B, Q, D) of queries (1, Q, D) that look around places of their own, around (B or 1, Q, D); source (B, S,
        D) at places (1, S, D) → (B, Q, D).
        """
        at = self.ca_kpos_proj(places)  # (1, S, D)
        q, k = self.ca_qcontent_proj(x), self.ca_kcontent_proj(source)
        if self.first:
            q, k = q + self.ca_qpos_proj(queries), k + at
        near = self.ca_qpos_sine_proj(around)
        found: Tensor = self.encoder_attn.out_proj(attend_beside(self.heads, q, near, k, at, self.ca_v_proj(source)))
        return found

    def forward(self, x: Tensor, queries: Tensor, source: Tensor, places: Tensor, around: Tensor) -> Tensor:
        """As look, of the whole layer."""
        q = self.sa_qcontent_proj(x) + self.sa_qpos_proj(queries)
        k = self.sa_kcontent_proj(x) + self.sa_kpos_proj(queries)
        own = attend_in_heads(self.heads, q, k, self.sa_v_proj(x))
        x = self.self_attn_layer_norm(x + self.self_attn.out_proj(own))
        x = self.encoder_attn_layer_norm(x + self.look(x, queries, source, places, around))
        return self.final_layer_norm(x + self.fc2(self.activation(self.fc1(x))))


class Decoder(Module):
    """The layers and the norm after them."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.d_model
        self.layers = ModuleList(DecoderLayer(config, i == 0) for i in range(config.decoder_layers))
        self.layernorm = LayerNorm(width)
        self.query_scale = PredictionHead(width, width, width, 2)
        self.ref_point_head = PredictionHead(width, width, 2, 2)

    def forward(self, queries: Tensor, source: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """queries (1, Q, D), source (B, S, D) at places (1, S, D) → what they have found (B, Q, D), and their own
        places (1, Q, 2).
        """
        centres = ops.sigmoid(self.ref_point_head(queries))  # (1, Q, 2)
        waves = sines_of_numbers(centres[..., [1, 0]], queries.shape[2] // 2).flatten(2)  # (1, Q, D)
        x = ops.zeros(source.shape[0], queries.shape[1], queries.shape[2], device=queries.device)
        for i, layer in enumerate(self.layers):
            x = layer(x, queries, source, places, waves * self.query_scale(x) if i else waves)
        return self.layernorm(x), centres


class ConditionalDetrForObjectDetection(Detector):
    """Labels and boxes of the objects in pictures of any size."""

    background = False

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.model = PlacesAndQueries(config, False, Decoder(config))
        self.class_labels_classifier = Linear(config.d_model, len(config.labels))
        self.bbox_predictor = PredictionHead(config.d_model, config.d_model, 4)

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, Tensor]:
        check_pictures("Conditional DETR", pixel_values, self.config.num_channels)
        x, centres = self.model(pixel_values)
        return self.class_labels_classifier(x), moved(centres, self.bbox_predictor(x))


TASKS: Mapping[str, Callable[[Config], Module]] = {"object-detection": ConditionalDetrForObjectDetection}
