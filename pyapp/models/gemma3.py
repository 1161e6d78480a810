"""Gemma 3 with pictures (Gemma Team 2025, arXiv 2503.19786): the mean of neighbouring patches of SigLIP's tower,
normalised and projected, stands before Gemma 3's language model, where a picture's vectors attend to each other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Module
from pyapp.nn.layers.normalization import OffsetRMSNorm
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.towers import VisionTower
from pyapp.nn.vision.vision import as_map, as_sequence
from pyapp.nn.vision_language.picture_text import ANY, PictureTextModel, Size

from .loading import picture_text
from .loading.config import require
from .loading.picture_text import PictureTextConfig

MODEL_TYPES = ("gemma3",)
IMAGE_PROCESSOR = "Gemma3"  # of files that name none
IGNORED = picture_text.POOLING
renamed = picture_text.renamed


@dataclass(frozen=True)
class Config(PictureTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "gemma3"
    text = "gemma3_text"
    token = ("image_token_index", 262144)

    def check(self) -> None:
        super().check()
        given, side = self.values.get("mm_tokens_per_image", 256), self.vision_config.grid[0]
        plausible = type(given) is int and given > 0 and round(given**0.5) ** 2 == given and given <= side**2
        require(plausible, f"mm_tokens_per_image is {given!r:.60}, expected a square of at most {side}²")
        require(side % round(given**0.5) == 0, f"mm_tokens_per_image is {given}, but the tower has {side}² patches")

    @property
    def side(self) -> int:
        """The rows, and columns, of a picture's vectors."""
        return round(self.values.get("mm_tokens_per_image", 256) ** 0.5)


class Projector(Module):
    """The means of squares of neighbouring patches, normalised and projected."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        tower, width = config.vision_config, config.text_config.hidden_size
        self.grid, self.side = tower.grid[0], config.side
        self.mm_input_projection_weight = new_parameter(ops.zeros, tower.hidden_size, width)
        self.mm_soft_emb_norm = OffsetRMSNorm(tower.hidden_size, tower.layer_norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, grid * grid, W) → (B, side * side, D)."""
        pooled = ops.avg_pool2d(as_map(x, self.grid, self.grid), self.grid // self.side)
        return self.mm_soft_emb_norm(as_sequence(pooled)) @ self.mm_input_projection_weight


class Gemma3ForConditionalGeneration(PictureTextModel):
    """Pictures and text to text."""

    placeholder, part = "<start_of_image>", "<image_soft_token>"
    whole_pictures = True

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.vision_tower = VisionTower(config.vision_config, class_token=False)
        self.multi_modal_projector = Projector(config)

    @property
    def picture_tokens(self) -> int:
        found: int = self.config.side**2
        return found

    def picture_text(self, rows: int, columns: int, size: Size = ANY) -> str:
        one = f"\n\n{self.placeholder}{self.part * self.picture_tokens}<end_of_image>\n\n"
        if not rows:
            return one
        crops = " ".join([one] * (rows * columns))
        return f"Here is the original image {one} and here are some crops to help you see better {crops}"


TASKS: Mapping[str, Any] = {picture_text.TASK: Gemma3ForConditionalGeneration}
