"""Mistral Small 3.1 and its successors (Mistral AI 2025): Pixtral's tower (Agrawal et al. 2024, arXiv 2410.07073) sees
a picture of any size, squares of neighbouring patches become one vector each, and Mistral writes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.nn.vision_language.pixtral import MergedPixtral

from .loading import picture_text
from .loading.pixtral import MergedPixtralConfig

MODEL_TYPES = ("mistral3",)
IMAGE_PROCESSOR = "Pixtral"  # of files that name none
renamed = picture_text.renamed


@dataclass(frozen=True)
class Config(MergedPixtralConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = "mistral3"
    text = "mistral"
    token = ("image_token_index", 10)


class Mistral3ForConditionalGeneration(MergedPixtral):
    """Pictures and text to text."""


TASKS: Mapping[str, Any] = {picture_text.TASK: Mistral3ForConditionalGeneration}
