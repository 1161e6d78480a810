"""DINOv3's ConvNeXt (Simeoni et al. 2025, arXiv 2508.10104): a convolutional network of general features, which learned
from DINOv3's Vision Transformer.

Files have other names than those of ConvNeXt.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Module
from pyapp.nn.vision.convnext import ConvNext
from pyapp.nn.vision.vision import as_sequence

from .loading.pictures_config import ConvNextConfig

MODEL_TYPES = ("dinov3_convnext",)
IMAGE_PROCESSOR = "DINOv3ViT"  # of files that name none
BASE = ""
# Parts of names, and those here.
FIRST = {"0": "embeddings.patch_embeddings", "1": "embeddings.layernorm"}
PARTS = {
    "depthwise_conv": "dwconv", "layer_norm": "layernorm", "pointwise_conv1": "pwconv1", "pointwise_conv2": "pwconv2",
    "gamma": "layer_scale_parameter",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Config(ConvNextConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    layer_norm_eps: float = 1e-6
    layer_scale_init_value: float = 1e-6

    @property
    def scales(self) -> bool:
        """Whether layers are scaled."""
        return True


def renamed(name: str) -> str:
    """The name of a parameter here."""
    name = name.removeprefix("model.")
    if match := re.fullmatch(r"stages\.0\.downsample_layers\.([01])\.(.*)", name):
        return f"{FIRST[match[1]]}.{match[2]}"
    if match := re.fullmatch(r"stages\.(\d+)\.downsample_layers\.(.*)", name):
        return f"encoder.stages.{match[1]}.downsampling_layer.{match[2]}"
    if match := re.fullmatch(r"stages\.(\d+)\.layers\.(\d+)\.(\w+)(\..*)?", name):
        part = "gamma" if (match[3], match[4]) == ("weight", None) else match[3]
        return f"encoder.stages.{match[1]}.layers.{match[2]}.{PARTS.get(part, part)}{match[4] or ''}"
    return name.replace("layer_norm.", "layernorm.")


class DINOv3ConvNext(ConvNext):
    """The network, whose features are those of the picture, then those of its places."""

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, 3, H, W) → (B, 1 + places, C)."""
        x = as_sequence(super().forward(pixel_values))  # (B, places, C)
        return self.layernorm(ops.cat([x.mean(1, keepdim=True), x], 1))


TASKS: Mapping[str, Callable[[Config], Module]] = {"image-features": DINOv3ConvNext}
