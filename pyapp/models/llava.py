"""LLaVA (Liu et al. 2023, arXiv 2304.08485 and 2310.03744): what CLIP's tower sees, projected by two layers, stands
before a language model such as Llama. Pixtral 12B (Agrawal et al. 2024, arXiv 2410.07073) has this form, with a tower
for pictures of any size. ViP-LLaVA (Cai et al. 2024, arXiv 2312.00784) projects what several of the tower's layers see,
after a norm. Video-LLaVA (Lin et al. 2023, arXiv 2311.10122) is read for pictures, which have a tower of their own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import LayerNorm, Module
from pyapp.nn.vision.towers import VisionTower
from pyapp.nn.vision_language.picture_text import PictureTextModel, TwoLayers, states_of
from pyapp.nn.vision_language.pixtral import PixtralPictures, PixtralTower

from .loading import picture_text
from .loading.config import require
from .loading.picture_text import LayeredConfig
from .loading.towers_config import PixtralVisionConfig

MODEL_TYPES = ("llava", "vipllava", "video_llava")
IMAGE_PROCESSOR = "CLIP"  # of files that name none
IGNORED = rf"{picture_text.POOLING}|(model\.)?video_tower\..*"
LAYERS = [-2, -5, -8, -11, 6]  # those that ViP-LLaVA reads


@dataclass(frozen=True)
class Config(LayeredConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "llava"
    tower = "clip_vision_model"
    token = ("image_token_index", 32000)
    towers = {**picture_text.TOWERS, "pixtral": PixtralVisionConfig}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json."""
        if values.get("model_type") == "vipllava":
            values = {"vision_feature_layer": LAYERS, **values, "vision_feature_select_strategy": "default"}
        return super().from_dict(values)

    @property
    def epsilon(self) -> Any:
        """That of the projector's norm; None: it has none."""
        own = self.values.get("model_type") == "vipllava"
        return self.values.get("projector_layernorm_eps", 1e-5) if own else None

    def check(self) -> None:
        super().check()
        epsilon = self.epsilon
        plausible = epsilon is None or (type(epsilon) is float and 0 < epsilon < 1)
        require(plausible, f"projector_layernorm_eps is {epsilon!r:.60}, expected a number from 0 to 1")
        whole = self.vision_config.model_type != "pixtral" or not self.without_first
        require(whole, "vision_feature_select_strategy is 'default', expected 'full': the tower has no class token")


class NormedTwoLayers(TwoLayers):
    """The projector with a norm before it."""

    def __init__(self, width: int, made: int, values: Mapping[str, Any], epsilon: float) -> None:
        super().__init__(width, made, values)
        self.projector_layernorm = LayerNorm(width, epsilon)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, width) → (B, T, made)."""
        return super().forward(self.projector_layernorm(x))


class LlavaForConditionalGeneration(PictureTextModel):
    """Pictures and text to text. With Pixtral's tower it is a PixtralForConditionalGeneration."""

    def __new__(cls, config: Config | None = None) -> Any:  # none where it is copied
        own = config is not None and config.vision_config.model_type == "pixtral"
        return super().__new__(PixtralForConditionalGeneration if own else cls)

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.class_token = config.vision_config.model_type == "clip_vision_model"
        self.vision_tower = self.new_tower()
        width = config.vision_config.hidden_size * len(config.counts)
        made, values, epsilon = config.text_config.hidden_size, config.values, config.epsilon
        self.multi_modal_projector = (
            TwoLayers(width, made, values) if epsilon is None else NormedTwoLayers(width, made, values, epsilon)
        )

    def new_tower(self) -> Module:
        """What sees, with empty weights."""
        return VisionTower(self.config.vision_config, self.class_token)

    @property
    def picture_tokens(self) -> int:
        found: int = self.config.vision_config.patches + self.class_token - self.config.without_first
        return found

    def picture_features(self, pixel_values: Tensor) -> Tensor:
        return self.multi_modal_projector(states_of(self.vision_tower, pixel_values, self.config))


class PixtralForConditionalGeneration(PixtralPictures, LlavaForConditionalGeneration):
    """Pictures of any size and text to text."""

    def new_tower(self) -> Module:
        return PixtralTower(self.config.vision_config)


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    return picture_text.renamed(re.sub(r"^(model\.)?image_tower\.", "vision_tower.", name))


TASKS: Mapping[str, Any] = {picture_text.TASK: LlavaForConditionalGeneration}
