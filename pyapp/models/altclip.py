"""AltCLIP (Chen et al. 2022, arXiv 2211.06679): CLIP's Vision Transformer, and XLM-RoBERTa for texts in many languages.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Embedding, LayerNorm, Linear, Module
from pyapp.nn.encoders.encoders import BertEncoder, Encoder, first_token
from pyapp.nn.vision.towers import ProjectedTowers

from .loading.config import require
from .loading.encoder_config import BertTextConfig
from .loading.pictures_config import WIDEST
from .loading.towers_config import ClipVisionConfig, ProjectedConfig

MODEL_TYPES = ("altclip",)
IMAGE_PROCESSOR = "CLIP"  # of files that name none
BASE = ""
IGNORED = r".*\.(position_ids|token_type_ids)|text_model\.roberta\.pooler\..*"


@dataclass(frozen=True, kw_only=True)
class AltTextConfig(BertTextConfig):
    """The fields of text_config."""

    model_type = "altclip_text_model"

    vocab_size: int = 250002
    hidden_size: int = 1024
    num_hidden_layers: int = 24
    num_attention_heads: int = 16
    intermediate_size: int = 4096
    max_position_embeddings: int = 514
    layer_norm_eps: float = 1e-5
    type_vocab_size: int = 1
    pad_token_id: int | None = 1
    project_dim: int = 768

    def __post_init__(self) -> None:
        super().__post_init__()
        padding = self.pad_token_id
        require(padding is not None, "pad_token_id is null: positions are counted from it")
        assert padding is not None
        require(
            padding + 1 < self.max_position_embeddings,
            f"pad_token_id {padding} leaves no positions of {self.max_position_embeddings}",
        )
        require(self.project_dim <= WIDEST, f"project_dim is {self.project_dim:,}, expected at most {WIDEST:,}")


class Config(ProjectedConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    text_class = AltTextConfig
    vision_class = ClipVisionConfig


class TextModel(Encoder):
    """XLM-RoBERTa, and a norm and a layer over its tokens."""

    def __init__(self, config: AltTextConfig) -> None:
        super().__init__()
        self.config = config
        self.roberta = BertEncoder(config, pooler=False, skips_padding=True)
        self.most = self.roberta.most
        self.pre_LN = LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.transformation = Linear(config.hidden_size, config.project_dim)

    @property
    def word_embeddings(self) -> Embedding:
        return self.roberta.word_embeddings

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None, type_ids: Tensor | None = None) -> Tensor:
        """ids (N, T) → (N, T, project_dim)."""
        return self.transformation(self.pre_LN(self.roberta(ids, attention_mask, type_ids)))


class AltClip(ProjectedTowers):
    """Both transformers, and projections into the common space."""

    template = "a photo of {}."
    masks_texts = True

    def __init__(self, config: Config) -> None:
        super().__init__(config, TextModel(config.text_config), config.text_config.project_dim)

    def text_features(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """ids (N, T) → the vectors of texts (N, P). attention_mask (N, T): 0 where a token is padding."""
        return self.text_projection(first_token(self.text_model(ids, attention_mask)))


def renamed(name: str) -> str:
    """The model's name of a file's tensor. Files that transformers 5 writes call the layers of both parts `layer`."""
    return name.replace("vision_model.encoder.layer.", "vision_model.encoder.layers.", 1)


TASKS: Mapping[str, Callable[[Config], Module]] = {"zero-shot-image-classification": AltClip}
