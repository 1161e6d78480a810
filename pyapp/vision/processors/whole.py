"""Kinds of image processors whose pictures stay whole: those that differ by their settings, and those of a few models
that have a step of their own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor

from .frames import as_square, cropped, mirrored
from .processor import ImageProcessor, kind
from .settings import BOTH_SIDES, CLIP, IMAGENET, LARGEST, SHORT_SIDE, check_whole, square, wrong
from .sizes import of_pair, shortest

SHORT = {"shortest_edge": 224}

for _declare in (
    kind("ViT", "LayoutLMv3", size=square(224), resample=2),
    kind("DeiT", size=square(256), resample=3, do_center_crop=True),
    kind("Beit", "Siglip", size=square(224), resample=3),
    kind("Bit", "CLIP", "ChineseCLIP", size=SHORT, resample=3, statistics=CLIP, do_center_crop=True),
    kind("Chameleon", size={"shortest_edge": 512}, resample=1, statistics=((1.0,) * 3, (1.0,) * 3), do_center_crop=True,
         crop_size=square(512), rescale_factor=0.0078),
    kind("OwlViT", size=square(768), resample=3, statistics=CLIP, crop_size=square(768)),
    kind("Blip", size=square(384), resample=3, statistics=CLIP),
    kind("MobileNetV1", "MobileNetV2", size={"shortest_edge": 256}, resample=2, do_center_crop=True),
    kind("Pvt", size=square(224), resample=3, statistics=IMAGENET),
    kind("VideoMAE", size=SHORT, resample=2, do_center_crop=True),
    kind("Timesformer", size=SHORT, resample=2, statistics=IMAGENET, do_center_crop=True),
    kind("Vivit", size={"shortest_edge": 256}, resample=2, do_center_crop=True, rescale_factor=1 / 127.5,
         rescale_offset=True),
    kind("Segformer", size=square(512), resample=2, statistics=IMAGENET),
    kind("DINOv3ViT", size=square(224), resample=2, statistics=IMAGENET),
    kind("VitPose", size={"height": 256, "width": 192}, resample=2, statistics=IMAGENET),
    kind("Sam2", size=square(1024), resample=2, statistics=IMAGENET),
    kind("Sam3", size=square(1008), resample=2),
):  # fmt: skip
    _declare(ImageProcessor)


@kind("ConvNext", size={"shortest_edge": 384}, resample=3)
@dataclass(frozen=True)
class ConvNext(ImageProcessor):
    """A square: below 384 pixels of a side the middle of a larger one, else the whole picture, distorted."""

    crop_pct: float = 224 / 256  # the square, as a part of the larger one

    SIZES = (SHORT_SIDE,)

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        return (self.size["shortest_edge"],) * 2 if self.do_resize else super().fixed_size

    def _target(self, height: int, width: int) -> tuple[int, int]:
        side = self.size["shortest_edge"]
        return shortest(height, width, int(side / self.crop_pct)) if side < 384 else (side, side)

    def _resized(self, image: Tensor) -> Tensor:
        image, side = super()._resized(image), self.size["shortest_edge"]
        return cropped(image, side, side) if self.do_resize and side < 384 else image


@kind("Perceiver", size=square(224), resample=3, statistics=IMAGENET, do_center_crop=True, crop_size=square(256))
@dataclass(frozen=True)
class Perceiver(ImageProcessor):
    """A square is cropped before it is resized: as large a part of the shorter side as the size is of the crop."""

    SIZES = (BOTH_SIDES,)

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        return (self.size["height"], self.size["width"]) if self.do_resize else None

    def _resized(self, image: Tensor) -> Tensor:
        if self.do_center_crop:
            side = min(int(image.shape[0]), int(image.shape[1]))
            parts = [int(self.size[name] / self.crop_size[name] * side) for name in ("height", "width")]
            image = cropped(image, max(1, parts[0]), max(1, parts[1]))
        return super()._resized(image)

    def _centre(self, image: Tensor) -> Tensor:
        return image


@kind("PoolFormer", size=SHORT, resample=3, statistics=IMAGENET, do_center_crop=True, crop_pct=0.9)
@dataclass(frozen=True)
class PoolFormer(ImageProcessor):
    """The crop, of size `size`, is a part of the whole."""

    crop_pct: float = 224 / 256

    def _completed(self) -> ImageProcessor:
        if not self.do_resize:
            return self
        if "shortest_edge" not in self.size:
            wrong("size", self.size, "a shortest_edge")
        return replace(self, size={"shortest_edge": max(1, int(self.size["shortest_edge"] / self.crop_pct))})


@kind("Levit", size=SHORT, resample=3, statistics=IMAGENET, do_center_crop=True)
@dataclass(frozen=True)
class Levit(ImageProcessor):
    """The shorter side is 8/7 of what the file says."""

    def _completed(self) -> ImageProcessor:
        if "shortest_edge" not in self.size:
            return self
        return replace(self, size={"shortest_edge": int(self.size["shortest_edge"] * 256 / 224)})


@kind(
    "VJEPA2", size={"shortest_edge": 292}, resample=2, statistics=IMAGENET, do_center_crop=True, crop_size=square(256)
)
@dataclass(frozen=True)
class VJEPA2(ImageProcessor):
    """The shorter side is 8/7 of the crop's height."""

    def _completed(self) -> ImageProcessor:
        return replace(self, size={"shortest_edge": int(self.crop_size["height"] * 256 / 224)})


@kind("EfficientNet", size=square(346), resample=3, crop_size=square(289), include_top=True)
@dataclass(frozen=True)
class EfficientNet(ImageProcessor):
    """A picture is divided by the deviations once more for the classes, `include_top`."""

    include_top: bool = False

    def _normalized(self, x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        x = super()._normalized(x, mean, std)
        return x / std if self.include_top else x


@kind(
    "LayoutLMv2", size=square(224), resample=2, do_rescale=False, do_normalize=False, do_flip_channel_order=True,
)  # fmt: skip
@kind(
    "MobileViT", size=SHORT, resample=3, do_center_crop=True, crop_size=square(256), do_normalize=False,
    do_flip_channel_order=True,
)  # fmt: skip
@dataclass(frozen=True)
class MobileViT(ImageProcessor):
    """The channels are blue, green and red."""

    do_flip_channel_order: bool = False

    def _normalized(self, x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        return super()._normalized(x.flip(0) if self.do_flip_channel_order else x, mean, std)


@kind("TimmWrapper", size=SHORT, resample=2, statistics=IMAGENET, do_center_crop=True)
@dataclass(frozen=True)
class TimmWrapper(ImageProcessor):
    """timm's transforms, which are torchvision's."""

    def _centre(self, image: Tensor) -> Tensor:
        return cropped(image, self.crop_size["height"], self.crop_size["width"], to_even=True)


@kind("Llava", size=SHORT, resample=3, statistics=CLIP, do_center_crop=True)
@dataclass(frozen=True)
class Llava(ImageProcessor):
    """With `do_pad` a picture is in the middle of a square of the mean colour."""

    @property
    def _pads_batches(self) -> bool:
        return False

    def _resized(self, image: Tensor) -> Tensor:
        return super()._resized(as_square(image, _colour(self.image_mean)) if self.do_pad else image)


@kind("Janus", "DeepseekVL", size=square(384), resample=3, statistics=CLIP, do_pad=True)
@dataclass(frozen=True)
class Janus(ImageProcessor):
    """The longer side has a size, and the picture is in the middle of a square of the mean colour."""

    min_size: int = 14  # pixels of the shorter side, at least

    SIZES = (BOTH_SIDES,)

    def _check(self) -> None:
        super()._check()
        check_whole("min_size", self.min_size, 1, LARGEST)
        if self.size["height"] != self.size["width"] or self.min_size > self.size["height"]:
            wrong("size and min_size", (self.size, self.min_size), "a square, and a side up to its own")

    def _target(self, height: int, width: int) -> tuple[int, int]:
        scale = self.size["height"] / max(height, width)
        return max(round(height * scale), self.min_size), max(round(width * scale), self.min_size)

    def _resized(self, image: Tensor) -> Tensor:
        image = super()._resized(image)
        return as_square(image, _colour(self.image_mean)) if self.do_resize and self.do_pad else image


def _colour(mean: tuple[float, ...]) -> list[int]:
    """Red, green and blue from 0 to 255 of numbers from 0 to 1."""
    return [int(min(max(value, 0), 1) * 255) for value in mean]


@kind("Vilt", size={"shortest_edge": 384}, resample=3, size_divisor=32, do_pad=True)
@dataclass(frozen=True)
class Vilt(ImageProcessor):
    """The longer side is at most five thirds of the shorter one, and both are rounded down to multiples."""

    size_divisor: int = 0

    SIZES = (SHORT_SIDE,)

    def _check(self) -> None:
        super()._check()
        check_whole("size_divisor", self.size_divisor, 0, 256)

    def _target(self, height: int, width: int) -> tuple[int, int]:
        side = self.size["shortest_edge"]
        return of_pair(height, width, side, self.size_divisor or 1)


@kind("Swin2SR", size=square(224), resample=2, do_resize=False, do_normalize=False, do_pad=True, size_divisor=8)
@dataclass(frozen=True)
class Swin2SR(ImageProcessor):
    """After a picture's last pixels is its reflection, up to the next larger multiples."""

    size_divisor: int = 0

    @classmethod
    def _renewed(cls, settings: Mapping[str, Any], usual: Mapping[str, Any]) -> Mapping[str, Any]:
        settings = super()._renewed(settings, usual)
        if type(settings.get("pad_size")) is int:
            return {**settings, "size_divisor": settings["pad_size"], "pad_size": None}
        return settings

    def _check(self) -> None:
        super()._check()
        check_whole("size_divisor", self.size_divisor, 1, 256)

    def _normalized(self, x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        x = super()._normalized(x, mean, std)
        return mirrored(x, self.size_divisor) if self.do_pad else x
