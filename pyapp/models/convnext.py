"""ConvNeXt (Liu et al. 2022, arXiv 2201.03545): a convolutional network with the layout of a transformer.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.nn import Module
from pyapp.nn.vision.convnext import ConvNext
from pyapp.nn.vision.vision import ImageHead

from .loading.pictures_config import ConvNextConfig

MODEL_TYPES = ("convnext",)
IMAGE_PROCESSOR = "ConvNext"  # of files that name none
BASE = "convnext"  # the network's name in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(ConvNextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    layer_scale_init_value: float = 1e-6

    @property
    def scales(self) -> bool:
        """Whether layers are scaled."""
        return self.layer_scale_init_value > 0


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture."""
    network = ConvNext(config)
    return ImageHead(BASE, network, config.hidden_sizes[-1], len(config.labels), network.pooled)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": ConvNext,
    "image-classification": image_classification,
}
