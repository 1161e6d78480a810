"""MSN (Assran et al. 2022, arXiv 2204.07141): a Vision Transformer whose training hid patches and had no labels.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.nn import Module
from pyapp.nn.vision.vision import ImageHead, PlacedPatches, VisionEncoder

from .loading.pictures_config import PatchConfig

MODEL_TYPES = ("vit_msn",)
IMAGE_PROCESSOR = "ViT"  # of files that name none
BASE = "vit"  # the encoder's name in files with a head
IGNORED = r"(vit\.)?embeddings\.mask_token"  # of the first training


@dataclass(frozen=True, kw_only=True)
class Config(PatchConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    layer_norm_eps: float = 1e-6


class ViTMSN(VisionEncoder):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, PlacedPatches(config), pooler=False)


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture, read at the class token."""
    return ImageHead(BASE, ViTMSN(config), config.hidden_size, len(config.labels))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": ViTMSN,
    "image-classification": image_classification,
}
