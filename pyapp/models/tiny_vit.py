"""TinyViT (Wu et al. 2022, arXiv 2207.10666): small networks of filters and of attention within windows, which learnt
from large ones.

Parameters have the names of timm's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.engine import Tensor
from pyapp.nn import LayerNorm, Linear, Module
from pyapp.nn.vision.tiny_vit import TinyVitTrunk
from pyapp.nn.vision.vision import ImageModel, check_pictures, mean_of_places

from .loading.tiny_vit_config import TinyVitConfig

Config = TinyVitConfig
MODEL_TYPES = ("tiny_vit",)
IMAGE_PROCESSOR = "TimmWrapper"  # of files that name none
BASE = ""  # files with a head put nothing before the network's names


class TinyVit(TinyVitTrunk, ImageModel):
    """The network, for pictures of any size."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.config = config

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → the last map (B, C, H', W')."""
        check_pictures("TinyViT", pixel_values, self.config.num_channels)
        steps = self.steps(pixel_values)
        while True:
            try:
                next(steps)
            except StopIteration as end:
                found: Tensor = end.value
                return found


class TinyVitClassifier(TinyVit):
    """Scores of the labels of a picture, read at the mean of its places."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.head = Module()
        self.head.norm = LayerNorm(config.embed_dims[-1])
        self.head.fc = Linear(config.embed_dims[-1], len(config.labels))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → logits (B, labels)."""
        return self.head.fc(self.head.norm(mean_of_places(super().forward(pixel_values))))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": TinyVit,
    "image-classification": TinyVitClassifier,
}
