"""DAB-DETR (Liu et al. 2022, arXiv 2201.12329): Conditional DETR whose queries are boxes, which each layer moves, and
whose sizes say how far a query looks.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Conv2d, Embedding, LayerNorm, Linear, Module, ModuleList, PReLU
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.vision.detection import (
    Backbone,
    Detector,
    PlacesLayer,
    PredictionHead,
    attend_beside,
    attend_in_heads,
    from_timm,
    moved,
    sines_of_numbers,
    sines_of_places,
)
from pyapp.nn.vision.vision import as_sequence, check_pictures

from .loading.config import require
from .loading.pictures_config import DetectorConfig

MODEL_TYPES = ("dab-detr",)
IMAGE_PROCESSOR = "ConditionalDetr"  # of files that name none
BASE = "model"  # the name of all but the heads in files
PATTERNS = 64  # at most
TRAINED = "prelu"  # the activation that has a weight
renamed = from_timm


@dataclass(frozen=True, kw_only=True)
class Config(DetectorConfig):
    """The hyper-parameters, by the names of config.json; d_model is its hidden_size."""

    model_type = MODEL_TYPES[0]

    num_queries: int = 300
    activation_function: str = TRAINED
    temperature_height: int = 20
    temperature_width: int = 20
    keep_query_pos: bool = False
    num_patterns: int = 0
    normalize_before: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.num_patterns <= PATTERNS, f"num_patterns is {self.num_patterns:,}, expected at most {PATTERNS}")
        same = self.temperature_height == self.temperature_width
        require(same, f"temperature_width is {self.temperature_width}, temperature_height {self.temperature_height}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored. ModelError for what is not supported."""
        for name, wanted in (("query_dim", 4), ("sine_position_embedding_scale", None)):
            given = values.get(name, wanted)
            require(given in (None, wanted), f"DAB-DETR with {name} {given!r:.60} is not supported")
        width = values.get("hidden_size")
        return super().from_dict({**values, "d_model": 256 if width is None else width})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        own = super().to_dict()
        return own | {"hidden_size": own.pop("d_model")}


def _activation(name: str) -> Any:
    return PReLU() if name == TRAINED else activation_named(name)


class EncoderLayer(PlacesLayer):
    """As PlacesLayer, with an activation that may be trained."""

    def __init__(self, config: Config) -> None:
        super().__init__(config.d_model, config.encoder_attention_heads, config.encoder_ffn_dim, "relu")
        self.activation_fn = _activation(config.activation_function)

    def feed_forward(self, x: Tensor, residual: Tensor) -> Tensor:
        return self.fc2(self.activation_fn(self.fc1(x)), residual)


class Encoder(Module):
    """The layers; how much the positions count depends on what is at a place."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.d_model
        self.query_scale = PredictionHead(width, width, width, 2)
        self.layers = ModuleList(EncoderLayer(config) for _ in range(config.encoder_layers))
        self.norm = LayerNorm(width) if config.normalize_before else None

    def forward(self, x: Tensor, places: Tensor) -> Tensor:
        """x (B, S, D) at places (1, S, D) → (B, S, D)."""
        for layer in self.layers:
            x = layer(x, places * self.query_scale(x))
        return x if self.norm is None else self.norm(x)


class OwnAttention(Module):
    """Attention of queries to each other, with a residual and a norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, self.heads = config.d_model, config.decoder_attention_heads
        for part in ("query_content", "query_pos", "key_content", "key_pos", "value"):
            self.add_module(f"self_attn_{part}_proj", Linear(width, width))
        self.self_attn = Module()
        self.self_attn.output_proj = Linear(width, width)
        self.self_attn_layer_norm = LayerNorm(width)

    def forward(self, x: Tensor, queries: Tensor) -> Tensor:
        """x and queries (B, Q, D) → (B, Q, D)."""
        q = self.self_attn_query_content_proj(x) + self.self_attn_query_pos_proj(queries)
        k = self.self_attn_key_content_proj(x) + self.self_attn_key_pos_proj(queries)
        own = attend_in_heads(self.heads, q, k, self.self_attn_value_proj(x))
        return self.self_attn_layer_norm(x + self.self_attn.output_proj(own))


class CrossAttention(Module):
    """Attention of queries to the places, with a residual and a norm. `adds`: positions are added to the contents,
    too.
    """

    def __init__(self, config: Config, adds: bool) -> None:
        super().__init__()
        width, self.heads, self.adds = config.d_model, config.decoder_attention_heads, adds
        for part in (
            "query_content", *["query_pos"] * adds, "query_pos_sine", "key_content", "key_pos", "value",
        ):  # fmt: skip
            self.add_module(f"cross_attn_{part}_proj", Linear(width, width))
        self.cross_attn = Module()
        self.cross_attn.output_proj = Linear(width, width)
        self.cross_attn_layer_norm = LayerNorm(width)

    def forward(self, x: Tensor, queries: Tensor, source: Tensor, places: Tensor, around: Tensor) -> Tensor:
        """x and queries (B, Q, D), source (B, S, D) at places (1, S, D), the positions around which a query looks (B,
        Q, D) → (B, Q, D).
        """
        at = self.cross_attn_key_pos_proj(places)  # (1, S, D)
        q, k = self.cross_attn_query_content_proj(x), self.cross_attn_key_content_proj(source)
        if self.adds:
            q, k = q + self.cross_attn_query_pos_proj(queries), k + at
        near = self.cross_attn_query_pos_sine_proj(around)
        found = attend_beside(self.heads, q, near, k, at, self.cross_attn_value_proj(source))
        return self.cross_attn_layer_norm(x + self.cross_attn.output_proj(found))


class FeedForward(Module):
    """A feed-forward part, with a residual and a norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, inner = config.d_model, config.decoder_ffn_dim
        self.fc1, self.fc2, self.final_layer_norm = Linear(width, inner), Linear(inner, width), LayerNorm(width)
        self.activation_fn = _activation(config.activation_function)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, Q, D) → (B, Q, D)."""
        return self.final_layer_norm(x + self.fc2(self.activation_fn(self.fc1(x))))


class DecoderLayer(Module):
    """Queries attend to each other, then to the places; a feed-forward part."""

    def __init__(self, config: Config, first: bool) -> None:
        super().__init__()
        self.self_attn = OwnAttention(config)
        self.cross_attn = CrossAttention(config, first or config.keep_query_pos)
        self.mlp = FeedForward(config)

    def forward(self, x: Tensor, queries: Tensor, source: Tensor, places: Tensor, around: Tensor) -> Tensor:
        """As CrossAttention."""
        return self.mlp(self.cross_attn(self.self_attn(x, queries), queries, source, places, around))


class Decoder(Module):
    """The layers, which move the boxes by `bbox_embed`, the detector's head, and the norm after them."""

    bbox_embed: Module

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.d_model
        self.layers = ModuleList(DecoderLayer(config, i == 0) for i in range(config.decoder_layers))
        self.layernorm = LayerNorm(width)
        self.query_scale = PredictionHead(width, width, width, 2)
        self.ref_point_head = PredictionHead(2 * width, width, width, 2)
        self.ref_anchor_head = PredictionHead(width, width, 2, 2)

    def forward(self, x: Tensor, boxes: Tensor, source: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
        """x (B, Q, D) with boxes (B, Q, 4), source (B, S, D) at places (1, S, D) → what the queries have found (B, Q,
        D), and their boxes before the last layer.
        """
        half = x.shape[2] // 2
        for i, layer in enumerate(self.layers):
            own = boxes.detach() if i else boxes
            waves = sines_of_numbers(own[..., [1, 0, 2, 3]], half)  # (B, Q, 4, D / 2)
            queries = self.ref_point_head(waves.flatten(2))  # (B, Q, D)
            # The larger a box is beside what its query expects, the less do distances count along that side.
            scales = ops.sigmoid(self.ref_anchor_head(x))[..., [1, 0]] / own[..., [3, 2]]  # (B, Q, 2): of rows, columns
            around = waves.narrow(2, 0, 2) * scales.unsqueeze(3)
            around = around.flatten(2) * self.query_scale(x) if i else around.flatten(2)  # (B, Q, D)
            x = layer(x, queries, source, places, around)
            if i + 1 < len(self.layers):
                boxes = moved(own, self.bbox_embed(x))
        return self.layernorm(x), boxes


class Transformer(Module):
    """All but the output."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, width = config, config.d_model
        self.backbone = Backbone(config.backbone)
        self.query_refpoint_embeddings = Embedding(config.num_queries, 4)
        self.input_projection = Conv2d(config.backbone.hidden_sizes[-1], width, 1)
        self.encoder, self.decoder = Encoder(config), Decoder(config)
        self.patterns = Embedding(config.num_patterns, width) if config.num_patterns else None

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, Tensor]:
        """pixel_values (B, 3, H, W) → as Decoder."""
        x = self.input_projection(self.backbone(pixel_values))  # (B, D, rows, columns)
        slowest, width = float(self.config.temperature_height), int(x.shape[1])
        places = sines_of_places(int(x.shape[2]), int(x.shape[3]), width, x.device, slowest)
        source = self.encoder(as_sequence(x), places)
        numbers = ops.arange(self.config.num_queries, dtype="int32", device=x.device)
        boxes = ops.sigmoid(self.query_refpoint_embeddings(numbers))  # (Q, 4)
        queries = ops.zeros(len(numbers), width, device=x.device)  # (Q, D)
        if self.patterns is not None:  # each box has a query of each pattern
            kinds = ops.arange(self.config.num_patterns, dtype="int32", device=x.device)
            queries = self.patterns(kinds).unsqueeze(1).expand(len(kinds), len(numbers), width).reshape(-1, width)
            boxes = boxes.repeat(len(kinds), 1)
        batch = x.shape[0]
        queries, boxes = (part.unsqueeze(0).expand(batch, *part.shape) for part in (queries, boxes))
        return self.decoder(queries, boxes, source, places)


class DabDetrForObjectDetection(Detector):
    """Labels and boxes of the objects in pictures of any size."""

    background = False

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config, width = config, config.d_model
        self.model = Transformer(config)
        self.class_embed = Linear(width, len(config.labels))
        self.bbox_predictor = PredictionHead(width, width, 4)
        self.model.decoder.bbox_embed = self.bbox_predictor

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, Tensor]:
        check_pictures("DAB-DETR", pixel_values, self.config.num_channels)
        x, boxes = self.model(pixel_values)
        return self.class_embed(x), moved(boxes, self.bbox_predictor(x))


TASKS: Mapping[str, Callable[[Config], Module]] = {"object-detection": DabDetrForObjectDetection}
