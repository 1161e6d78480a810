"""The Vision Transformer of AIMv2 (Fini et al. 2024, arXiv 2411.14402), which learnt to write pictures and their texts.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.nn import Module
from pyapp.nn.vision.aimv2 import Aimv2Vision

from .loading.towers_config import Aimv2VisionConfig as Config

MODEL_TYPES = (Config.model_type,)
IMAGE_PROCESSOR = "CLIP"  # of files that name none
BASE = ""
IGNORED = r".*position_ids"
TASKS: Mapping[str, Callable[[Config], Module]] = {"image-features": Aimv2Vision}
