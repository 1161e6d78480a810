"""The Vision Transformer (Dosovitskiy et al. 2020, arXiv 2010.11929): a transformer encoder over a picture's patches.
That of CLIP has a norm before its layers too (timm's vit_*_clip_*).

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor
from pyapp.nn import LayerNorm, Module
from pyapp.nn.vision.vision import ImageHead, PlacedPatches, VisionEncoder

from .loading.pictures_config import PooledConfig

MODEL_TYPES = ("vit",)
IMAGE_PROCESSOR = "ViT"  # of files that name none
BASE = "vit"  # the encoder's name in files with a head
IGNORED = r"(vit\.)?embeddings\.mask_token"  # of the first training


@dataclass(frozen=True, kw_only=True)
class Config(PooledConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    pre_norm: bool = False  # a norm before the layers, and patches without a bias


class NormedPatches(PlacedPatches):
    """Patches without a bias, with their positions, normalised."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.patch_embeddings.projection.bias = None
        self.norm_pre = LayerNorm(config.hidden_size, config.layer_norm_eps)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, 1 + patches, D)."""
        return self.norm_pre(super().forward(pixel_values))


class ViT(VisionEncoder):
    """The encoder."""

    def __init__(self, config: Config, pooler: bool = True) -> None:
        super().__init__(config, (NormedPatches if config.pre_norm else PlacedPatches)(config), pooler)


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture, read at the class token."""
    return ImageHead(BASE, ViT(config, pooler=False), config.hidden_size, len(config.labels))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": ViT,
    "image-classification": image_classification,
}
