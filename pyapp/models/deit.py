"""DeiT (Touvron et al. 2020, arXiv 2012.12877): a Vision Transformer with a second special token, which learned from
another model, and a head for each of the two.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Linear, Module
from pyapp.nn.encoders.encoders import first_token
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.vision import ImageHead, ImageModel, PatchEmbeddings, VisionEncoder, token, with_tokens

from .loading.pictures_config import PooledConfig

MODEL_TYPES = ("deit",)
IMAGE_PROCESSOR = "DeiT"  # of files that name none
BASE = "deit"  # the encoder's name in files with a head
IGNORED = r"(deit\.)?embeddings\.mask_token"  # of the first training


@dataclass(frozen=True, kw_only=True)
class Config(PooledConfig):
    """The hyper-parameters, by the names of config.json. teacher: whether the file has a head for each token, whose
    mean counts.
    """

    model_type = MODEL_TYPES[0]

    teacher: bool = False


def adapted(settings: Mapping[str, Any], names: Iterable[str]) -> dict[str, Any]:
    """The configuration with what the tensors of a file tell."""
    return {**settings, "teacher": any("distillation_classifier" in name for name in names)}


class Embeddings(Module):
    """The two special tokens and the patches, with their positions."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        width = config.hidden_size
        self.cls_token = token(width)
        self.distillation_token = token(width)
        self.patch_embeddings = PatchEmbeddings(config.num_channels, width, config.patch_size)
        self.position_embeddings = new_parameter(ops.zeros, 1, config.patches + 2, width)

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → (B, 2 + patches, D)."""
        x = with_tokens(self.patch_embeddings(pixel_values), self.cls_token, self.distillation_token)
        return x + self.position_embeddings


class DeiT(VisionEncoder):
    """The encoder, with two special tokens."""

    def __init__(self, config: Config, pooler: bool = True) -> None:
        super().__init__(config, Embeddings(config), pooler)


class TwoHeads(ImageModel):
    """The mean of the scores that the heads of both tokens give."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        self.deit = DeiT(config, pooler=False)
        self.cls_classifier = Linear(config.hidden_size, len(config.labels))
        self.distillation_classifier = Linear(config.hidden_size, len(config.labels))

    @property
    def pixels(self) -> tuple[int, int]:
        return self.deit.pixels

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → logits (B, labels)."""
        x = self.deit(pixel_values)  # (B, T, D)
        second = x.narrow(1, 1, 1).squeeze(1)  # (B, D)
        return (self.cls_classifier(first_token(x)) + self.distillation_classifier(second)) / 2


def image_classification(config: Config) -> ImageModel:
    """Scores of the labels of a picture."""
    if config.teacher:
        return TwoHeads(config)
    return ImageHead(BASE, DeiT(config, pooler=False), config.hidden_size, len(config.labels))


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": DeiT,
    "image-classification": image_classification,
}
