"""Kinds of image processors that show a model parts of a picture: tiles and the whole, or the whole and crops."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby
from math import ceil, floor
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, ops

from ..resampling import resize
from .frames import cut
from .processor import ImageProcessor, kind
from .settings import (
    BOTH_SIDES,
    CLIP,
    LARGEST,
    LONG_SIDE,
    SHORT_AND_LONG,
    SHORT_SIDE,
    check_whole,
    checked_size,
    is_list,
    square,
    wrong,
)
from .sizes import (
    MOST,
    best_resolution,
    covering_grid,
    first_canvas,
    least_canvas,
    longest,
    nearest_grid,
    of_tokens,
    plausible,
)
from .whole import Llava

ANY = 1, 1  # the only tile is the whole picture
TILES = 32  # of a side
PINPOINTS = ((336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008))
GRIDS = tuple((384 * rows, 384 * columns) for rows in range(1, 7) for columns in range(1, 7))  # of LLaVA-OneVision


@kind("Gemma3", size=square(224), resample=2)
@dataclass(frozen=True)
class Gemma3(ImageProcessor):
    """A long picture may be seen whole, and then in parts of its longer side."""

    do_pan_and_scan: bool = False  # whether it is
    pan_and_scan_min_crop_size: int = 256  # pixels of a part's shorter side
    pan_and_scan_max_num_crops: int = 4
    pan_and_scan_min_ratio_to_activate: float = 1.2  # of the longer to the shorter side

    def _check(self) -> None:
        super()._check()
        if self.do_pan_and_scan:
            check_whole("pan_and_scan_min_crop_size", self.pan_and_scan_min_crop_size, 1, LARGEST)
            check_whole("pan_and_scan_max_num_crops", self.pan_and_scan_max_num_crops, 1, TILES)

    def tiles(self, height: int, width: int) -> tuple[int, int]:
        """The rows and columns of a long picture's crops; one of them is 1."""
        long, short, least = max(height, width), min(height, width), self.pan_and_scan_min_crop_size
        if not self.do_pan_and_scan or long / short < self.pan_and_scan_min_ratio_to_activate:
            return 0, 0
        count = min(max(2, min(long // least, floor(long / short + 0.5))), self.pan_and_scan_max_num_crops)
        size = ceil(long / count)
        if min(size, short) < least:
            return 0, 0
        count = ceil(long / size)
        return (1, count) if width >= height else (count, 1)

    def _views(self, image: Tensor) -> list[Tensor]:
        height, width = int(image.shape[0]), int(image.shape[1])
        rows, columns = self.tiles(height, width)
        high, wide = (ceil(height / rows), ceil(width / columns)) if rows else (0, 0)
        return [image, *cut(image, rows, columns, high, wide)]


@kind("LlavaNext", size={"shortest_edge": 224}, resample=3, statistics=CLIP, do_center_crop=True)
@dataclass(frozen=True)
class LlavaNext(ImageProcessor):
    """The whole as a square, and the tiles of what fits into the best of several sizes, on black."""

    image_grid_pinpoints: Any = PINPOINTS  # the sizes (height, width)

    SIZES = (SHORT_SIDE, BOTH_SIDES)

    def _check(self) -> None:
        super()._check()
        found, side = self.image_grid_pinpoints, self._tile
        plausible = is_list(found) and 1 <= len(found) <= 256 and all(is_list(one) and len(one) == 2 for one in found)
        if not plausible or not all(
            type(n) is int and 1 <= n // side <= TILES and n % side == 0 for one in found for n in one
        ):
            wrong("image_grid_pinpoints", found, f"sizes in multiples of {side} pixels, up to {TILES}")
        if self.do_center_crop and self.crop_size["height"] != self.crop_size["width"]:
            wrong("crop_size", self.crop_size, "a square")

    @property
    def _tile(self) -> int:
        """The pixels of a tile's side."""
        return self.crop_size["height"] if self.do_center_crop else next(iter(self.size.values()))

    def tiles(self, height: int, width: int) -> tuple[int, int]:
        high, wide = best_resolution((height, width), self.image_grid_pinpoints)
        return high // self._tile, wide // self._tile

    def without_tiles(self) -> ImageProcessor:
        shared = {name: getattr(self, name) for name in Llava.__dataclass_fields__}
        return Llava(**{**shared, "kind": "Llava", "do_pad": True})

    def _views(self, image: Tensor) -> list[Tensor]:
        side, height, width = self._tile, int(image.shape[0]), int(image.shape[1])
        high, wide = best_resolution((height, width), self.image_grid_pinpoints)
        by_height, by_width = high / height, wide / width
        inner = min(ceil(height * by_width), high), wide
        if by_width >= by_height:
            inner = high, min(ceil(width * by_height), wide)
        frame = ops.zeros(high, wide, 3, dtype="uint8", device=image.device)
        top, left = (high - inner[0]) // 2, (wide - inner[1]) // 2
        frame[top : top + inner[0], left : left + inner[1]] = resize(image, *inner, self._method)
        whole = [*self.size.values()] * 2
        return [resize(image, whole[0], whole[1], self._method), *cut(frame, high // side, wide // side, side, side)]


@kind("LlavaOnevision", size=square(384), resample=3, statistics=CLIP, image_grid_pinpoints=GRIDS)
@dataclass(frozen=True)
class LlavaOnevision(LlavaNext):
    """LLaVA-NeXT's steps; a single number for the size is that of the shorter side, too."""

    @classmethod
    def _keeps_shape(cls, usual: Mapping[str, int]) -> bool:
        return True


@kind("GotOcr2", size=square(384), resample=3, statistics=CLIP)
@dataclass(frozen=True)
class GotOcr2(ImageProcessor):
    """The tiles of the grid whose shape is nearest, and the whole."""

    crop_to_patches: bool = False  # whether a picture is cut into tiles
    min_patches: int = 1
    max_patches: int = 12

    SIZES = (BOTH_SIDES,)

    def _check(self) -> None:
        super()._check()
        check_whole("max_patches", self.max_patches, 1, 1 << 10)
        check_whole("min_patches", self.min_patches, 1, self.max_patches)

    def tiles(self, height: int, width: int) -> tuple[int, int]:
        if not self.crop_to_patches:
            return 0, 0
        both = self._grid(height, width)
        return both if both != ANY else (0, 0)

    def _grid(self, height: int, width: int) -> tuple[int, int]:
        """The rows and columns of tiles."""
        sides = self.size["height"], self.size["width"]
        return nearest_grid(height, width, sides, self.min_patches, self.max_patches)

    def _views(self, image: Tensor) -> list[Tensor]:
        rows, columns = self.tiles(int(image.shape[0]), int(image.shape[1]))
        high, wide = self.size["height"], self.size["width"]
        larger = resize(image, rows * high, columns * wide, self._method) if rows else image
        return [*cut(larger, rows, columns, high, wide), image]


@kind("Cohere2Vision", size=square(512), resample=3, statistics=CLIP, crop_to_patches=True)
@dataclass(frozen=True)
class Cohere2Vision(GotOcr2):
    """The tiles of the canvas that makes a picture larger the least, or smaller the least where none does not."""

    def _grid(self, height: int, width: int) -> tuple[int, int]:
        return first_canvas(height, width, self.size["height"], self.max_patches)


@kind("Ovis2", size=square(384), resample=3, statistics=CLIP)
@dataclass(frozen=True)
class Ovis2(GotOcr2):
    """The whole, and the tiles of the fewest that show most of a picture's pixels."""

    use_covering_area_grid: bool = True  # else those of the grid whose shape is nearest

    def _grid(self, height: int, width: int) -> tuple[int, int]:
        if not self.use_covering_area_grid:
            return super()._grid(height, width)
        return covering_grid(height, width, self.size["height"], self.max_patches)

    def _views(self, image: Tensor) -> list[Tensor]:
        *tiles, whole = super()._views(image)
        return [whole, *tiles]


@kind("Mllama", size=square(224), resample=2)
@dataclass(frozen=True)
class Mllama(ImageProcessor):
    """The tiles of the smallest canvas that a picture fits into, on black."""

    max_image_tiles: int = 4  # of a picture

    SIZES = (BOTH_SIDES,)

    def _check(self) -> None:
        super()._check()
        _check_squares(self)
        check_whole("max_image_tiles", self.max_image_tiles, 1, 64)

    def tiles(self, height: int, width: int) -> tuple[int, int]:
        return least_canvas(height, width, self.size["height"], self.max_image_tiles)

    def _views(self, image: Tensor) -> list[Tensor]:
        rows, columns = self.tiles(int(image.shape[0]), int(image.shape[1]))
        return _on_canvas(image, rows, columns, self.size["height"], self._method, False)


@kind("Llama4", size=square(336), resample=2)
@dataclass(frozen=True)
class Llama4(ImageProcessor):
    """The tiles of a canvas that a picture fits into, on black, and the whole after several ones."""

    max_patches: int = 16
    resize_to_max_canvas: bool = False  # whether a picture becomes as large as its tiles allow

    SIZES = (BOTH_SIDES,)

    def _check(self) -> None:
        super()._check()
        _check_squares(self)
        check_whole("max_patches", self.max_patches, 1, 1 << 10)

    def tiles(self, height: int, width: int) -> tuple[int, int]:
        both = least_canvas(height, width, self.size["height"], self.max_patches, self.resize_to_max_canvas)
        return both if both != ANY else (0, 0)

    def _views(self, image: Tensor) -> list[Tensor]:
        (rows, columns), side = self.tiles(int(image.shape[0]), int(image.shape[1])), self.size["height"]
        found = _on_canvas(image, rows or 1, columns or 1, side, self._method, self.resize_to_max_canvas)
        return [*found, resize(image, side, side, self._method)] if rows else found

    def _normalized(self, x: Tensor, mean: Tensor, std: Tensor) -> Tensor:
        if not (self.do_rescale and self.do_normalize):
            return super()._normalized(x, mean, std)
        return _short(_short(_short(x) - _short(mean)) / _short(std))


def _check_squares(processor: Mllama | Llama4) -> None:
    if not processor.do_resize or processor.size["height"] != processor.size["width"]:
        wrong("do_resize and size", (processor.do_resize, processor.size), "true and a square")


def _on_canvas(image: Tensor, rows: int, columns: int, side: int, method: str, largest: bool) -> list[Tensor]:
    """The tiles (side, side, 3) of a picture at the top left of a black canvas. largest: it is made as large as the
    canvas; else only up to a tile's side.
    """
    height, width = int(image.shape[0]), int(image.shape[1])
    high, wide = side * rows, side * columns
    most = (high, wide) if largest else (min(max(height, side), high), min(max(width, side), wide))
    by_height, by_width = most[0] / height, most[1] / width
    inner = most[0], min(floor(width * by_height), most[1])
    if by_width < by_height:
        inner = min(floor(height * by_width), most[0]), most[1]
    inner = max(inner[0], 1), max(inner[1], 1)
    frame = ops.zeros(high, wide, 3, dtype="uint8", device=image.device)
    frame[: inner[0], : inner[1]] = resize(image, *inner, method)
    return cut(frame, rows, columns, side, side)


def _short(x: Tensor) -> Tensor:
    """The numbers rounded to 16 bits, bfloat16, with which Llama 4 was trained."""
    return x.to("bfloat16").to("float32")


@dataclass(frozen=True)
class SeveralSizes(ImageProcessor):
    """The tiles of a picture, and the whole of another size."""

    do_image_splitting: bool = False

    def by_size(self, image: Tensor) -> list[Tensor]:
        if 0 in image.shape:
            return super().by_size(image)
        views = [self._prepared(view) for view in self._views(image)]  # (3, h, w) each
        return [ops.stack(list(same)) for _, same in groupby(views, key=lambda view: tuple(view.shape))]


@kind("Idefics2", size={"shortest_edge": 378, "longest_edge": 980}, resample=2, do_pad=True)
@dataclass(frozen=True)
class Idefics2(SeveralSizes):
    """The four quarters of a picture, and the whole."""

    SIZES = (SHORT_AND_LONG,)

    def _target(self, height: int, width: int) -> tuple[int, int]:
        short, long = self.size["shortest_edge"], self.size["longest_edge"]
        high, wide = height, width
        if max(height, width) > long:
            high, wide = (
                (int(long / (width / height)), long) if width >= height else (long, int(long * (width / height)))
            )
        return plausible(max(high, short), max(wide, short))

    def tiles(self, height: int, width: int) -> tuple[int, int]:
        return (2, 2) if self.do_image_splitting and min(height, width) > 1 else (0, 0)

    def _views(self, image: Tensor) -> list[Tensor]:
        high, wide = (int(side) // 2 for side in image.shape[:2])
        parts = [part for half in (image[:high], image[high:]) for part in (half[:, :wide], half[:, wide:])]
        return [*(parts if self.tiles(2 * high, 2 * wide)[0] else []), image]


@kind("Lfm2Vl", size=square(512), resample=2, do_image_splitting=True)
@dataclass(frozen=True)
class Lfm2Vl(SeveralSizes):
    """The tiles of a picture with more than max_pixels_tolerance times the pixels of max_image_tokens vectors, each of
    downsample_factor² patches of encoder_patch_size pixels a side, and the whole.
    """

    tile_size: int = 512  # pixels of a side
    min_tiles: int = 2
    max_tiles: int = 10
    use_thumbnail: bool = True  # whether the whole is after the tiles
    min_image_tokens: int = 64
    max_image_tokens: int = 256
    encoder_patch_size: int = 16
    downsample_factor: int = 2
    max_pixels_tolerance: float = 2.0

    def _check(self) -> None:
        super()._check()
        for name, most in (
            ("tile_size", LARGEST), ("min_tiles", 1 << 10), ("max_tiles", 1 << 10), ("min_image_tokens", 1 << 14),
            ("max_image_tokens", 1 << 14), ("encoder_patch_size", 256), ("downsample_factor", 16),
        ):  # fmt: skip
            check_whole(name, getattr(self, name), 1, most)
        if self.tile_size % self._side:
            wrong("tile_size", self.tile_size, f"a multiple of {self._side} pixels")
        if self.min_tiles > self.max_tiles or self.min_image_tokens > self.max_image_tokens:
            wrong("min_tiles and min_image_tokens", (self.min_tiles, self.min_image_tokens), "less than the most")

    @property
    def _side(self) -> int:
        """The pixels of a side of what becomes one vector."""
        return self.encoder_patch_size * self.downsample_factor

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        return None

    def told(self, height: int, width: int) -> tuple[int, int]:
        """The size of the whole before the model."""
        return self.seen(height, width)

    def _target(self, height: int, width: int) -> tuple[int, int]:
        return of_tokens(height, width, self._side, self.min_image_tokens, self.max_image_tokens)

    def tiles(self, height: int, width: int) -> tuple[int, int]:
        side, patch = self._side, self.encoder_patch_size
        high, wide = (max(patch, round(n / side) * side) for n in (height, width))
        large = high * wide > self.max_image_tokens * side**2 * self.max_pixels_tolerance
        if not (self.do_image_splitting and large) or self.max_tiles == 1:
            return 0, 0
        both = nearest_grid(height, width, (self.tile_size, self.tile_size), self.min_tiles, self.max_tiles)
        return both if both != ANY else (0, 0)

    def _views(self, image: Tensor) -> list[Tensor]:
        height, width = int(image.shape[0]), int(image.shape[1])
        (rows, columns), side = self.tiles(height, width), self.tile_size
        larger = resize(image, rows * side, columns * side, self._method) if rows else image
        whole = [resize(image, *self.seen(height, width), self._method)] if self.use_thumbnail or not rows else []
        return [*cut(larger, rows, columns, side, side), *whole]

    def _resized(self, image: Tensor) -> Tensor:
        return image  # as _views has made it


@kind(
    "Idefics3", "SmolVLM", size={"longest_edge": 4 * 364}, resample=1, max_image_size={"longest_edge": 364},
    do_image_splitting=True,
)  # fmt: skip
@dataclass(frozen=True)
class Idefics3(ImageProcessor):
    """The tiles of a picture whose sides are multiples of a tile's, and the whole as one tile."""

    max_image_size: Any = None  # of a tile
    do_image_splitting: bool = False

    SIZES = (LONG_SIDE,)

    def _check(self) -> None:
        super()._check()
        checked_size("max_image_size", self.max_image_size, [LONG_SIDE], self.max_image_size)
        if self.do_image_splitting and min(self.size["longest_edge"], MOST) > TILES * self._tile:
            wrong("max_image_size", self._tile, f"at least 1 / {TILES} of the size")

    @property
    def _tile(self) -> int:
        """The pixels of a tile's side."""
        side: int = self.max_image_size["longest_edge"]
        return side

    @property
    def fixed_size(self) -> tuple[int, int] | None:
        return self._tile, self._tile

    def _target(self, height: int, width: int) -> tuple[int, int]:
        return longest(height, width, self.size["longest_edge"])

    def _in_tiles(self, height: int, width: int) -> tuple[int, int]:
        """The size of a picture before it is cut: multiples of a tile's."""
        side, (high, wide) = self._tile, self.seen(height, width)
        ratio = wide / high
        if wide >= high:
            wide = ceil(wide / side) * side
            return ceil(int(wide / ratio) / side) * side, wide
        high = ceil(high / side) * side
        return high, ceil(int(high * ratio) / side) * side

    def tiles(self, height: int, width: int) -> tuple[int, int]:
        high, wide = self._in_tiles(height, width) if self.do_image_splitting else (0, 0)
        return (high // self._tile, wide // self._tile) if max(high, wide) > self._tile else (0, 0)

    def _views(self, image: Tensor) -> list[Tensor]:
        side, height, width = self._tile, int(image.shape[0]), int(image.shape[1])
        image, found = resize(image, *self.seen(height, width), self._method), []
        if self.do_image_splitting:
            image = resize(image, *self._in_tiles(height, width), self._method)
            found = cut(image, *self.tiles(height, width), side, side)
        return [*found, resize(image, side, side, self._method)]

    def _resized(self, image: Tensor) -> Tensor:
        return image  # as _views has made it
