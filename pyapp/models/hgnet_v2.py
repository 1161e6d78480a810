"""PP-HGNet V2 (PaddlePaddle 2023): a convolutional network for pictures' labels, by which detectors see too.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.engine import Tensor
from pyapp.nn import Linear, Module
from pyapp.nn.vision.hgnet import Stem, stages_of
from pyapp.nn.vision.vision import ImageModel, check_pictures, mean_of_places

from .loading.pictures_config import HGNetConfig

MODEL_TYPES = ("hgnet_v2",)
IMAGE_PROCESSOR = "ConvNext"  # of files that name none
Config = HGNetConfig


class HGNetForImageClassification(ImageModel):
    """Scores of the labels of a picture, read at the mean of its places."""

    def __init__(self, config: HGNetConfig) -> None:
        super().__init__()
        self.config = config
        self.embedder = Stem(config)
        self.encoder = stages_of(config)
        self.fc = Linear(config.stage_out_channels[-1], len(config.labels))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → logits (B, labels)."""
        check_pictures("PP-HGNet", pixel_values, self.config.num_channels)
        return self.fc(mean_of_places(self.encoder(self.embedder(pixel_values))))


TASKS: Mapping[str, Callable[[HGNetConfig], Module]] = {"image-classification": HGNetForImageClassification}
