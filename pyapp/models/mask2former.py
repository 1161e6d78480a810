"""Mask2Former (Cheng et al. 2022, arXiv 2112.01527) over a Swin: queries, each with a label and a mask, attend to the
places within their masks; the labels of all queries whose masks hold a place make the place's.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Conv2d, Embedding, LayerNorm, Linear, Module, ModuleList, Sequential
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.vision.detection import PositionedAttention
from pyapp.nn.vision.masks import (
    GROUPS,
    LEVELS,
    STRIDES,
    MaskedAttention,
    MaskEmbedder,
    PixelLevel,
    as_sources,
    labels_of_places,
    shown_places,
)
from pyapp.nn.vision.vision import ImageModel, check_pictures

from .loading.config import require
from .loading.pictures_config import DEEPEST, WIDEST, PictureConfig, SwinBackbone, check_numbers

MODEL_TYPES = ("mask2former",)
IMAGE_PROCESSOR = "Mask2Former"  # of files that name none
BASE = ""
IGNORED = (
    r"criterion\..*|model\.pixel_level_module\.encoder\.(swin\.)?(layernorm\..*|embeddings\.mask_token)|"
    r".*relative_position_index"
)
QUERIES = 1 << 12


@dataclass(frozen=True, kw_only=True)
class Config(PictureConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    backbone_config: SwinBackbone
    feature_size: int = 256
    mask_feature_size: int = 256
    hidden_dim: int = 256
    encoder_feedforward_dim: int = 1024
    activation_function: str = "relu"
    encoder_layers: int = 6
    decoder_layers: int = 10
    num_attention_heads: int = 8
    dim_feedforward: int = 2048
    enforce_input_projection: bool = False
    num_queries: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        widths = self.feature_size, self.mask_feature_size, self.hidden_dim
        check_numbers("the widths", (*widths, self.encoder_feedforward_dim, self.dim_feedforward), WIDEST)
        check_numbers("encoder_layers and decoder_layers", (self.encoder_layers, self.decoder_layers), DEEPEST)
        check_numbers("num_queries", [self.num_queries], QUERIES)
        require(self.feature_size % GROUPS == 0, f"feature_size is {self.feature_size}, no multiple of {GROUPS}")
        for name in ("feature_size", "hidden_dim"):
            fits = getattr(self, name) % (2 * self.num_attention_heads) == 0
            require(fits, f"num_attention_heads {self.num_attention_heads} do not divide half of the {name}")
        require(len(self.backbone_config.depths) == LEVELS + 1, "a backbone of other than four stages is not supported")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored. ModelError for other backbones than Swin."""
        backbone = SwinBackbone.part_of(values)
        require(not values.get("pre_norm"), "Mask2Former with norms before its layers (pre_norm) is not supported")
        strides, common = values.get("feature_strides", STRIDES), values.get("common_stride", STRIDES[0])
        require(isinstance(strides, list | tuple) and list(strides) == STRIDES, f"feature_strides is {strides!r:.60}")
        require(common == STRIDES[0], f"common_stride is {common!r:.60}, expected {STRIDES[0]}")
        return super().from_dict({**values, "backbone_config": backbone})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return super().to_dict() | {"backbone_config": self.backbone_config.to_dict()}


class QueriesLayer(Module):
    """Attention of queries to places and to each other, and a feed-forward part, each with a residual and a norm."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, heads = config.hidden_dim, config.num_attention_heads
        self.self_attn = PositionedAttention(width, heads)
        self.self_attn_layer_norm = LayerNorm(width)
        self.cross_attn = MaskedAttention(width, heads)
        self.cross_attn_layer_norm = LayerNorm(width)
        self.fc1 = Linear(width, config.dim_feedforward)
        self.fc2 = Linear(config.dim_feedforward, width)
        self.final_layer_norm = LayerNorm(width)
        self.activation = activation_named(config.activation_function)

    def forward(self, x: Tensor, queries: Tensor, source: Tensor, waves: Tensor, mask: Tensor) -> Tensor:
        """x (B, Q, D) with queries (1, Q, D), source (B, S, D) with waves (1, S, D), mask (B, 1, Q, S) → (B, Q, D)."""
        x = self.cross_attn_layer_norm(x + self.cross_attn(x + queries, source + waves, source, mask))
        x = self.self_attn_layer_norm(self.self_attn(x, queries, x))
        return self.final_layer_norm(x + self.fc2(self.activation(self.fc1(x))))


class Decoder(Module):
    """The layers, and the masks of queries."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_dim
        self.layers = ModuleList(QueriesLayer(config) for _ in range(config.decoder_layers - 1))
        self.layernorm = LayerNorm(width)
        self.mask_predictor = Module()
        self.mask_predictor.mask_embedder = MaskEmbedder(width, config.mask_feature_size)

    def masks(self, x: Tensor, features: Tensor) -> Tensor:
        """x (B, Q, D), features (B, M, H, W) → the logits of masks (B, Q, H, W)."""
        found: Tensor = self.mask_predictor.mask_embedder.masks(x, features)
        return found


class Transformer(Module):
    """The queries, and what they read of the maps."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, before = config.hidden_dim, config.feature_size
        self.queries_embedder = Embedding(config.num_queries, width)
        self.queries_features = Embedding(config.num_queries, width)
        projects = before != width or config.enforce_input_projection
        self.input_projections = ModuleList(
            Conv2d(before, width, 1) if projects else Sequential() for _ in range(LEVELS)
        )
        self.decoder = Decoder(config)
        self.level_embed = Embedding(LEVELS, width)

    def forward(self, maps: list[Tensor], features: Tensor) -> tuple[Tensor, Tensor]:
        """maps (B, C, H, W), features (B, M, H', W') → queries (B, Q, D), and the logits of their masks (B, Q, H',
        W').
        """
        numbers = ops.arange(self.queries_embedder.num_embeddings, device=features.device)
        levels = self.level_embed(ops.arange(LEVELS, device=features.device))  # (L, D)
        read = as_sources([layer(x) for layer, x in zip(self.input_projections, maps, strict=True)], levels)
        queries = self.queries_embedder(numbers).unsqueeze(0)  # (1, Q, D)
        x = self.queries_features(numbers).unsqueeze(0).expand(features.shape[0], *queries.shape[1:])
        decoder = self.decoder
        masks = decoder.masks(decoder.layernorm(x), features)
        for i, layer in enumerate(decoder.layers):
            source, waves, size = read[i % LEVELS]
            x = layer(x, queries, source, waves, shown_places(masks, size))
            masks = decoder.masks(decoder.layernorm(x), features)
        return decoder.layernorm(x), masks


class Mask2Former(ImageModel):
    """The labels of the places of pictures of any size from the backbone's largest step on."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.model = Module()
        self.model.pixel_level_module = PixelLevel(
            config.backbone_config, config.feature_size, config.mask_feature_size, config.encoder_layers,
            config.num_attention_heads, config.encoder_feedforward_dim,
        )  # fmt: skip
        self.model.transformer_module = Transformer(config)
        self.class_predictor = Linear(config.hidden_dim, len(config.labels) + 1)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → scores (B, labels, H', W') of places, from 0: of all queries, how surely they
        have a label and hold a place.
        """
        parts = self.model.pixel_level_module
        check_pictures("Mask2Former", pixel_values, self.config.num_channels, least=parts.least)
        maps, features = parts(pixel_values)
        queries, masks = self.model.transformer_module(maps, features)
        return labels_of_places(self.class_predictor(queries), masks)


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    return name.replace(".encoder.swin.", ".encoder.", 1)


TASKS: Mapping[str, Callable[[Config], Module]] = {"semantic-segmentation": Mask2Former}
