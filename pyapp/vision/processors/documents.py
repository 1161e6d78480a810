"""Kinds of image processors whose pictures are pages of one size."""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops
from pyapp.errors import ArgumentError

from ..resampling import resize
from .frames import without_margin
from .processor import ImageProcessor, kind
from .settings import BOTH_SIDES, IMAGENET
from .sizes import shortest


@kind("Donut", size={"height": 2560, "width": 1920}, resample=2, do_thumbnail=True, do_pad=True)
@dataclass(frozen=True)
class Donut(ImageProcessor):
    """A page is turned if asked for, resized, made to fit, and in the middle of a page of one size."""

    do_thumbnail: bool = False
    do_align_long_axis: bool = False
    do_crop_margin: bool = False  # Nougat: whether the white around a page is left out

    SIZES = (BOTH_SIDES,)

    @classmethod
    def _sides(cls) -> tuple[str, str]:
        return "width", "height"

    def _resized(self, image: Tensor) -> Tensor:
        high, wide = self.size["height"], self.size["width"]
        if self.do_crop_margin:
            image = without_margin(image)
        height, width = int(image.shape[0]), int(image.shape[1])
        if self.do_align_long_axis and (width - height) * (wide - high) < 0:
            image = image.transpose(0, 1).flip(1)  # a quarter turn to the right
        if self.do_resize:
            image = resize(image, *shortest(int(image.shape[0]), int(image.shape[1]), min(high, wide)), self._method)
        if self.do_thumbnail:
            image = self._thumbnail(image)
        return self._on_page(image) if self.do_pad else image

    def _thumbnail(self, image: Tensor) -> Tensor:
        """(H, W, 3) uint8 → (h, w, 3) uint8, no larger than a page."""
        height, width = int(image.shape[0]), int(image.shape[1])
        high, wide = min(height, self.size["height"]), min(width, self.size["width"])
        if (high, wide) == (height, width):
            return image
        if height > width:
            wide = max(1, int(width * high / height))
        elif width > height:
            high = max(1, int(height * wide / width))
        return resize(image, high, wide, self._thumbnail_method)

    @property
    def _thumbnail_method(self) -> str:
        return self._method

    def _on_page(self, image: Tensor) -> Tensor:
        """(H, W, 3) uint8 → (h, w, 3) uint8: the page. ArgumentError if the picture does not fit."""
        high, wide = self.size["height"], self.size["width"]
        top, left = (high - int(image.shape[0])) // 2, (wide - int(image.shape[1])) // 2
        if min(top, left) < 0:
            raise ArgumentError(f"a picture of {list(image.shape[:2])} does not fit into the page of {high} x {wide}")
        page = ops.zeros(high, wide, 3, dtype="uint8", device=image.device)
        page[top : top + image.shape[0], left : left + image.shape[1]] = image
        return page


@kind(
    "Nougat", size={"height": 896, "width": 672}, resample=2, statistics=IMAGENET, do_thumbnail=True, do_pad=True,
    do_crop_margin=True,
)  # fmt: skip
@dataclass(frozen=True)
class Nougat(Donut):
    """The last step to a page's size is bicubic."""

    @property
    def _thumbnail_method(self) -> str:
        return "bicubic"
