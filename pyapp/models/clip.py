"""CLIP (Radford et al. 2021, arXiv 2103.00020): a Vision Transformer and a transformer of texts, trained to give a
picture and its text the same direction. MetaCLIP 2 (Chuang et al. 2025, arXiv 2507.22062) reads 300 languages.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.engine import Tensor
from pyapp.nn import Module
from pyapp.nn.towers import ProjectedTowers, TextTower, at_ends

from .loading.towers_config import ClipTextConfig, ClipVisionConfig, ProjectedConfig

MODEL_TYPES = ("clip", "metaclip_2")
IMAGE_PROCESSOR = "CLIP"  # of files that name none
BASE = ""
IGNORED = r".*\.position_ids"


class Config(ProjectedConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    text_class = ClipTextConfig
    vision_class = ClipVisionConfig


class Clip(ProjectedTowers):
    """Both transformers, and projections into the common space."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, TextTower(config.text_config, causal=True))

    def text_features(self, ids: Tensor) -> Tensor:
        x = self.text_model(ids)  # (N, T, D)
        end, kind = self.config.text_config.eos_token_id, self.config.values.get("model_type")
        return self.text_projection(at_ends(x, ids, end, older=kind != MODEL_TYPES[1]))


TASKS: Mapping[str, Callable[[Config], Module]] = {"zero-shot-image-classification": Clip}
