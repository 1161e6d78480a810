"""DINOv2 with registers (Darcet et al. 2023, arXiv 2309.16588): tokens beside those of the patches, which keep what is
of no place.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.nn import Module
from pyapp.nn.vision.scaled_vision import ScaledEncoder, class_and_mean
from pyapp.nn.vision.vision import ImageHead

from .loading.pictures_config import ScaledConfig, check_numbers

MODEL_TYPES = ("dinov2_with_registers",)
IMAGE_PROCESSOR = "Bit"  # of files that name none
BASE = MODEL_TYPES[0]  # the encoder's name in files with a head
IGNORED = rf"({BASE}\.)?embeddings\.mask_token"  # of the first training


@dataclass(frozen=True, kw_only=True)
class Config(ScaledConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]
    patch = 16

    num_register_tokens: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("num_register_tokens", [self.num_register_tokens], 1 << 10)

    @property
    def registers(self) -> int:
        """The tokens between the class token and the patches."""
        return self.num_register_tokens


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture, read at the class token and the mean of the patches."""
    read = class_and_mean(config.registers)
    return ImageHead(BASE, ScaledEncoder(config), 2 * config.hidden_size, len(config.labels), read)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": ScaledEncoder,
    "image-classification": image_classification,
}
