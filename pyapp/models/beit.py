"""BEiT (Bao et al. 2021, arXiv 2106.08254): a Vision Transformer whose attention knows the distances of patches, with
scaled layers. Features of a picture are the mean of its patches.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.nn import Module
from pyapp.nn.vision.beit import Beit
from pyapp.nn.vision.vision import ImageHead

from .loading.pictures_config import BeitConfig

MODEL_TYPES = ("beit",)
IMAGE_PROCESSOR = "Beit"  # of files that name none
BASE = "beit"  # the encoder's name in files with a head
IGNORED = r"(beit\.)?embeddings\.mask_token|.*relative_position_index"  # of the first training; computed here


@dataclass(frozen=True, kw_only=True)
class Config(BeitConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture."""
    encoder = Beit(config)
    return ImageHead(BASE, encoder, config.hidden_size, len(config.labels), encoder.pooled)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": Beit,
    "image-classification": image_classification,
}
