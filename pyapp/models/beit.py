"""BEiT (Bao et al. 2021, arXiv 2106.08254): a Vision Transformer whose attention knows the distances of patches, with
scaled layers. Features of a picture are the mean of its patches.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import LayerNorm, Module
from pyapp.nn.beit import BeitEmbeddings, BeitEncoder
from pyapp.nn.encoders import first_token
from pyapp.nn.vision import (
    ImageHead,
    ImageModel,
    check_pictures,
)

from .loading.pictures_config import BeitConfig

MODEL_TYPES = ("beit",)
IMAGE_PROCESSOR = "Beit"  # of files that name none
BASE = "beit"  # the encoder's name in files with a head
IGNORED = r"(beit\.)?embeddings\.mask_token|.*relative_position_index"  # of the first training; computed here


@dataclass(frozen=True, kw_only=True)
class Config(BeitConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]


class MeanPooler(Module):
    """The norm of the mean of the patches."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.layernorm = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, x: Tensor) -> Tensor:
        """x (B, 1 + patches, D) → (B, D)."""
        return self.layernorm(x.narrow(1, 1, x.shape[1] - 1).mean(1))


class Beit(ImageModel):
    """The encoder; the last norm is that of the patches' mean, unless the configuration says the class token's."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.embeddings = BeitEmbeddings(config)
        self.encoder = BeitEncoder(config)
        mean = config.use_mean_pooling
        self.layernorm = None if mean else LayerNorm(config.hidden_size, config.layer_norm_eps)
        self.pooler: Any = MeanPooler(config) if mean else None

    @property
    def pixels(self) -> tuple[int, int]:
        found: tuple[int, int] = self.config.image_size
        return found

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → hidden states (B, 1 + patches, D)."""
        check_pictures("BEiT", pixel_values, self.config.num_channels, self.pixels)
        x = self.encoder(self.embeddings(pixel_values))
        return x if self.layernorm is None else self.layernorm(x)

    def pooled(self, x: Tensor) -> Tensor:
        """The features (B, D) of a picture's hidden states (B, T, D)."""
        found: Tensor = first_token(x) if self.pooler is None else self.pooler(x)
        return found


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture."""
    encoder = Beit(config)
    return ImageHead(BASE, encoder, config.hidden_size, len(config.labels), encoder.pooled)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": Beit,
    "image-classification": image_classification,
}
