"""ConvNeXt V2 (Woo et al. 2023, arXiv 2301.00808): ConvNeXt with norms of responses instead of scales.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.nn import Module
from pyapp.nn.vision.convnext import ConvNext
from pyapp.nn.vision.vision import ImageHead

from .loading.pictures_config import ConvNextConfig

MODEL_TYPES = ("convnextv2",)
IMAGE_PROCESSOR = "ConvNext"  # of files that name none
BASE = "convnextv2"  # the network's name in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(ConvNextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    response_norms = True


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture."""
    network = ConvNext(config)
    return ImageHead(BASE, network, config.hidden_sizes[-1], len(config.labels), network.pooled)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": ConvNext,
    "image-classification": image_classification,
}
