"""I-JEPA (Assran et al. 2023, arXiv 2301.08243): a Vision Transformer without a class token. Features of a picture are
the mean of its patches.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.nn import Module
from pyapp.nn.vision.vision import ImageHead, PlacedPatches, VisionEncoder, mean_of_patches

from .loading.pictures_config import PatchConfig

MODEL_TYPES = ("ijepa",)
IMAGE_PROCESSOR = "ViT"  # of files that name none
BASE = "ijepa"  # the encoder's name in files with a head
IGNORED = r"(ijepa\.)?(embeddings\.mask_token|pooler\..*)"  # of the first training; not read


@dataclass(frozen=True, kw_only=True)
class Config(PatchConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]


class IJepa(VisionEncoder):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        super().__init__(config, PlacedPatches(config, with_class=False), pooler=False)


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture, read at the mean of its patches."""
    return ImageHead(BASE, IJepa(config), config.hidden_size, len(config.labels), mean_of_patches)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": IJepa,
    "image-classification": image_classification,
}
