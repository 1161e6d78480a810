"""CLIP (Radford et al. 2021, arXiv 2103.00020): a Vision Transformer and a transformer of texts, trained to give a
picture and its text the same direction.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.engine import Tensor, ops
from pyapp.nn import Linear, Module
from pyapp.nn.parameter import new_parameter
from pyapp.nn.towers import ClipTower, PictureAndText, TextTower, at_ends

from .loading.towers_config import ClipTextConfig, ClipVisionConfig, ProjectedConfig

MODEL_TYPES = ("clip",)
BASE = ""
IGNORED = r".*\.position_ids"


class Config(ProjectedConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    text_class = ClipTextConfig
    vision_class = ClipVisionConfig


class Clip(PictureAndText):
    """Both transformers, and projections into the common space."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.text_model = TextTower(config.text_config, causal=True)
        self.vision_model = ClipTower(config.vision_config)
        self.visual_projection = Linear(config.vision_config.hidden_size, config.projection_dim, bias=False)
        self.text_projection = Linear(config.text_config.hidden_size, config.projection_dim, bias=False)
        self.logit_scale = new_parameter(ops.zeros)

    def image_features(self, pixel_values: Tensor) -> Tensor:
        return self.visual_projection(self.vision_model(pixel_values))

    def text_features(self, ids: Tensor) -> Tensor:
        x = self.text_model(ids)  # (N, T, D)
        return self.text_projection(at_ends(x, ids, self.config.text_config.eos_token_id))


TASKS: Mapping[str, Callable[[Config], Module]] = {"zero-shot-image-classification": Clip}
