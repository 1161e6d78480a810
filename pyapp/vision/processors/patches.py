"""Kinds of image processors whose pictures keep their shape, as far as whole patches allow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyapp.dataclass import dataclass

from .processor import ImageProcessor, kind
from .settings import BOTH_SIDES, CLIP, LONG_SIDE, SHORT_AND_LONG, check_whole, square
from .sizes import at_least, in_multiples, of_patches, of_pixels

PIXELS = 1 << 27  # of a picture


@dataclass(frozen=True)
class Patches(ImageProcessor):
    """Patches, of which squares become one vector each."""

    patch_size: int = 14  # pixels of a side
    merge_size: int = 2  # rows, and columns, of patches that become one vector

    def _check(self) -> None:
        super()._check()
        check_whole("patch_size", self.patch_size, 1, 256)
        check_whole("merge_size", self.merge_size, 1, 256)

    @property
    def _side(self) -> int:
        """The pixels of a side of what becomes one vector."""
        return self.patch_size * self.merge_size

    def tiles(self, height: int, width: int) -> tuple[int, int]:
        """The rows and columns of a picture's vectors."""
        high, wide = self.seen(height, width)
        return high // self._side, wide // self._side


@kind("Qwen2VL", size={"shortest_edge": 56 * 56, "longest_edge": 28 * 28 * 1280}, resample=3, statistics=CLIP)
@dataclass(frozen=True)
class Qwen2VL(Patches):
    """The size is a number of pixels, of the smallest and of the largest pictures."""

    SIZES = (SHORT_AND_LONG,)
    LARGEST = PIXELS

    @classmethod
    def _renewed(cls, settings: Mapping[str, Any], usual: Mapping[str, Any]) -> Mapping[str, Any]:
        names = {"shortest_edge": "min_pixels", "longest_edge": "max_pixels"}
        own = {edge: settings[name] for edge, name in names.items() if settings.get(name) is not None}
        size = usual["size"] if settings.get("size") is None else settings["size"]
        merged = {"size": {**size, **own}} if own and isinstance(size, dict) else {}
        return {**super()._renewed(settings, usual), **merged}

    def _target(self, height: int, width: int) -> tuple[int, int]:
        return of_pixels(height, width, self._side, self.size["shortest_edge"], self.size["longest_edge"])


@kind("PaddleOCRVL", size={"shortest_edge": 384 * 384, "longest_edge": 1536 * 1536}, resample=3, statistics=CLIP)
@dataclass(frozen=True)
class PaddleOCRVL(Qwen2VL):
    """Narrow pictures are made larger before."""

    def _target(self, height: int, width: int) -> tuple[int, int]:
        return super()._target(*at_least(height, width, self._side))


@kind(
    "Glm4v", "Glm46V", size={"shortest_edge": 112 * 112, "longest_edge": 28 * 28 * 15000}, resample=3, statistics=CLIP
)
@dataclass(frozen=True)
class Glm4v(Qwen2VL):
    """Each picture counts as the two frames of a patch, and small ones are made larger before."""

    def _target(self, height: int, width: int) -> tuple[int, int]:
        side = self._side
        if min(height, width) < side:
            scale = max(side / height, side / width)
            height, width = int(height * scale), int(width * scale)
        return of_pixels(height, width, side, self.size["shortest_edge"] / 2, self.size["longest_edge"] / 2)


@kind("Pixtral", size={"longest_edge": 1024}, resample=3, statistics=CLIP, do_pad=True, patch_size=16, merge_size=1)
@dataclass(frozen=True)
class Pixtral(Patches):
    """Pictures become no larger, but for the rest of a patch."""

    SIZES = (LONG_SIDE, BOTH_SIDES)

    @classmethod
    def _renewed(cls, settings: Mapping[str, Any], usual: Mapping[str, Any]) -> Mapping[str, Any]:
        settings, sides = super()._renewed(settings, usual), settings.get("patch_size")
        if isinstance(sides, dict) and set(sides) == BOTH_SIDES and sides["height"] == sides["width"]:
            return {**settings, "patch_size": sides["height"]}
        return settings

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        return None

    def _target(self, height: int, width: int) -> tuple[int, int]:
        return in_multiples(height, width, self.size, self._side)


@kind("Siglip2", size=square(224), resample=2, patch_size=16)
@dataclass(frozen=True)
class Siglip2(ImageProcessor):
    """A picture has as many patches as a limit allows."""

    patch_size: int = 14  # pixels of a side
    max_num_patches: int = 256  # of a picture

    def _check(self) -> None:
        super()._check()
        check_whole("patch_size", self.patch_size, 1, 256)
        check_whole("max_num_patches", self.max_num_patches, 1, 1 << 14)

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        return None

    def _target(self, height: int, width: int) -> tuple[int, int]:
        return of_patches(height, width, self.patch_size, self.max_num_patches)
