"""ResNet (He et al. 2015, arXiv 1512.03385): a convolutional network whose layers add to their input.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Flatten, Module, Sequential
from pyapp.nn.vision.residual import ResidualEmbeddings, ResidualStages
from pyapp.nn.vision.vision import ImageHead, ImageModel, check_pictures, mean_of_places

from .loading.pictures_config import ResidualConfig

MODEL_TYPES = ("resnet",)
IMAGE_PROCESSOR = "ConvNext"  # of files that name none
BASE = "resnet"  # the network's name in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(ResidualConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]


class ResNet(ImageModel):
    """The network, for pictures of any size."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embedder = ResidualEmbeddings(config)
        self.encoder = ResidualStages(config)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → features of places (B, C, H', W')."""
        check_pictures("ResNet", pixel_values, self.config.num_channels)
        return self.encoder(self.embedder(pixel_values))


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture, read at the mean of its places."""
    head = ImageHead(BASE, ResNet(config), config.hidden_sizes[-1], len(config.labels), mean_of_places)
    head.classifier = Sequential(Flatten(), head.classifier)  # as files number them
    return head


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": ResNet,
    "image-classification": image_classification,
}
