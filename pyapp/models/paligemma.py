"""PaliGemma (Beyer et al. 2024, arXiv 2407.07726) and PaliGemma 2 (Steiner et al. 2024, arXiv 2412.03555): what
SigLIP's tower sees, projected, stands before Gemma or Gemma 2. All of a prompt attends to all of it; what is written,
only to what comes before.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Linear, Module
from pyapp.nn.vision.towers import VisionTower
from pyapp.nn.vision_language.picture_text import PictureTextModel

from .loading import picture_text
from .loading.picture_text import PictureTextConfig

MODEL_TYPES = ("paligemma",)
IMAGE_PROCESSOR = "Siglip"  # of files that name none
IGNORED = picture_text.POOLING
renamed = picture_text.renamed


@dataclass(frozen=True)
class Config(PictureTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "paligemma"
    text = "gemma"
    token = ("image_token_index", 256000)


class Projector(Module):
    """One layer."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.linear = Linear(config.vision_config.hidden_size, config.text_config.hidden_size)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, T, W) → (B, T, D)."""
        return self.linear(x)


class PaliGemmaForConditionalGeneration(PictureTextModel):
    """Pictures and text to text."""

    whole_pictures = whole_prompt = True
    prompt_form = ("<bos>", "\n")

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.vision_tower = VisionTower(config.vision_config, class_token=False)
        self.multi_modal_projector = Projector(config)


TASKS: Mapping[str, Any] = {picture_text.TASK: PaliGemmaForConditionalGeneration}
