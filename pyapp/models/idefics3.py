"""Idefics3 (Laurençon et al. 2024, arXiv 2408.12637) and SmolVLM (Marafioti et al. 2025, arXiv 2504.05299): SigLIP's
tower sees the tiles of a picture and the whole, and neighbouring patches become one vector for the language model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Linear, Module
from pyapp.nn.vision.towers import VisionTower
from pyapp.nn.vision.vision import squares
from pyapp.nn.vision_language.picture_text import ANY, PictureTextModel, Size

from .loading import picture_text
from .loading.config import require, stated
from .loading.picture_text import PictureTextConfig
from .loading.towers_config import SiglipVisionConfig

MODEL_TYPES = ("idefics3", "smolvlm")
IMAGE_PROCESSOR = {"idefics3": "Idefics3", "smolvlm": "SmolVLM"}  # of files that name none
renamed = picture_text.renamed
KINDS = ("idefics3", "idefics3_vision", "smolvlm", "smolvlm_vision", "siglip_vision_model")


@dataclass(frozen=True, kw_only=True)
class TowerConfig(SiglipVisionConfig):
    """The fields of vision_config."""

    model_type = "idefics3_vision"
    patch = 32

    hidden_size: int = 1152
    num_attention_heads: int = 16


@dataclass(frozen=True)
class Config(PictureTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "idefics3"
    tower = "idefics3_vision"
    towers = dict.fromkeys(KINDS, TowerConfig)
    token = ("image_token_id", 128257)

    def check(self) -> None:
        super().check()
        scale, side = self.values.get("scale_factor", 2), self.vision_config.grid[0]
        require(
            type(scale) is int and scale > 0 and side % scale == 0,
            f"scale_factor is {scale!r:.60}, expected a divisor of the tower's {side} rows of patches",
        )

    scale_factor = stated("scale_factor", 2)  # the rows, and columns, of patches that become one vector


class Connector(Module):
    """One vector of each square of neighbouring patches."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.scale = config.scale_factor
        width = config.vision_config.hidden_size * self.scale**2
        self.proj = Linear(width, config.text_config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, side * side, W) → (B, (side / scale)², D)."""
        side = int(x.shape[1] ** 0.5)
        return self.proj(squares(x.reshape(x.shape[0], side, side, x.shape[2]), self.scale))


class Idefics3ForConditionalGeneration(PictureTextModel):
    """Pictures and text to text."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.vision_tower = VisionTower(config.vision_config, class_token=False)
        self.multi_modal_projector = Connector(config)

    @property
    def picture_tokens(self) -> int:
        found: int = self.config.vision_config.patches // self.config.scale_factor**2
        return found

    def picture_text(self, rows: int, columns: int, size: Size = ANY) -> str:
        edge, tokens = "<fake_token_around_image>", self.part * self.picture_tokens
        tiles = "".join(
            "".join(f"{edge}<row_{row + 1}_col_{column + 1}>{tokens}" for column in range(columns)) + "\n"
            for row in range(rows)
        )
        return f"{tiles}{chr(10) if tiles else ''}{edge}<global-img>{tokens}{edge}"


TASKS: Mapping[str, Any] = {picture_text.TASK: Idefics3ForConditionalGeneration}
