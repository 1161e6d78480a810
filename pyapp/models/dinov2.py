"""DINOv2 (Oquab et al. 2023, arXiv 2304.07193): a Vision Transformer of general features, with scaled layers, for
pictures of any size.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.nn import Module
from pyapp.nn.vision.scaled_vision import ScaledEncoder, class_and_mean
from pyapp.nn.vision.vision import ImageHead

from .loading.pictures_config import ScaledConfig

MODEL_TYPES = ("dinov2",)
IMAGE_PROCESSOR = "Bit"  # of files that name none
BASE = "dinov2"  # the encoder's name in files with a head
IGNORED = r"(dinov2\.)?embeddings\.mask_token"  # of the first training


@dataclass(frozen=True, kw_only=True)
class Config(ScaledConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture, read at the class token and the mean of the patches."""
    return ImageHead(BASE, ScaledEncoder(config), 2 * config.hidden_size, len(config.labels), class_and_mean())


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": ScaledEncoder,
    "image-classification": image_classification,
}
