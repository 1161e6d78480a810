"""AIMv2 of pictures and texts (Fini et al. 2024, arXiv 2411.14402): its Vision Transformer, and a transformer of texts
that learnt to give a picture and its text the same direction.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import log

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import shown
from pyapp.nn import Linear, Module, RMSNorm
from pyapp.nn.parameter import new_parameter
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import check_ids
from pyapp.nn.vision.aimv2 import Aimv2Layers, Aimv2Vision
from pyapp.nn.vision.towers import PictureAndText, TextEmbeddings, at_ends, direction_scores

from .loading.config import require
from .loading.towers_config import Aimv2VisionConfig, ProjectedConfig, TextConfig

MODEL_TYPES = ("aimv2",)
IMAGE_PROCESSOR = "CLIP"  # of files that name none
BASE = ""
IGNORED = r".*position_ids"
MOST_SCALE = 1 << 20


@dataclass(frozen=True, kw_only=True)
class WordsConfig(TextConfig):
    """The fields of the part for texts."""

    vocab_size: int = 49408
    hidden_size: int = 768
    intermediate_size: int = 2048
    num_hidden_layers: int = 12
    num_attention_heads: int = 6
    max_position_embeddings: int = 77
    hidden_act: str = "silu"
    layer_norm_eps: float = 1e-5  # files have rms_norm_eps
    rms_norm_eps: float = 1e-5
    qkv_bias: bool = False
    mlp_bias: bool = False
    eos_token_id: int = 49407


class Config(ProjectedConfig):
    """The hyper-parameters of both transformers, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    text_class = WordsConfig
    vision_class = Aimv2VisionConfig

    def __post_init__(self) -> None:
        require(self.vision_config.use_head, "AIMv2 of pictures and texts without use_head has no vectors of pictures")
        require(self.most_scale >= 1, f"max_logit_scale is {self.most_scale}, expected 1 or more")

    @property
    def most_scale(self) -> float:
        """The largest factor of a cosine."""
        found = self.values.get("max_logit_scale", 100.0)
        known = type(found) in (int, float) and abs(found) <= MOST_SCALE
        require(known, f"max_logit_scale is {shown(found, 60)}, expected a number up to {MOST_SCALE:,}")
        return float(found)


class Words(Module):
    """The transformer of texts."""

    def __init__(self, config: WordsConfig) -> None:
        super().__init__()
        self.config, self.most = config, config.max_position_embeddings
        self.embeddings = TextEmbeddings(config)
        self.encoder = Aimv2Layers(config, causal=True)
        self.rms_norm = RMSNorm(config.hidden_size, config.rms_norm_eps)

    def forward(self, ids: Tensor) -> Tensor:
        """ids (N, T) → features (N, D), at the ends of texts."""
        check_ids(self, ids, None)
        x = self.rms_norm(self.encoder(self.embeddings(ids)))
        return at_ends(x, ids, self.config.eos_token_id, older=False)


class Aimv2(PictureAndText):
    """Both transformers, and projections into the common space."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.vision_model, self.text_model = Aimv2Vision(config.vision_config), Words(config.text_config)
        self.visual_projection, self.text_projection = (
            Linear(part.hidden_size, config.projection_dim, bias=False)
            for part in (config.vision_config, config.text_config)
        )
        self.logit_scale = new_parameter(ops.zeros)

    @property
    def pixels(self) -> tuple[int, int] | None:
        found: tuple[int, int] | None = self.vision_model.pixels
        return found

    def image_features(self, pixel_values: Tensor) -> Tensor:
        return self.visual_projection(self.vision_model.head(self.vision_model(pixel_values)))

    def text_features(self, ids: Tensor) -> Tensor:
        return self.text_projection(self.text_model(ids))

    def scores(self, pictures: Tensor, texts: Tensor) -> Tensor:
        return direction_scores(pictures, texts) * self.logit_scale.clamp(0, log(self.config.most_scale)).exp()


TASKS: Mapping[str, Callable[[Config], Module]] = {"zero-shot-image-classification": Aimv2}
