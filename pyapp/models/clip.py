"""CLIP (Radford et al. 2021, arXiv 2103.00020): a Vision Transformer and a transformer of texts, trained to give a
picture and its text the same direction.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.engine import Tensor, ops
from pyapp.nn import Linear, Module
from pyapp.nn.encoders import first_token
from pyapp.nn.parameter import new_parameter
from pyapp.nn.towers import PictureAndText, TextTower, VisionTower, at_ends

from .loading.config import require
from .loading.towers_config import ClipTextConfig, ClipVisionConfig, TowersConfig

MODEL_TYPES = ("clip",)
BASE = ""
IGNORED = r".*\.position_ids"
WIDEST = 1 << 16  # numbers of a vector


class Config(TowersConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    text_class = ClipTextConfig
    vision_class = ClipVisionConfig

    @property
    def projection_dim(self) -> int:
        """The numbers of a vector. ModelError for an implausible one."""
        found = self.values.get("projection_dim", 512)
        require(type(found) is int and 1 <= found <= WIDEST, f"projection_dim is {found!r:.60}")
        return int(found)


class Vision(VisionTower):
    """The Vision Transformer."""

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → features (B, D)."""
        return self.post_layernorm(first_token(self.states(pixel_values)))


class Clip(PictureAndText):
    """Both transformers, and projections into the common space."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.text_model = TextTower(config.text_config, causal=True)
        self.vision_model = Vision(config.vision_config, class_token=True)
        self.visual_projection = Linear(config.vision_config.hidden_size, config.projection_dim, bias=False)
        self.text_projection = Linear(config.text_config.hidden_size, config.projection_dim, bias=False)
        self.logit_scale = new_parameter(ops.zeros)

    def image_features(self, pixel_values: Tensor) -> Tensor:
        return self.visual_projection(self.vision_model(pixel_values))

    def text_features(self, ids: Tensor) -> Tensor:
        x = self.text_model(ids)  # (N, T, D)
        return self.text_projection(at_ends(x, ids, self.config.text_config.eos_token_id))


TASKS: Mapping[str, Callable[[Config], Module]] = {"zero-shot-image-classification": Clip}
