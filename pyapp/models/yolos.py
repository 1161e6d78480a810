"""YOLOS (Fang et al. 2021, arXiv 2106.00666): a Vision Transformer with tokens for objects, each of which says a label
and a box.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm, Module
from pyapp.nn.encoders.encoders import Pooler
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.detection import Detector, PredictionHead
from pyapp.nn.vision.vision import (
    ImageModel,
    PatchEmbeddings,
    PatchLayers,
    check_pictures,
    resized_positions,
    token,
)

from .loading.config import require
from .loading.pictures_config import PatchConfig

MODEL_TYPES = ("yolos",)
IMAGE_PROCESSOR = "Yolos"  # of files that name none
BASE = "vit"  # the encoder's name in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(PatchConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    image = (512, 864)

    num_detection_tokens: int = 100
    use_mid_position_embeddings: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.num_detection_tokens <= 1 << 14, f"{self.num_detection_tokens:,} objects are too many")


def placed(table: Tensor, config: Config, pixel_values: Tensor) -> Tensor:
    """The positions (1, T, D) of the tokens of a picture of any size."""
    sides = pixel_values.shape[2] // config.patch_size[0], pixel_values.shape[3] // config.patch_size[1]
    return resized_positions(table, 1, config.num_detection_tokens, config.grid, sides)


class Embeddings(Module):
    """The class token, the patches and the tokens of objects, with their positions."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width, objects = config.hidden_size, config.num_detection_tokens
        self.config = config
        self.cls_token = token(width)
        self.detection_tokens = new_parameter(ops.zeros, 1, objects, width)
        self.patch_embeddings = PatchEmbeddings(config.num_channels, width, config.patch_size)
        self.position_embeddings = new_parameter(ops.zeros, 1, 1 + config.patches + objects, width)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, 1 + patches + objects, D)."""
        patches = self.patch_embeddings(pixel_values)
        before, after = (
            part.expand(patches.shape[0], part.shape[1], part.shape[2])
            for part in (self.cls_token, self.detection_tokens)
        )
        return ops.cat([before, patches, after], 1) + placed(self.position_embeddings, self.config, pixel_values)


class Encoder(PatchLayers):
    """The layers; positions are added again after each but the last, if the configuration says so."""

    def __init__(self, config: Config) -> None:
        layers, width = config.num_hidden_layers, config.hidden_size
        super().__init__(
            layers, width, config.num_attention_heads, config.intermediate_size, config.hidden_act,
            config.layer_norm_eps, config.qkv_bias,
        )  # fmt: skip
        self.config = config
        tokens = 1 + config.patches + config.num_detection_tokens
        self.mid_position_embeddings: Tensor | None = None
        if config.use_mid_position_embeddings:
            self.mid_position_embeddings = new_parameter(ops.zeros, layers - 1, 1, tokens, width)

    def encode(self, x: Tensor, pixel_values: Tensor) -> Tensor:
        """x (B, T, D) of pixel_values (B, C, H, W) → (B, T, D)."""
        for i, layer in enumerate(self.layer):
            x = layer(x)
            if self.mid_position_embeddings is not None and i + 1 < len(self.layer):
                x = x + placed(self.mid_position_embeddings.select(0, i), self.config, pixel_values)
        return x


class Yolos(ImageModel):
    """The encoder, for pictures of any size from a patch on; with `pooler`, also the layer over the class token."""

    def __init__(self, config: Config, pooler: bool = True) -> None:
        super().__init__()
        self.config = config
        self.embeddings = Embeddings(config)
        self.encoder = Encoder(config)
        self.layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.pooler: Pooler | None = Pooler(config.hidden_size) if pooler else None

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → hidden states (B, 1 + patches + objects, D)."""
        check_pictures("YOLOS", pixel_values, self.config.num_channels, least=max(self.config.patch_size))
        return self.layernorm(self.encoder.encode(self.embeddings(pixel_values), pixel_values))


class YolosForObjectDetection(Detector):
    """The encoder with heads over the tokens of objects."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width = config.hidden_size
        self.vit = Yolos(config, pooler=False)
        self.class_labels_classifier = PredictionHead(width, width, len(config.labels) + 1)
        self.bbox_predictor = PredictionHead(width, width, 4)

    def forward(self, pixel_values: Tensor) -> tuple[Tensor, Tensor]:
        x = self.vit(pixel_values)
        objects = self.config.num_detection_tokens
        x = x.narrow(1, x.shape[1] - objects, objects)  # (B, Q, D)
        return self.class_labels_classifier(x), ops.sigmoid(self.bbox_predictor(x))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": Yolos,
    "object-detection": YolosForObjectDetection,
}
