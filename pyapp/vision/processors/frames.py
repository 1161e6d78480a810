"""Pictures cropped, cut into tiles, and laid on larger ones."""

from __future__ import annotations

from math import ceil

from pyapp.engine import Tensor, ops
from pyapp.engine.lazy import np
from pyapp.errors import ArgumentError

from ..reading import grey_levels
from .settings import LARGEST

INK = 200  # of 255, between a page's darkest and lightest grey: what is darker is not margin


def cropped(image: Tensor, height: int, width: int, to_even: bool = False) -> Tensor:
    """The middle (height, width) of (H, W, 3), black outside of it. to_even: halves of a pixel are rounded as
    torchvision does, not down.
    """
    high, wide = int(image.shape[0]), int(image.shape[1])
    if high < height or wide < width:
        larger = ops.zeros(max(height, high), max(width, wide), 3, dtype="uint8", device=image.device)
        top, left = ceil((larger.shape[0] - high) / 2), ceil((larger.shape[1] - wide) / 2)
        larger[top : top + high, left : left + wide] = image
        # Both offsets of transformers: that of the crop in the picture, and that of the picture in its frame.
        top, left = top + (high - height) // 2, left + (wide - width) // 2
        image = larger
    elif to_even:
        top, left = round((high - height) / 2), round((wide - width) / 2)
    else:
        top, left = (high - height) // 2, (wide - width) // 2
    top, left = max(0, top), max(0, left)
    return image[top : top + height, left : left + width]


def padded(x: Tensor, height: int, width: int) -> Tensor:
    """(C, h, w) → (C, height, width), with zeros below and to the right."""
    if x.shape[1] > height or x.shape[2] > width:
        raise ArgumentError(f"a picture of {list(x.shape[1:])} does not fit into {height} x {width}")
    frame = ops.zeros(x.shape[0], height, width, dtype=x.dtype)
    frame[:, : x.shape[1], : x.shape[2]] = x
    return frame


def as_square(image: Tensor, colour: list[int]) -> Tensor:
    """(H, W, 3) → (S, S, 3): the picture in the middle of a colour, S is its longer side."""
    high, wide = int(image.shape[0]), int(image.shape[1])
    side = max(high, wide)
    if side > LARGEST and side > 8 * min(high, wide):
        raise ArgumentError(f"a picture of {high:,} x {wide:,} pixels is too narrow to lie on a square")
    frame = ops.tensor(colour, dtype="uint8").to(image.device).expand(side, side, 3).contiguous()
    top, left = (side - high) // 2, (side - wide) // 2
    frame[top : top + high, left : left + wide] = image
    return frame


def cut(image: Tensor, rows: int, columns: int, high: int, wide: int) -> list[Tensor]:
    """The tiles (high, wide, 3) of a picture, row by row."""
    return [
        image[row * high : (row + 1) * high, column * wide : (column + 1) * wide]
        for row in range(rows) for column in range(columns)
    ]  # fmt: skip


def mirrored(x: Tensor, divisor: int) -> Tensor:
    """A picture (3, H, W) whose sides become the next larger multiples of `divisor` → (3, h, w): after its last pixels
    is its reflection, which begins with them.
    """
    for dim in (1, 2):
        side = int(x.shape[dim])
        there_and_back = [*range(side), *reversed(range(side))]
        places = [there_and_back[i % (2 * side)] for i in range((side // divisor + 1) * divisor)]
        x = x.index_select(dim, ops.tensor(places, dtype="int64", device=x.device))
    return x


def without_margin(image: Tensor) -> Tensor:
    """A picture (H, W, 3) uint8 without the rows and columns around it that are nearly as light as its lightest."""
    grey = grey_levels(image).cpu().numpy()[:, :, 0].astype("float32")  # (H, W)
    least, most = float(grey.min()), float(grey.max())
    if least == most:
        return image
    dark = (grey - least) / (most - least) * 255 < INK
    rows, columns = np.flatnonzero(dark.any(1)), np.flatnonzero(dark.any(0))
    return image[int(rows[0]) : int(rows[-1]) + 1, int(columns[0]) : int(columns[-1]) + 1]
