"""Kinds of image processors for models that estimate depths."""

from __future__ import annotations

from math import sqrt

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import ArgumentError

from .processor import ImageProcessor, kind
from .settings import BOTH_SIDES, check_whole, square, wrong
from .sizes import near, plausible

# How values are found between pixels, by the filter's number.
MODES = {0: "nearest-exact", 2: "bilinear", 3: "bicubic"}


@kind("DPT", "PromptDepthAnything", size=square(384), resample=3)
@dataclass(frozen=True)
class DPT(ImageProcessor):
    """A picture is only resized, to sides that are multiples."""

    keep_aspect_ratio: bool = False  # whether a picture is only scaled
    ensure_multiple_of: int = 1  # pixels

    SIZES = (BOTH_SIDES,)

    def _check(self) -> None:
        super()._check()
        check_whole("ensure_multiple_of", self.ensure_multiple_of, 1, 256)
        self._check_steps()

    def _check_steps(self) -> None:
        if self.do_pad or self.do_center_crop:
            wrong("do_pad or do_center_crop", True, "false: pictures for DPT are only resized")

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        if not self.do_resize:
            return super().fixed_size
        return None if self.keep_aspect_ratio else self._target(1, 1)

    def _target(self, height: int, width: int) -> tuple[int, int]:
        wanted = self.size["height"], self.size["width"]
        return near(height, width, wanted, self.keep_aspect_ratio, self.ensure_multiple_of)


def check_mode(resample: int, known: tuple[int, ...]) -> None:
    """ModelError for a filter that these processors do not have."""
    if resample not in known:
        wrong("resample", resample, f"one of {', '.join(map(str, known))}")


@kind(
    "ZoeDepth", size={"height": 384, "width": 512}, resample=2, do_pad=True, keep_aspect_ratio=True,
    ensure_multiple_of=32,
)  # fmt: skip
@dataclass(frozen=True)
class ZoeDepth(DPT):
    """A picture has margins, its reflection, and is resized with them after it is rescaled."""

    def _check_steps(self) -> None:
        check_mode(self.resample, (2, 3))

    def margins(self, height: int, width: int) -> tuple[int, int]:
        return (int(sqrt(height / 2) * 3), int(sqrt(width / 2) * 3)) if self.do_pad else (0, 0)

    def _resized(self, image: Tensor) -> Tensor:
        return image

    def _normalized(self, x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        high, wide = self.margins(int(x.shape[1]), int(x.shape[2]))
        if high >= x.shape[1] or wide >= x.shape[2]:
            raise ArgumentError(f"a picture of {x.shape[1]} x {x.shape[2]} pixels is too small to have margins")
        x = ops.pad(x.unsqueeze(0), (wide, wide, high, high), "reflect")  # (1, 3, h, w)
        if self.do_resize:
            size = self._target(int(x.shape[2]), int(x.shape[3]))
            x = ops.interpolate(x, size=size, mode=MODES[self.resample], align_corners=True)
        return super()._normalized(x[0], mean, std)


@kind("GLPN", size=square(224), resample=2, do_normalize=False, size_divisor=32)
@dataclass(frozen=True)
class GLPN(ImageProcessor):
    """Each side is rounded down to a multiple."""

    size_divisor: int = 0

    def _check(self) -> None:
        super()._check()
        check_whole("size_divisor", self.size_divisor, 1, 256)

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        return None

    def _target(self, height: int, width: int) -> tuple[int, int]:
        high, wide = (side - side % self.size_divisor for side in (height, width))
        return plausible(max(high, self.size_divisor), max(wide, self.size_divisor))


@kind("DepthPro", size=square(1536), resample=2)
@dataclass(frozen=True)
class DepthPro(ImageProcessor):
    """A picture is resized last, between the nearest pixels, however much smaller it becomes."""

    SIZES = (BOTH_SIDES,)

    def _check(self) -> None:
        super()._check()
        check_mode(self.resample, (0, 2, 3))

    def _resized(self, image: Tensor) -> Tensor:
        return image

    def _normalized(self, x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        x = super()._normalized(x, mean, std)
        if not self.do_resize:
            return x
        size = self.size["height"], self.size["width"]
        align = None if self.resample == 0 else False
        return ops.interpolate(x.unsqueeze(0), size=size, mode=MODES[self.resample], align_corners=align)[0]
