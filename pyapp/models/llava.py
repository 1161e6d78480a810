"""LLaVA (Liu et al. 2023, arXiv 2304.08485 and 2310.03744): what CLIP's tower sees, projected by two layers, stands
before a language model such as Llama.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Linear, Module
from pyapp.nn.layers.gated import activation_named
from pyapp.nn.picture_text import PictureTextModel
from pyapp.nn.towers import VisionTower

from .loading import picture_text
from .loading.config import require
from .loading.picture_text import PictureTextConfig

MODEL_TYPES = ("llava",)
IGNORED = picture_text.POOLING
renamed = picture_text.renamed


@dataclass(frozen=True)
class Config(PictureTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "llava"
    tower = "clip_vision_model"
    token = ("image_token_index", 32000)

    def check(self) -> None:
        super().check()
        given = self.values.get("vision_feature_layer", -2)
        counts, layers = self.counts, self.vision_config.num_hidden_layers
        plausible = 1 <= len(counts) <= 64 and all(type(count) is int and 0 <= count <= layers for count in counts)
        require(plausible, f"vision_feature_layer is {given!r:.60}, expected numbers of the tower's {layers} layers")
        kind = self.values.get("vision_feature_select_strategy", "default")
        require(kind in ("default", "full"), f"vision_feature_select_strategy is {kind!r:.60}")

    @property
    def counts(self) -> list[Any]:
        """After how many of the tower's layers the states are read."""
        given, last = self.values.get("vision_feature_layer", -2), self.vision_config.num_hidden_layers + 1
        return [i + last if type(i) is int and i < 0 else i for i in (given if isinstance(given, list) else [given])]

    @property
    def without_first(self) -> bool:
        """Whether the first vector, that of the class token, is left out."""
        found: bool = self.values.get("vision_feature_select_strategy", "default") == "default"
        return found


class Projector(Module):
    """Two layers with an activation between them."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        bias = self.bias = config.values.get("multimodal_projector_bias", True) is not False
        width = config.text_config.hidden_size
        self.linear_1 = Linear(config.vision_config.hidden_size * len(config.counts), width, bias=bias)
        self.linear_2 = Linear(width, width, bias=bias)
        self.activation = activation_named(config.values.get("projector_hidden_act", "gelu"))

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, W) → (B, T, D)."""
        return self.linear_2(self.activation(self.linear_1(x)))


class LlavaForConditionalGeneration(PictureTextModel):
    """Pictures and text to text."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.class_token = config.vision_config.model_type == "clip_vision_model"
        self.vision_tower = VisionTower(config.vision_config, self.class_token)
        self.multi_modal_projector = Projector(config)

    @property
    def picture_tokens(self) -> int:
        found: int = self.config.vision_config.patches + self.class_token - self.config.without_first
        return found

    def picture_features(self, pixel_values: Tensor) -> Tensor:
        found = [self.vision_tower.states(pixel_values, count) for count in self.config.counts]
        x = found[0] if len(found) == 1 else ops.cat(found, -1)
        x = x.narrow(1, 1, x.shape[1] - 1) if self.config.without_first else x
        return self.multi_modal_projector(x)


TASKS: Mapping[str, Any] = {picture_text.TASK: LlavaForConditionalGeneration}
