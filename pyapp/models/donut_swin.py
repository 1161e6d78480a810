"""The encoder of Donut (Kim et al. 2021, arXiv 2111.15664), which reads documents: Swin (arXiv 2103.14030) without its
last norm.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import Module
from pyapp.nn.vision.vision import ImageModel, check_pictures
from pyapp.nn.vision.windows import WindowEmbeddings, WindowEncoder

from .loading.config import require
from .loading.pictures_config import WindowConfig

MODEL_TYPES = ("donut-swin",)
IMAGE_PROCESSOR = "Donut"  # of files that name none
BASE = "donut"  # the encoder's name in files with a head
IGNORED = r"(donut\.)?embeddings\.mask_token|.*relative_position_index"  # of the first training; computed here


@dataclass(frozen=True, kw_only=True)
class Config(WindowConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    def __post_init__(self) -> None:
        super().__post_init__()
        require(not self.use_absolute_embeddings, "Donut with use_absolute_embeddings is not supported")


class DonutSwin(ImageModel):
    """The encoder, for pictures of any size."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embeddings = WindowEmbeddings(config)
        self.encoder = WindowEncoder(config)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → hidden states (B, patches, D)."""
        check_pictures("Donut", pixel_values, self.config.num_channels)
        return self.encoder(*self.embeddings(pixel_values))


TASKS: Mapping[str, Callable[[Config], Module]] = {"image-features": DonutSwin}
