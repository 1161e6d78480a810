"""Chinese CLIP (Yang et al. 2022, arXiv 2211.01335): CLIP's Vision Transformer, and BERT for Chinese texts.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module
from pyapp.nn.encoders.encoders import BertEncoder, first_token
from pyapp.nn.vision.towers import ProjectedTowers

from .loading.encoder_config import BertTextConfig
from .loading.towers_config import ClipVisionConfig, ProjectedConfig

MODEL_TYPES = ("chinese_clip",)
IMAGE_PROCESSOR = "ChineseCLIP"  # of files that name none
BASE = ""
IGNORED = r".*\.position_ids|text_model\.pooler\..*"


@dataclass(frozen=True, kw_only=True)
class ChineseTextConfig(BertTextConfig):
    """The fields of text_config."""

    model_type = "chinese_clip_text_model"


class Config(ProjectedConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    text_class = ChineseTextConfig
    vision_class = ClipVisionConfig


class ChineseClip(ProjectedTowers):
    """Both transformers, and projections into the common space."""

    template = "一张{}的照片。"
    masks_texts = True

    def __init__(self, config: Config) -> None:
        super().__init__(config, BertEncoder(config.text_config, pooler=False))

    def text_features(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        """ids (N, T) → the vectors of texts (N, P). attention_mask (N, T): 0 where a token is padding."""
        return self.text_projection(first_token(self.text_model(ids, attention_mask)))


TASKS: Mapping[str, Callable[[Config], Module]] = {"zero-shot-image-classification": ChineseClip}
