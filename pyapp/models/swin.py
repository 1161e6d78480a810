"""Swin (Liu et al. 2021, arXiv 2103.14030): a transformer of pictures whose attention stays within windows.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.nn import Module
from pyapp.nn.vision.vision import ImageHead, mean_of_patches
from pyapp.nn.vision.windows import WindowModel

from .loading.pictures_config import WindowConfig

MODEL_TYPES = ("swin",)
IMAGE_PROCESSOR = "ViT"  # of files that name none
BASE = "swin"  # the encoder's name in files with a head
IGNORED = r"(swin\.)?embeddings\.mask_token|.*relative_position_index"  # of the first training; computed here


@dataclass(frozen=True, kw_only=True)
class Config(WindowConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]


class Swin(WindowModel):
    """The encoder, for pictures of any size."""

    title = "Swin"


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture, read at the mean of its patches."""
    return ImageHead(BASE, Swin(config), config.hidden_size, len(config.labels), mean_of_patches)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": Swin,
    "image-classification": image_classification,
}
