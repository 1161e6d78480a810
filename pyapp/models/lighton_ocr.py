"""LightOnOCR (Taghadouini et al. 2026, arXiv 2601.14251): Pixtral's tower sees a page of any size, squares of
neighbouring patches become one vector each, and a Qwen3 writes what stands on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn.vision_language.picture_text import ANY, Size
from pyapp.nn.vision_language.pixtral import MergedPixtral

from .loading import picture_text
from .loading.pixtral import MergedPixtralConfig

MODEL_TYPES = ("lighton_ocr",)
IMAGE_PROCESSOR = "Pixtral"  # of files that name none
PARTS = {"encoder": "vision_tower", "projection": "multi_modal_projector"}  # by their names in files


def renamed(name: str) -> str:
    """The model's name of a file's tensor."""
    for old, new in PARTS.items():
        name = re.sub(rf"^(model\.)?vision_{old}\.", f"{new}.", name)
    return picture_text.renamed(name)


@dataclass(frozen=True)
class Config(MergedPixtralConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    text = "qwen3"
    token = ("image_token_id", 151655)


class LightOnOcrForConditionalGeneration(MergedPixtral):
    """Pages to text: nothing stands between the rows of a picture's vectors."""

    placeholder = part = "<|image_pad|>"

    def picture_text(self, rows: int, columns: int, size: Size = ANY) -> str:
        return self.part * (rows * columns)


TASKS: Mapping[str, Any] = {picture_text.TASK: LightOnOcrForConditionalGeneration}
