"""SigLIP (Zhai et al. 2023, arXiv 2303.15343) and SigLIP 2 (Tschannen et al. 2025, arXiv 2502.14786): a Vision
Transformer and a transformer of texts, trained to tell for each pair of a picture and a text whether they belong
together. Pictures of SigLIP 2 with NaFlex (`siglip2`) keep their shape; its other files are SigLIP's.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm, Linear, Module, MultiheadAttention
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.towers import NaflexTower, PictureAndText, TextTower, TowerClassifier, VisionTower
from pyapp.nn.vision.vision import token

from .loading.config import require
from .loading.towers_config import NaflexVisionConfig, SiglipVisionConfig, TextConfig, TowersConfig

MODEL_TYPES = ("siglip", "siglip2")
IMAGE_PROCESSOR = {"siglip": "Siglip", "siglip2": "Siglip2"}  # of files that name none
BASE = ""
IGNORED = r".*\.position_ids"


@dataclass(frozen=True, kw_only=True)
class SiglipTextConfig(TextConfig):
    """The fields of text_config."""

    vocab_size: int = 32000
    hidden_size: int = 768
    intermediate_size: int = 3072
    num_hidden_layers: int = 12
    num_attention_heads: int = 12
    max_position_embeddings: int = 64
    hidden_act: str = "gelu_pytorch_tanh"
    layer_norm_eps: float = 1e-6
    projection_size: int | None = None


class Config(TowersConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    text_class = SiglipTextConfig
    vision_class = SiglipVisionConfig

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        kind = NaflexConfig if values.get("model_type") == NaflexConfig.model_type else cls
        return super(Config, kind).from_dict(values)

    def __post_init__(self) -> None:
        width = self.vision_config.hidden_size
        require(self.vision_config.vision_use_head, "SigLIP without vision_use_head has no vectors of pictures")
        require(self.text_width == width, f"texts have vectors of {self.text_width} numbers, pictures of {width}")

    @property
    def text_width(self) -> int:
        """The numbers of a text's vector."""
        found: int = self.text_config.projection_size or self.text_config.hidden_size
        return found


class NaflexConfig(Config):
    """As Config, for pictures of any shape."""

    model_type = MODEL_TYPES[1]
    vision_class = NaflexVisionConfig


class PoolingHead(Module):
    """The features of a picture: a learned query attends to its patches."""

    def __init__(self, config: SiglipVisionConfig) -> None:
        super().__init__()
        width = config.hidden_size
        self.probe = token(width)
        self.attention = MultiheadAttention(width, config.num_attention_heads, batch_first=True)
        self.layernorm = LayerNorm(width, config.layer_norm_eps)
        self.mlp = FeedForward(width, config.intermediate_size, config.hidden_act)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, D) → (B, D)."""
        probe = self.probe.expand(x.shape[0], 1, x.shape[2])
        x = self.attention(probe, x, x, need_weights=False)[0]  # (B, 1, D)
        return self.mlp(self.layernorm(x), x).squeeze(1)


class Vision(VisionTower):
    """The Vision Transformer."""

    def __init__(self, config: SiglipVisionConfig) -> None:
        super().__init__(config, class_token=False)
        self.head = PoolingHead(config)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → features (B, D)."""
        return self.head(self.post_layernorm(self.states(pixel_values)))


class NaflexVision(NaflexTower):
    """The Vision Transformer for pictures of any shape."""

    def __init__(self, config: NaflexVisionConfig) -> None:
        super().__init__(config)
        self.head = PoolingHead(config)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) in multiples of a patch's sides → features (B, D)."""
        return self.head(super().forward(pixel_values))


class Text(TextTower):
    """The transformer of texts; its last token, which may be padding, has a text's features."""

    def __init__(self, config: SiglipTextConfig) -> None:
        super().__init__(config, causal=False)
        self.head = Linear(config.hidden_size, config.projection_size or config.hidden_size)

    def features(self, ids: Tensor) -> Tensor:
        """ids (N, T) → (N, P)."""
        x = self(ids)
        return self.head(x.narrow(1, ids.shape[1] - 1, 1).squeeze(1))


class Siglip(PictureAndText):
    """Both transformers."""

    independent = True
    fixed_length = True

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.text_model = Text(config.text_config)
        self.of_any_shape = isinstance(config, NaflexConfig)
        self.vision_model = (NaflexVision if self.of_any_shape else Vision)(config.vision_config)
        self.logit_scale = new_parameter(ops.zeros, 1)
        self.logit_bias = new_parameter(ops.zeros, 1)

    @property
    def pixels(self) -> tuple[int, int] | None:
        return None if self.of_any_shape else super().pixels

    def image_features(self, pixel_values: Tensor) -> Tensor:
        return self.vision_model(pixel_values)

    def text_features(self, ids: Tensor) -> Tensor:
        return self.text_model.features(ids)

    def scores(self, pictures: Tensor, texts: Tensor) -> Tensor:
        return super().scores(pictures, texts) + self.logit_bias


class SiglipClassifier(TowerClassifier):
    """Scores of the labels of pictures. The part that makes one vector of a picture is not read."""

    def __init__(self, config: Config) -> None:
        kind = NaflexVision if isinstance(config, NaflexConfig) else Vision
        super().__init__(config, kind(config.vision_config))
        self.of_any_shape = isinstance(config, NaflexConfig)

    @property
    def pixels(self) -> tuple[int, int] | None:
        found: tuple[int, int] = self.config.vision_config.image_size
        return None if self.of_any_shape else found

    def patches(self, pixel_values: Tensor) -> Tensor:
        return (NaflexTower if self.of_any_shape else VisionTower).forward(self.vision_model, pixel_values)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "zero-shot-image-classification": Siglip,
    "image-classification": SiglipClassifier,
}
