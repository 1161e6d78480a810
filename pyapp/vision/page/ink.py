"""Which pixels of a page are ink: those clearly darker than the paper around them, on white, grey or uneven paper; and
light ones in dark boxes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np

from .components import Components, components

if TYPE_CHECKING:
    from numpy.typing import NDArray

SMALLEST_BLOCK = 48  # pixels: larger than most dark boxes are high
GRID = 20  # blocks along the longer side, in which the level of the paper is measured
PAPER = 80  # percentile of a block that is paper
NEAR = 24  # pixels: the darkest ink is measured in blocks of this size
SHARE = 0.4  # of the contrast of the darkest ink nearby is ink
FAINTEST = 14  # of 255: less contrast is no ink
NOISE = 4.0  # standard deviations of the noise are no ink
NOISY = 7.0  # of 255: with more noise, pixels are averaged first
BOX_SIDE = 12  # pixels at least of a dark box with light text
BOX_RIM = 0.8  # of the rim of a dark box is dark
RIM = 2  # pixels of the rim that stay ink
SOLID = 0.35  # of the usual height of characters: thicker ink may be a dark box


@dataclass(frozen=True)
class Ink:
    """`mask` bool (H, W): the ink; `grey` uint8 (H, W): the page with dark ink on light paper everywhere; `boxes` bool
    (H, W): where it was light on dark in a box.
    """

    mask: NDArray[np.bool_]
    grey: NDArray[np.uint8]
    boxes: NDArray[np.bool_]


def find_ink(grey: NDArray[np.uint8]) -> Ink:
    """The ink of a grey page uint8 (H, W)."""
    grey = dark_on_light(grey)
    mask = _threshold(grey)
    mask, flipped = _open_boxes(mask)
    if flipped.any():
        grey = np.where(flipped, 255 - grey, grey)
    return Ink(mask, grey, flipped)


def dark_on_light(grey: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A page uint8 (H, W), turned round where most of it is dark."""
    counts = np.bincount(grey.reshape(-1), minlength=256).cumsum()
    low, high = np.searchsorted(counts, (0.02 * grey.size, 0.98 * grey.size))
    middle = int(low + high) // 2
    return 255 - grey if high - low >= FAINTEST and counts[middle] > 0.5 * grey.size else grey


def _threshold(grey: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """bool (H, W): what is darker than the paper by a share of the darkest nearby (Bernsen's idea, 1986, with the
    paper's own level).
    """
    values = grey.astype(np.float32)
    steps = np.abs(np.diff(values, axis=1))
    noise = float(np.median(steps)) * 1.4826 / 2**0.5 if steps.size else 0.0
    if noise > NOISY:
        values = averaged(values)
        noise /= 2.5
    size = max(SMALLEST_BLOCK, -(-max(grey.shape) // GRID))
    contrast = spread(_median_of_nine(block_values(values, size, PAPER)), size, grey.shape) - values
    darkest = spread(_most_of_nine(block_values(contrast, NEAR, 99)), NEAR, grey.shape)
    return contrast > np.maximum(SHARE * darkest, max(FAINTEST, NOISE * noise))


def averaged(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The mean of 3 x 3 pixels."""
    padded = np.pad(values, 1, "edge")
    rows = padded[:-2] + padded[1:-1] + padded[2:]
    return (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) / np.float32(9)


def block_values(values: NDArray[np.float32], size: int, percentile: int) -> NDArray[np.float32]:
    """A percentile of each block of size x size pixels, (rows, columns)."""
    height, width = values.shape
    rows, columns = -(-height // size), -(-width // size)
    padded = np.pad(values, ((0, rows * size - height), (0, columns * size - width)), "edge")
    blocks = padded.reshape(rows, size, columns, size).transpose(0, 2, 1, 3).reshape(rows, columns, size * size)
    place = min(size * size - 1, size * size * percentile // 100)
    return np.partition(blocks, place, axis=2)[:, :, place]


def _nine(blocks: NDArray[np.float32]) -> Any:
    """The 3 x 3 blocks around each, (9, rows, columns)."""
    padded = np.pad(blocks, 1, "edge")
    rows, columns = blocks.shape
    return np.stack([padded[i : i + rows, j : j + columns] for i in range(3) for j in range(3)])


def _median_of_nine(blocks: NDArray[np.float32]) -> NDArray[np.float32]:
    found: NDArray[np.float32] = np.median(_nine(blocks), axis=0)
    return found


def _most_of_nine(blocks: NDArray[np.float32]) -> NDArray[np.float32]:
    found: NDArray[np.float32] = _nine(blocks).max(0)
    return found


def spread(blocks: NDArray[np.float32], size: int, shape: tuple[int, ...]) -> NDArray[np.float32]:
    """The values of blocks at every pixel, (H, W), linear between the middles of the blocks."""

    def weights(count: int, length: int) -> NDArray[np.float32]:
        places = np.clip((np.arange(length) + 0.5) / size - 0.5, 0, count - 1)
        low = np.minimum(places.astype(np.int64), max(0, count - 2))
        part = (places - low).astype(np.float32)
        found = np.zeros((length, count), np.float32)
        found[np.arange(length), low] = 1 - part
        found[np.arange(length), np.minimum(low + 1, count - 1)] += part
        return found

    down, along = weights(blocks.shape[0], shape[0]), weights(blocks.shape[1], shape[1])
    found: NDArray[np.float32] = down @ blocks.astype(np.float32) @ along.T
    return found


def _open_boxes(mask: NDArray[np.bool_]) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """The mask with dark boxes opened: their rims and what is light in them is the ink. Also where, bool (H, W)."""
    flipped, mask = np.zeros_like(mask), mask.copy()
    usual = usual_height(components(mask))
    found = components(solid(mask, max(4, int(SOLID * usual))))
    width, height = found.right - found.left, found.bottom - found.top
    least = max(BOX_SIDE, 1.2 * usual)
    for i in np.flatnonzero(np.minimum(width, height) >= least).tolist():
        left, top, right, bottom = found.box(i)
        inner = mask[top:bottom, left:right].copy()
        rim = np.concatenate([inner[RIM], inner[-RIM - 1], inner[:, RIM], inner[:, -RIM - 1]])
        if rim.mean() >= BOX_RIM and inner.mean() > 0.5 and not inner[RIM:-RIM, RIM:-RIM].all():
            flipped[top:bottom, left:right] = True
            inner[RIM:-RIM, RIM:-RIM] ^= True
            mask[top:bottom, left:right] = inner
    return mask, flipped


def solid(mask: NDArray[np.bool_], size: int) -> NDArray[np.bool_]:
    """The pixels of a mask bool (H, W) that a square of `size` pixels covers without leaving it."""
    if min(mask.shape) < size:
        return np.zeros_like(mask)
    whole = _sums(mask, size) == size * size  # (H - size + 1, W - size + 1)
    return _sums(np.pad(whole, size - 1), size) > 0


def _sums(mask: NDArray[np.bool_], size: int) -> NDArray[np.int32]:
    """The ink in each square of `size` pixels, (H - size + 1, W - size + 1)."""
    table = np.zeros((mask.shape[0] + 1, mask.shape[1] + 1), np.int32)
    np.cumsum(np.cumsum(mask, axis=0, dtype=np.int32), axis=1, out=table[1:, 1:])
    return table[size:, size:] - table[:-size, size:] - table[size:, :-size] + table[:-size, :-size]


def usual_height(found: Components) -> float:
    """The usual height of characters: the median of the components that could be some. 0 without any."""
    width, height = found.right - found.left, found.bottom - found.top
    likely = (height >= 6) & (width >= 2) & (width < 4 * height) & (height < 12 * width) & (found.area >= 8)
    return float(np.median(height[likely])) if likely.any() else 0.0
