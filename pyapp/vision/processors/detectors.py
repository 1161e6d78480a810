"""Kinds of image processors for detection and segmentation: sides between bounds, frames and padding."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops

from ..resampling import smoothly_resized
from .frames import padded
from .processor import ImageProcessor, kind
from .settings import BOTH_SIDES, CLIP, IMAGENET, LONG_SIDE, SHORT_AND_LONG, SHORT_SIDE, check_whole, square
from .sizes import between, plausible

BOUNDED = {"shortest_edge": 800, "longest_edge": 1333}
GREY = 114  # of the frames of YOLO's pictures


@kind("OneFormer", size=BOUNDED, resample=2, statistics=IMAGENET, do_pad=True)
@kind("RTDetr", size=square(640), resample=2, statistics=IMAGENET, do_normalize=False)
@kind(
    "Detr", "ConditionalDetr", "DeformableDetr", "GroundingDino", "RfDetr",
    size=BOUNDED, resample=2, statistics=IMAGENET, do_pad=True,
)  # fmt: skip
@dataclass(frozen=True)
class Detr(ImageProcessor):
    """The shorter side has a size, and the longer one a limit, which older files have by itself."""

    @classmethod
    def _read_size(cls, given: Any, longest: Any, usual: Mapping[str, int]) -> Mapping[str, int]:
        if isinstance(given, dict) and longest is not None and set(given) == SHORT_SIDE:
            given = {**given, "longest_edge": longest}
        return super()._read_size(given, longest, usual)

    @classmethod
    def _keeps_shape(cls, usual: Mapping[str, int]) -> bool:
        return True


@kind("Yolos", size=BOUNDED, resample=2, statistics=IMAGENET, do_pad=True)
@dataclass(frozen=True)
class Yolos(Detr):
    """Both sides are rounded down to whole patches."""

    def _target(self, height: int, width: int) -> tuple[int, int]:
        high, wide = super()._target(height, width)
        if set(self.size) != set(BOUNDED):
            return high, wide
        return high - high % 16 or 16, wide - wide % 16 or 16


@kind("MaskFormer", "Mask2Former", size=BOUNDED, resample=2, statistics=IMAGENET, do_pad=True, size_divisor=32)
@dataclass(frozen=True)
class MaskFormer(Detr):
    """Each side is rounded up to a multiple of `size_divisor`; 0: as it is."""

    size_divisor: int = 0

    @classmethod
    def _renewed(cls, settings: Mapping[str, Any], usual: Mapping[str, Any]) -> Mapping[str, Any]:
        old = {"size_divisor": settings["size_divisibility"]} if "size_divisibility" in settings else {}
        return {**super()._renewed(settings, usual), **old}

    def _check(self) -> None:
        super()._check()
        check_whole("size_divisor", self.size_divisor, 0, 256)

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        if not self.do_resize:
            return super().fixed_size
        return self._target(1, 1) if "height" in self.size else None

    def _target(self, height: int, width: int) -> tuple[int, int]:
        if not self.size_divisor:
            return super()._target(height, width)
        own = self.size.get("height", 0), self.size.get("width", 0)
        short, long = self.size.get("shortest_edge", 1), self.size.get("longest_edge", 1)
        found = own if all(own) else between(height, width, short, long)
        high, wide = (side + -side % self.size_divisor for side in found)
        return plausible(high, wide)


@kind("Yolo", size={"longest_edge": 640}, resample=2, do_normalize=False, ensure_multiple_of=32)
@dataclass(frozen=True)
class Yolo(ImageProcessor):
    """A picture is in the middle of a grey frame whose sides are multiples."""

    ensure_multiple_of: int = 1  # pixels

    SIZES = (LONG_SIDE,)

    def _check(self) -> None:
        super()._check()
        check_whole("ensure_multiple_of", self.ensure_multiple_of, 1, 256)

    def _target(self, height: int, width: int) -> tuple[int, int]:
        scale = self.size["longest_edge"] / max(height, width)
        return plausible(max(1, round(height * scale)), max(1, round(width * scale)))

    def _resized(self, image: Tensor) -> Tensor:
        """(H, W, 3) uint8 → (h, w, 3) uint8. Values are interpolated between the nearest four, however much smaller the
        picture becomes.
        """
        high, wide = self._target(int(image.shape[0]), int(image.shape[1]))
        if (high, wide) != tuple(image.shape[:2]):
            x = image.permute(2, 0, 1).unsqueeze(0).to("float32")  # (1, 3, h, w)
            x = ops.interpolate(x, size=(high, wide), mode="bilinear", align_corners=False)
            image = ops.floor(x + 0.5).to("uint8")[0].permute(1, 2, 0)
        top, left, rows, columns = self._frame(high, wide)
        frame = ops.tensor([GREY], dtype="uint8").to(image.device).expand(rows, columns, 3).contiguous()
        frame[top : top + high, left : left + wide] = image
        return frame

    def _frame(self, high: int, wide: int) -> tuple[int, int, int, int]:
        """Where a resized picture lies in its frame (top, left), and the frame's size (height, width)."""
        rows, columns = (ceil(side / self.ensure_multiple_of) * self.ensure_multiple_of for side in (high, wide))
        return round((rows - high) / 2 - 0.1), round((columns - wide) / 2 - 0.1), rows, columns

    def area(self, height: int, width: int) -> tuple[float, float, float, float] | None:
        top, left, rows, columns = self._frame(*self._target(height, width))
        scale = self.size["longest_edge"] / max(height, width)
        return left / columns, top / rows, width * scale / columns, height * scale / rows


@kind("Owlv2", size=square(960), resample=2, statistics=CLIP, do_pad=True)
@dataclass(frozen=True)
class Owlv2(ImageProcessor):
    """A picture is at the top left of a square, which is smoothed and resized after it is rescaled."""

    SIZES = (BOTH_SIDES,)

    def area(self, height: int, width: int) -> tuple[float, float, float, float] | None:
        return (0.0, 0.0, width / max(height, width), height / max(height, width)) if self.do_pad else None

    def _resized(self, image: Tensor) -> Tensor:
        return image

    def _normalized(self, x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        if self.do_resize:
            side = max(x.shape[1:]) if self.do_pad else None
            x = smoothly_resized(x, self.size["height"], self.size["width"], side)
        elif self.do_pad:
            side = max(x.shape[1:])
            x = ops.pad(x, (0, side - x.shape[2], 0, side - x.shape[1]))
        return super()._normalized(x, mean, std)


@kind("Sam", size={"longest_edge": 1024}, resample=2, statistics=IMAGENET, do_pad=True, pad_size=square(1024))
@dataclass(frozen=True)
class Sam(ImageProcessor):
    """The longer side has a size, and the rest of a square is zeros."""

    SIZES = (LONG_SIDE,)

    def _target(self, height: int, width: int) -> tuple[int, int]:
        scale = self.size["longest_edge"] / max(height, width)
        return max(1, int(height * scale + 0.5)), max(1, int(width * scale + 0.5))


@kind("Eomt", size={"shortest_edge": 640, "longest_edge": 640}, resample=2, statistics=IMAGENET)
@dataclass(frozen=True)
class Eomt(Detr):
    """A picture is cut along its longer side into squares of its shorter one, which overlap (`do_split_image`), or
    stands in the upper left of a black frame (`do_pad`).
    """

    do_split_image: bool = False

    SIZES = (SHORT_SIDE, SHORT_AND_LONG)

    def starts(self, height: int, width: int) -> list[int]:
        """Where the squares of a resized picture begin along its longer side."""
        side, long = self.size["shortest_edge"], max(height, width)
        count = ceil(long / side)
        overlap = (count * side - long) / (count - 1) if count > 1 else 0
        return [int(i * (side - overlap)) for i in range(count)]

    @property
    def frame(self) -> tuple[int, int]:
        """The height and the width of what the model reads."""
        side = self.size["shortest_edge"]
        return side, self.size.get("longest_edge", side)

    def _views(self, image: Tensor) -> list[Tensor]:
        image = super()._resized(image)
        height, width = int(image.shape[0]), int(image.shape[1])
        parts = [image]
        if self.do_split_image:
            axis, side = int(height <= width), self.size["shortest_edge"]
            starts = self.starts(height, width)
            parts = [image.narrow(axis, at, min(side, image.shape[axis] - at)) for at in starts]
        if self.do_pad:
            high, wide = self.frame
            parts = [padded(part.permute(2, 0, 1), high, wide).permute(1, 2, 0) for part in parts]
        return parts

    def _resized(self, image: Tensor) -> Tensor:
        return image

    @property
    def _pads_batches(self) -> bool:
        return False

    def whole_map(self, x: Tensor, height: int, width: int) -> Tensor:
        if not self.do_resize or not (self.do_split_image or self.do_pad):
            return x
        high, wide = self.seen(height, width)
        if not self.do_split_image:
            return ops.interpolate(x, size=self.frame, mode="bilinear", align_corners=False)[:, :, :high, :wide]
        side, axis = self.size["shortest_edge"], 3 if high <= wide else 2
        parts = ops.interpolate(x, size=(side, side), mode="bilinear", align_corners=False)
        total, count = (ops.zeros(1, x.shape[1], high, wide, device=x.device) for _ in range(2))
        for i, at in enumerate(self.starts(high, wide)):
            index = (slice(None),) * axis + (slice(at, at + side),)
            total[index] = total[index] + parts.narrow(0, i, 1)
            count[index] = count[index] + 1
        return total / count
