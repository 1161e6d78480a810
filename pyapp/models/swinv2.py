"""Swin V2 (Liu et al. 2021, arXiv 2111.09883): Swin with norms after its parts, scores that are cosines, and biases of
distances that a small network gives.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.nn import Module
from pyapp.nn.vision.vision import ImageHead, mean_of_patches
from pyapp.nn.vision.windows import WindowModel

from .loading.config import require
from .loading.pictures_config import WindowConfig, check_numbers

MODEL_TYPES = ("swinv2",)
IMAGE_PROCESSOR = "ViT"  # of files that name none
BASE = "swinv2"  # the encoder's name in files with a head
# Of the first training; computed here.
IGNORED = r"(swinv2\.)?embeddings\.mask_token|.*\.relative_(coords_table|position_index)|.*attn_mask"


@dataclass(frozen=True, kw_only=True)
class Config(WindowConfig):
    """The hyper-parameters, by the names of config.json. pretrained_window_sizes: the windows of the first training,
    of each stage; 0: the same.
    """

    model_type = MODEL_TYPES[0]
    post_norm = True

    pretrained_window_sizes: tuple[int, ...] = (0, 0, 0, 0)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("pretrained_window_sizes", self.pretrained_window_sizes, 256, 0)
        smallest = min(self.grid) >> (len(self.depths) - 1)
        require(smallest > 0, f"image_size {self.image_size} leaves no places for {len(self.depths)} stages")

    def trained_window(self, stage: int) -> int:
        """The window of a stage in the first training; 0: the same."""
        sizes = self.pretrained_window_sizes
        return sizes[stage] if stage < len(sizes) else 0


class SwinV2(WindowModel):
    """The encoder, for pictures of its own size: the windows of the last stages are not larger than their maps."""

    title = "Swin V2"


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture, read at the mean of its patches."""
    return ImageHead(BASE, SwinV2(config), config.hidden_size, len(config.labels), mean_of_patches)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": SwinV2,
    "image-classification": image_classification,
}
