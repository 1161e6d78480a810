"""EfficientNet (Tan & Le 2019, arXiv 1905.11946): MobileNet's layers with weights for channels, scaled in width and
depth together.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.nn import Module
from pyapp.nn.vision.efficientnet import EfficientNet
from pyapp.nn.vision.vision import ImageHead

from .loading.pictures_config import EfficientNetConfig

MODEL_TYPES = ("efficientnet",)
IMAGE_PROCESSOR = "EfficientNet"  # of files that name none
BASE = "efficientnet"  # the network's name in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(EfficientNetConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture."""
    network = EfficientNet(config)
    return ImageHead(BASE, network, config.hidden_dim, len(config.labels), network.pooled)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": EfficientNet,
    "image-classification": image_classification,
}
