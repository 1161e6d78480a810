"""PVT (Wang et al. 2021, arXiv 2102.12122): stages of patches with learned positions, and of attention to a coarser
picture.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.nn import Conv2d, LayerNorm, Module, ModuleList
from pyapp.nn.encoders.encoders import first_token
from pyapp.nn.layers.feed_forward import FeedForward
from pyapp.nn.layers.linear import ResidualLinear
from pyapp.nn.parameter import new_parameter
from pyapp.nn.vision.pyramid import CoarserAttention
from pyapp.nn.vision.vision import ImageHead, ImageModel, as_map, as_sequence, check_pictures, token, with_tokens

from .loading.config import require
from .loading.pictures_config import SIDE_LIMIT, PyramidConfig

MODEL_TYPES = ("pvt",)
IMAGE_PROCESSOR = "Pvt"  # of files that name none
BASE = "pvt"  # the encoder's name in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(PyramidConfig):
    """The hyper-parameters, by the names of config.json."""

    model_type = MODEL_TYPES[0]

    image_size: int = 224
    hidden_sizes: tuple[int, ...] = (64, 128, 320, 512)
    patch_sizes: tuple[int, ...] = (4, 2, 2, 2)
    mlp_ratios: tuple[int, ...] = (8, 8, 4, 4)
    layer_norm_eps: float = 1e-6
    qkv_bias: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.image_size <= SIDE_LIMIT, f"image_size is {self.image_size:,}")
        require(self.sr_ratios[-1] == 1, f"the sr_ratio of the last stage is {self.sr_ratios[-1]}, expected 1")
        side = self.image_size
        for i, (patch, kernel) in enumerate(zip(self.patch_sizes, self.strides, strict=True)):
            known = self.image_size >> i + 1 if i else self.image_size  # for which files have positions
            side = (side - kernel) // patch + 1
            require(side >= 1 and known // patch == side, f"image_size {self.image_size} does not fit stage {i + 1}")
            require(side >= self.sr_ratios[i], f"sr_ratio {self.sr_ratios[i]} is larger than the map of stage {i + 1}")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        steps = values.get("sequence_reduction_ratios")
        return super().from_dict(values if steps is None else {**values, "sr_ratios": steps})

    def to_dict(self) -> dict[str, Any]:
        """As JSON values."""
        return super().to_dict() | {"sequence_reduction_ratios": [*self.sr_ratios]}

    def places(self, stage: int) -> int:
        """The patches of a stage."""
        known = self.image_size >> stage + 1 if stage else self.image_size
        return int((known // self.patch_sizes[stage]) ** 2)


class Patches(Module):
    """Patches with positions, in the last stage after a token."""

    def __init__(self, config: Config, stage: int) -> None:
        super().__init__()
        width, last = config.hidden_sizes[stage], stage + 1 == len(config.depths)
        before = (config.num_channels, *config.hidden_sizes)[stage]
        self.position_embeddings = new_parameter(ops.zeros, 1, config.places(stage) + last, width)
        self.cls_token = token(width) if last else None
        self.projection = Conv2d(before, width, config.strides[stage], config.patch_sizes[stage])
        self.layer_norm = LayerNorm(width, config.layer_norm_eps)

    def forward(self, x: Tensor) -> tuple[Tensor, tuple[int, int]]:
        """x (B, C, H, W) → (B, T, D), and the rows and columns of patches."""
        x = self.projection(x)
        size = int(x.shape[2]), int(x.shape[3])
        x = self.layer_norm(as_sequence(x))
        return (x if self.cls_token is None else with_tokens(x, self.cls_token)) + self.position_embeddings, size


class Attention(CoarserAttention):
    """Attention of each place to the places of a coarser picture, if there is one."""

    def __init__(self, config: Config, stage: int) -> None:
        width, step = config.hidden_sizes[stage], config.sr_ratios[stage]
        super().__init__(width, config.num_attention_heads[stage], config.qkv_bias)
        self.sequence_reduction = Conv2d(width, width, step, step) if step > 1 else None
        self.layer_norm = LayerNorm(width, config.layer_norm_eps) if step > 1 else None

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        source = x
        if self.sequence_reduction is not None and self.layer_norm is not None:
            source = self.layer_norm(as_sequence(self.sequence_reduction(as_map(x, *size))))
        return self.attend_to(source, x)


class Layer(Module):
    """Attention and a feed-forward part, each with a norm before it and a residual around it."""

    def __init__(self, config: Config, stage: int) -> None:
        super().__init__()
        width, epsilon = config.hidden_sizes[stage], config.layer_norm_eps
        self.layer_norm_1, self.layer_norm_2 = LayerNorm(width, epsilon), LayerNorm(width, epsilon)
        self.attention = Module()
        self.attention.add_module("self", Attention(config, stage))
        self.attention.output = Module()
        self.attention.output.dense = ResidualLinear(width, width)
        inner = width * config.mlp_ratios[stage]
        self.mlp = FeedForward(width, inner, config.hidden_act, names=("dense1", "dense2"))

    def forward(self, x: Tensor, size: tuple[int, int]) -> Tensor:
        """x (B, T, D) → (B, T, D)."""
        seen = self.attention._modules["self"](self.layer_norm_1(x), size)
        x = self.attention.output.dense(seen, x)
        return self.mlp(self.layer_norm_2(x), x)


class PVT(ImageModel):
    """The encoder."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        stages = range(len(config.depths))
        self.encoder = Module()
        self.encoder.patch_embeddings = ModuleList(Patches(config, i) for i in stages)
        self.encoder.block = ModuleList(ModuleList(Layer(config, i) for _ in range(config.depths[i])) for i in stages)
        self.encoder.layer_norm = LayerNorm(config.hidden_sizes[-1], config.layer_norm_eps)

    @property
    def pixels(self) -> tuple[int, int]:
        return self.config.image_size, self.config.image_size

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → hidden states (B, 1 + patches, D)."""
        check_pictures("PVT", pixel_values, self.config.num_channels, self.pixels)
        x, size = pixel_values, (0, 0)
        for patches, layers in zip(self.encoder.patch_embeddings, self.encoder.block, strict=True):
            x, size = patches(x if x.ndim == 4 else as_map(x, *size))
            for layer in layers:
                x = layer(x, size)
        return self.encoder.layer_norm(x)


def image_classification(config: Config) -> ImageHead:
    """Scores of the labels of a picture, read at the token."""
    return ImageHead(BASE, PVT(config), config.hidden_sizes[-1], len(config.labels), first_token)


TASKS: Mapping[str, Callable[[Config], Module]] = {
    "image-features": PVT,
    "image-classification": image_classification,
}
