"""GLPN (Kim et al. 2022, arXiv 2201.07436): how far each place of a picture is, in metres, by SegFormer's encoder and a
decoder that weighs coarse against fine maps.

Parameters have the names of Hugging Face's files.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.engine.user_errors import describe
from pyapp.errors import InputError
from pyapp.nn import BatchNorm2d, Conv2d, Module, ModuleList, ReLU, Sequential
from pyapp.nn.vision.mix_transformer import MixTransformer
from pyapp.nn.vision.vision import ImageModel, check_pictures

from .loading.config import require
from .loading.pictures_config import WIDEST, PyramidConfig, from_start

MODEL_TYPES = ("glpn",)
IMAGE_PROCESSOR = "GLPN"  # of files that name none
BASE = "glpn"  # the encoder's name in files with a head


@dataclass(frozen=True, kw_only=True)
class Config(PyramidConfig):
    """The hyper-parameters, by the names of config.json. max_depth: in metres."""

    model_type = MODEL_TYPES[0]

    decoder_hidden_size: int = 64
    max_depth: float = 10.0
    head_in_index: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        width, count = self.decoder_hidden_size, len(self.depths)
        require(2 <= width <= WIDEST, f"decoder_hidden_size is {width:,}, expected 2 to {WIDEST:,}")
        require(0 < self.max_depth < float("inf"), f"max_depth is {self.max_depth}, expected a number above 0")
        require(0 <= self.head_in_index < count, f"head_in_index is {self.head_in_index}, of {count} maps")
        halves = all(stride == 2 for stride in self.strides[1:])
        require(halves, f"strides are {self.strides}: the decoder joins maps of which each is half as large")

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Any:
        """From the object of a config.json; other keys are ignored."""
        depths = values.get("depths")
        count = len(depths) if isinstance(depths, list | tuple) else 4
        return super().from_dict({**values, "head_in_index": from_start(values.get("head_in_index", -1), count)})

    @property
    def metric(self) -> bool:
        """Whether the depths are metres."""
        return True


class Fusion(Module):
    """The sum of a fine and a coarse map, each with its share at each place."""

    def __init__(self, width: int) -> None:
        super().__init__()
        half = width // 2
        self.convolutional_layer1 = Sequential(Conv2d(2 * width, width, 3, padding=1), BatchNorm2d(width), ReLU())
        self.convolutional_layer2 = Sequential(Conv2d(width, half, 3, padding=1), BatchNorm2d(half), ReLU())
        self.convolutional_layer3 = Conv2d(half, 2, 3, padding=1)

    def forward(self, fine: Tensor, coarse: Tensor) -> Tensor:
        """fine and coarse (B, D, H, W) → (B, D, H, W)."""
        x = self.convolutional_layer2(self.convolutional_layer1(ops.cat([fine, coarse], 1)))
        shares = self.convolutional_layer3(x).sigmoid()  # (B, 2, H, W)
        return fine * shares[:, :1] + coarse * shares[:, 1:]


def doubled(x: Tensor) -> Tensor:
    """(B, D, H, W) → (B, D, 2 H, 2 W)."""
    return ops.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False)


class Stage(Module):
    """A map in the decoder's width, joined with the coarser ones if there are any, in double size."""

    def __init__(self, inputs: int, width: int, first: bool) -> None:
        super().__init__()
        self.convolution = None if inputs == width else Conv2d(inputs, width, 1)
        self.fusion = None if first else Fusion(width)

    def forward(self, x: Tensor, coarse: Tensor | None) -> Tensor:
        """x (B, C, H, W), coarse (B, D, H, W) → (B, D, 2 H, 2 W)."""
        x = x if self.convolution is None else self.convolution(x)
        return doubled(x if self.fusion is None or coarse is None else self.fusion(x, coarse))


class GlpnForDepthEstimation(ImageModel):
    """The depth of pictures whose sides are multiples of the coarsest step, in metres."""

    def __init__(self, config: Config) -> None:
        super().__init__()
        self.config = config
        width = config.decoder_hidden_size
        self.glpn = Module()
        self.glpn.encoder = MixTransformer(config)
        self.decoder = Module()
        self.decoder.stages = ModuleList(
            Stage(inputs, width, i == 0) for i, inputs in enumerate(reversed(config.hidden_sizes))
        )
        self.head = Module()
        self.head.head = Sequential(Conv2d(width, width, 3, padding=1), ReLU(), Conv2d(width, 1, 3, padding=1))

    def forward(self, pixel_values: Tensor) -> Tensor:
        """pixel_values (B, C, H, W) → depths (B, H', W'). InputError for sides that are no multiples."""
        config = self.config
        check_pictures("GLPN", pixel_values, config.num_channels, least=config.least)
        step = prod(config.strides)
        if any(side % step for side in pixel_values.shape[2:]):
            raise InputError(
                f"GLPN: sides of pictures are multiples of {step} pixels, not those of {describe(pixel_values)}"
            )
        x: Tensor | None = None
        maps = []
        for stage, own in zip(self.decoder.stages, reversed(self.glpn.encoder(pixel_values)), strict=True):
            x = stage(own, x)
            maps.append(x)
        maps[-1] = doubled(maps[-1])
        return self.head.head(maps[config.head_in_index]).sigmoid().squeeze(1) * config.max_depth


TASKS: Mapping[str, Callable[[Config], Module]] = {"depth-estimation": GlpnForDepthEstimation}
