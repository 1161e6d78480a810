"""MAE (He et al. 2021, arXiv 2111.06377): a Vision Transformer that learned to draw hidden patches. Its features are
computed of all patches.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.nn import Module
from pyapp.nn.vision.vision import PlacedPatches, VisionEncoder

from .loading.pictures_config import PatchConfig

MODEL_TYPES = ("vit_mae",)
IMAGE_PROCESSOR = "ViT"  # of files that name none
BASE = "vit"  # the encoder's name in files with what draws
IGNORED = r"decoder\..*"  # of the first training


@dataclass(frozen=True, kw_only=True)
class Config(PatchConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]


class ViTMAE(VisionEncoder):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, PlacedPatches(config), pooler=False)


TASKS: Mapping[str, Callable[[Config], Module]] = {"image-features": ViTMAE}
