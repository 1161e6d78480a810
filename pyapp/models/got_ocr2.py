"""GOT-OCR 2.0 (Wei et al. 2024, arXiv 2409.01704): the tower of Segment Anything sees a page, filters make 256 vectors
of its map, and Qwen2 writes its text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Conv2d, Linear, Module
from pyapp.nn.vision.sam_tower import SamTower
from pyapp.nn.vision_language.picture_text import ANY, PictureTextModel, Size

from .loading import picture_text
from .loading.picture_text import PictureTextConfig
from .loading.towers_config import SamVisionConfig

MODEL_TYPES = ("got_ocr2",)
IMAGE_PROCESSOR = "GotOcr2"  # of files that name none
renamed = picture_text.renamed


@dataclass(frozen=True, kw_only=True)
class TowerConfig(SamVisionConfig):
    """The fields of vision_config."""

    model_type = "got_ocr2_vision"

    mlp_dim: int | None = 3072


@dataclass(frozen=True)
class Config(PictureTextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "got_ocr2"
    text = "qwen2"
    tower = "got_ocr2_vision"
    towers = {"got_ocr2_vision": TowerConfig}
    token = ("image_token_index", 151859)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json, whose embeddings are the head's unless it says otherwise."""
        number = values.get("image_token_index", values.get("image_token_id", cls.token[1]))
        return super().from_dict({"tie_word_embeddings": True, **values, "image_token_index": number})


class Projector(Module):
    """Filters that halve the map's sides twice, and a layer."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        channels, width = config.vision_config.output_channels, config.text_config.hidden_size
        self.conv_upsampler1 = Conv2d(channels, 2 * channels, 3, stride=2, padding=1, bias=False)
        self.conv_upsampler2 = Conv2d(2 * channels, width, 3, stride=2, padding=1, bias=False)
        self.multimodal_projector = Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, C, side, side) → (B, (side / 4)², D)."""
        x = self.conv_upsampler2(self.conv_upsampler1(x))
        return self.multimodal_projector(x.flatten(2).transpose(1, 2))


class GotOcr2ForConditionalGeneration(PictureTextModel):
    """Pictures and text to text."""

    placeholder = part = "<imgpad>"
    around = ("<img>", "</img>\n")

    def __init__(self, config: Config) -> None:
        super().__init__(config, config.language_model())
        self.vision_tower = SamTower(config.vision_config)
        self.multi_modal_projector = Projector(config)

    @property
    def picture_tokens(self) -> int:
        side = self.config.vision_config.grid[0]
        return int(-(-side // 4)) ** 2

    def picture_text(self, rows: int, columns: int, size: Size = ANY) -> str:
        return self.part * self.tokens_in(rows, columns)


TASKS: Mapping[str, Any] = {picture_text.TASK: GotOcr2ForConditionalGeneration}
