"""CLIP (Radford et al. 2021, arXiv 2103.00020): a Vision Transformer and a transformer of texts, trained to give a
picture and its text the same direction.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import LayerNorm, Linear, Module
from pyapp.nn.encoders import first_token
from pyapp.nn.parameter import new_parameter
from pyapp.nn.towers import PictureAndText, PositionedPatches, TextTower, Tower, at_ends
from pyapp.nn.vision import ImageModel, check_pictures

from .loading.config import require
from .loading.pictures_config import PatchConfig
from .loading.towers_config import ClipTextConfig, TowersConfig

MODEL_TYPES = ("clip",)
BASE = ""
IGNORED = r".*\.position_ids"
WIDEST = 1 << 16  # numbers of a vector


@dataclass(frozen=True, kw_only=True)
class ClipVisionConfig(PatchConfig):
    """The fields of vision_config."""

    model_type = "clip_vision_model"
    patch = 32

    hidden_act: str = "quick_gelu"
    layer_norm_eps: float = 1e-5


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


class Vision(ImageModel):
    """The Vision Transformer."""

    def __init__(self, config: ClipVisionConfig) -> None:
        super().__init__()
        self.config = config
        self.embeddings = PositionedPatches(config, class_token=True)
        self.pre_layrnorm = LayerNorm(config.hidden_size, config.layer_norm_eps)  # as files spell it
        self.encoder = Tower(config)
        self.post_layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → features (B, D)."""
        check_pictures("CLIP", pixel_values, self.config.num_channels, self.config.image_size)
        x = self.encoder(self.pre_layrnorm(self.embeddings(pixel_values)))
        return self.post_layernorm(first_token(x))


class Clip(PictureAndText):
    """Both transformers, and projections into the common space."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.text_model = TextTower(config.text_config, causal=True)
        self.vision_model = Vision(config.vision_config)
        self.visual_projection = Linear(config.vision_config.hidden_size, config.projection_dim, bias=False)
        self.text_projection = Linear(config.text_config.hidden_size, config.projection_dim, bias=False)
        self.logit_scale = new_parameter(ops.zeros)

    def image_features(self, pixel_values: Tensor) -> Tensor:
        return self.visual_projection(self.vision_model(pixel_values))

    def text_features(self, ids: Tensor) -> Tensor:
        x = self.text_model(ids)  # (N, T, D)
        return self.text_projection(at_ends(x, ids, self.config.text_config.eos_token_id))


TASKS: Mapping[str, Callable[[Config], Module]] = {"zero-shot-image-classification": Clip}
