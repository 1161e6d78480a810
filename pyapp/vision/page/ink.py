"""Which pixels of a page are ink: those clearly darker than the paper around them, on white, grey or uneven paper; and
light ones in dark boxes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil
from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np

from .components import Components, component_steps, painted, pixels_of
from .steps import BAND, Steps, bands, finished, within

if TYPE_CHECKING:
    from numpy.typing import NDArray

SMALLEST_BLOCK = 48  # pixels: larger than most dark boxes are high
GRID = 20  # blocks along the longer side, in which the level of the paper is measured
PAPER = 80  # percentile of a block that is paper
NEAR = 24  # pixels: the darkest ink is measured in blocks of this size
SAMPLE = 1 << 18  # pixels of a page that tell what its print is like
SHARE = 0.4  # of the contrast of the darkest ink nearby is ink
FAINTEST = 14  # of 255: less contrast is not ink
NOISE = 4.0  # standard deviations of the noise are not ink
NOISY = 7.0  # of 255: with more noise, pixels are averaged first
SOFT = 0.45  # of the contrast of the darkest ink nearby is the least at an edge of print
SOFT_SHARE = 0.08  # of all edges are soft where the paper has stains
CLOSER = 1.3  # of the usual height of characters: blocks of paper with stains
CLOSEST = 12  # pixels: such blocks at least
EDGE = 0.1  # of the usual height of characters: an edge of print is no wider
EDGES = 1 << 15  # of a band that are looked at
STAIN = 0.6  # of a stain's edges are soft at least, and of its area is solid
THICK = 0.8  # of the usual height of characters is the side of squares that a solid area is made of
NOISE_SPECK = 0.2  # of the usual height of characters: smaller specks of noise are not ink
ALONE = 60  # of 255: a speck is darker by so much
SPECK_ROWS = 32  # beside one another that are looked at
SPECKLED = 0.003  # of the pixels are specks
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

    def of(self, grey: NDArray[np.uint8]) -> Ink:
        """The same ink with the pixels of another picture of the page, uint8 (H, W)."""
        return replace(self, grey=np.where(self.boxes, 255 - grey, grey) if self.boxes.any() else grey)


def find_ink(grey: NDArray[np.uint8]) -> Ink:
    """The ink of a grey page uint8 (H, W), which is turned round if its print is light."""
    grey = dark_on_light(grey)
    return finished(ink_steps(finished(without_specks(grey)))).of(grey)


def ink_steps(grey: NDArray[np.uint8]) -> Steps[Ink]:
    """The ink of a grey page uint8 (H, W) with dark print."""
    mask, found = yield from within(_threshold(grey), 0.0, 0.75)
    mask, flipped = yield from within(_open_boxes(mask, found), 0.75, 1.0)
    return Ink(mask, grey, flipped).of(grey)


def histogram(values: NDArray[np.uint8]) -> NDArray[np.int64]:
    """How often each value is there, (256,); by parts, since NumPy counts in eight bytes for each."""
    flat = values.reshape(-1)
    parts = (flat[first : first + BAND] for first in range(0, len(flat), BAND))
    return sum((np.bincount(part, minlength=256) for part in parts), np.zeros(256, np.int64))


def dark_on_light(grey: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A page uint8 (H, W), turned round where its print is lighter than the paper: where the lightest pixels of blocks
    are further from the median than the darkest.
    """
    every = max(1, ceil((grey.size / SAMPLE) ** 0.5))
    sample = grey[::every, ::every]
    size = SMALLEST_BLOCK
    rows, columns = (-(-side // size) for side in sample.shape)
    padded = np.pad(sample, [(0, -side % size) for side in sample.shape], "edge").reshape(rows, size, columns, size)
    blocks = padded.transpose(0, 2, 1, 3).reshape(rows * columns, size * size)
    low, middle, high = np.percentile(blocks, (2, 50, 98), axis=1)  # (blocks,)
    low, high = middle - low, high - middle
    clear = np.maximum(low, high) >= FAINTEST
    return 255 - grey if high[clear].sum() > low[clear].sum() else grey


def _threshold(grey: NDArray[np.uint8]) -> Steps[tuple[NDArray[np.bool_], Components]]:
    """bool (H, W): what is darker than the paper by a share of the darkest nearby (Bernsen's idea, 1986, with the
    paper's own level); and its components.
    """
    noise = yield from within(_noise(grey), 0.0, 0.15)
    page = _Contrast(grey, noise)
    size = max(SMALLEST_BLOCK, -(-max(grey.shape) // GRID))
    mask = yield from within(page.ink(size), 0.15, 0.6)
    found = yield from within(component_steps(mask), 0.6, 0.65)
    usual = usual_height(found)
    closer = max(CLOSEST, round(CLOSER * usual))
    soft, count = page.soft_edges(found, usual)
    if usual and closer < size and soft.sum() > SOFT_SHARE * count.sum():
        mask &= yield from within(page.ink(closer), 0.65, 0.95)
        found = yield from within(component_steps(mask), 0.95, 1.0)
        soft, count = page.soft_edges(found, usual)
        thick = yield from within(solid(mask, max(4, round(THICK * usual))), 1.0, 1.0)
        thick_pixels = np.bincount(found.owner, pixels_of(thick, found.runs), len(found))
        mask = painted(found, (soft <= STAIN * count) | (thick_pixels < STAIN * found.area), mask.shape)
        found = yield from within(component_steps(mask), 1.0, 1.0)
    if page.smooth:  # what is left of the noise
        mask = painted(found, found.area >= (NOISE_SPECK * usual) ** 2, mask.shape)
        found = yield from within(component_steps(mask), 1.0, 1.0)
    return mask, found


class _Contrast:
    """How much darker than the paper the pixels of a page uint8 (H, W) are; averaged where there is much noise."""

    def __init__(self, grey: NDArray[np.uint8], noise: float) -> None:
        self.grey = grey
        self.smooth = noise > NOISY
        self.noise = noise / 2.5 if self.smooth else noise
        self.darkest: Spread | None = None

    def values(self, first: int, last: int) -> NDArray[np.float32]:
        """Rows of the page, float32 (last - first, W)."""
        if not self.smooth:
            return self.grey[first:last].astype(np.float32)
        above, below = int(first > 0), int(last < self.grey.shape[0])
        rows = averaged(self.grey[first - above : last + below].astype(np.float32))
        return rows[above : len(rows) - below]

    def ink(self, size: int) -> Steps[NDArray[np.bool_]]:
        """The ink bool (H, W), where the paper's level is that of blocks of size x size pixels."""
        shape = height, width = self.grey.shape
        paper = yield from within(_block_values(self.values, shape, size, PAPER), 0.0, 0.3)
        paper_at = Spread(_median_of_nine(paper), size, shape)

        def contrast(first: int, last: int) -> NDArray[np.float32]:
            return paper_at.rows(first, last) - self.values(first, last)

        darkest = yield from within(_block_values(contrast, shape, NEAR, 99), 0.3, 0.7)
        self.darkest = darkest_at = Spread(_most_of_nine(darkest), NEAR, shape)
        mask = np.empty(shape, bool)
        for first, last in bands(height, width):
            least = np.maximum(SHARE * darkest_at.rows(first, last), max(FAINTEST, NOISE * self.noise))
            mask[first:last] = contrast(first, last) > least
            yield 0.7 + 0.3 * last / height
        return mask

    def soft_edges(self, found: Components, usual: float) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many of each component's edges, to the left and right, are not edges of print, since the paper becomes
        darker slowly there; and of how many that were looked at. `usual`: the height of characters.
        """
        assert self.darkest is not None
        soft, count = np.zeros(len(found), np.int64), np.zeros(len(found), np.int64)
        height, width = self.grey.shape
        reach = max(2, round(EDGE * usual))  # pixels before and after an edge
        around = np.arange(-reach - 1, reach + 1)
        for first, last in bands(height, width):
            values, darkest = self.values(first, last), self.darkest.rows(first, last)
            here = np.arange(*np.searchsorted(found.runs.row, (first, last)))
            here = here[:: 1 + len(here) // EDGES]
            for edge in (found.runs.start[here], found.runs.end[here]):
                inside = (edge > reach) & (edge < width - reach)
                row, edge, owner = found.runs.row[here][inside] - first, edge[inside], found.owner[here][inside]
                near = values[row[:, None], edge[:, None] + around]  # (edges, pixels)
                step = near.max(1) - near[:, 1:-1].min(1)
                count += np.bincount(owner, minlength=len(found))
                soft += np.bincount(owner[step < SOFT * darkest[row, edge]], minlength=len(found))
        return soft, count


def _speckled(grey: NDArray[np.uint8]) -> bool:
    """Whether many pixels are dark alone, as in a bad facsimile: darker by far than the eight around them."""
    alone = count = 0
    every = max(1, grey.size // (4 * SAMPLE))
    for first in range(0, len(grey), SPECK_ROWS * every):
        rows = grey[first : first + SPECK_ROWS].astype(np.int16)
        beside = np.minimum(rows[:, :-2], rows[:, 2:])
        whole = np.minimum(beside, rows[:, 1:-1])
        around = np.minimum(np.minimum(whole[:-2], whole[2:]), beside[1:-1])  # (rows - 2, W - 2)
        alone += int((around - rows[1:-1, 1:-1] > ALONE).sum())
        count += around.size
    return count > 0 and alone > SPECKLED * count


def without_specks(grey: NDArray[np.uint8]) -> Steps[NDArray[np.uint8]]:
    """A page uint8 (H, W), with dark print, as it is; where many pixels are dark alone, the median of 3 x 3 pixels."""
    if not _speckled(grey):
        return grey
    found = np.empty_like(grey)
    height, width = grey.shape
    padded = np.pad(grey, 1, "edge")
    for first, last in bands(height, width * 9):
        rows = padded[first : last + 2]
        near = np.stack([rows[i : i + last - first, j : j + width] for i in range(3) for j in range(3)])
        near.partition(4, axis=0)
        found[first:last] = near[4]
        yield last / height
    return found


def _noise(grey: NDArray[np.uint8]) -> Steps[float]:
    """The standard deviation of the noise: of the median step between neighbours."""
    height, width = grey.shape
    counts = np.zeros(256, np.int64)
    for first, last in bands(height, width):
        rows = grey[first:last]
        counts += histogram(np.maximum(rows[:, 1:], rows[:, :-1]) - np.minimum(rows[:, 1:], rows[:, :-1]))
        yield last / height
    count = int(counts.sum())
    if not count:
        return 0.0
    middle = np.searchsorted(counts.cumsum(), [(count - 1) // 2, count // 2], "right")  # two of an even number
    return float(middle.mean()) * 1.4826 / 2**0.5


def averaged(values: NDArray[np.float32]) -> NDArray[np.float32]:
    """The mean of 3 x 3 pixels."""
    padded = np.pad(values, 1, "edge")
    rows = padded[:-2] + padded[1:-1] + padded[2:]
    return (rows[:, :-2] + rows[:, 1:-1] + rows[:, 2:]) / np.float32(9)


def _block_values(
    values: Callable[[int, int], NDArray[np.float32]], shape: tuple[int, ...], size: int, percentile: int
) -> Steps[NDArray[np.float32]]:
    """A percentile of each block of size x size pixels, (rows, columns), of `values(first row, last)`."""
    height, width = shape
    columns = -(-width // size)
    place = min(size * size - 1, size * size * percentile // 100)
    found = []
    for first, last in bands(height, width, size):
        rows = -(-(last - first) // size)
        padded = np.pad(values(first, last), ((0, rows * size - (last - first)), (0, columns * size - width)), "edge")
        blocks = padded.reshape(rows, size, columns, size).transpose(0, 2, 1, 3).reshape(rows, columns, size * size)
        blocks.partition(place, axis=2)
        found.append(blocks[:, :, place].copy())
        yield last / height
    return np.concatenate(found)


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


class Spread:
    """The values of blocks at every pixel of a page (H, W), linear between the middles of the blocks."""

    def __init__(self, blocks: NDArray[np.float32], size: int, shape: tuple[int, ...]) -> None:
        self._blocks, self._size = blocks, size
        self._low, self._high, self._part = _between(blocks.shape[1], size, np.arange(shape[1]))

    def rows(self, first: int, last: int) -> NDArray[np.float32]:
        """The rows from one to another, (last - first, W)."""
        low, high, part = _between(len(self._blocks), self._size, np.arange(first, last))
        down = self._blocks[low] * (1 - part)[:, None] + self._blocks[high] * part[:, None]  # (rows, columns of blocks)
        found: NDArray[np.float32] = down.take(self._low, 1)
        found *= 1 - self._part
        more = down.take(self._high, 1)
        more *= self._part
        found += more
        return found


def _between(count: int, size: int, pixels: NDArray[np.int64]) -> tuple[Any, Any, NDArray[np.float32]]:
    """The blocks between whose middles the pixels along a side lie, and the part of the second one."""
    places = np.clip((pixels + 0.5) / size - 0.5, 0, count - 1)
    low = np.minimum(places.astype(np.int64), max(0, count - 2))
    return low, np.minimum(low + 1, count - 1), (places - low).astype(np.float32)


def _open_boxes(mask: NDArray[np.bool_], found: Components) -> Steps[tuple[NDArray[np.bool_], NDArray[np.bool_]]]:
    """The mask of components with dark boxes opened: their rims and what is light in them is the ink. Also where, bool
    (H, W).
    """
    flipped, mask = np.zeros_like(mask), mask.copy()
    usual = usual_height(found)
    thick = yield from within(solid(mask, max(4, int(SOLID * usual))), 0.0, 0.7)
    found = yield from within(component_steps(thick), 0.7, 1.0)
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
        yield 1.0
    return mask, flipped


def solid(mask: NDArray[np.bool_], size: int) -> Steps[NDArray[np.bool_]]:
    """The pixels of a mask bool (H, W) that a square of `size` pixels covers without leaving it."""
    if min(mask.shape) < size:
        return np.zeros_like(mask)
    whole = yield from within(_windows(mask, size, 1, np.logical_and), 0.0, 0.25)
    whole = yield from within(_windows(whole, size, 0, np.logical_and), 0.25, 0.5)  # (H - size + 1, W - size + 1)
    near = yield from within(_windows(np.pad(whole, size - 1), size, 1, np.logical_or), 0.5, 0.75)
    return (yield from within(_windows(near, size, 0, np.logical_or), 0.75, 1.0))


def _windows(mask: NDArray[np.bool_], size: int, axis: int, together: Any) -> Steps[NDArray[np.bool_]]:
    """`together` of `size` pixels beside one another along an axis, which becomes shorter by size - 1; by windows that
    grow to twice their size.
    """
    grown = 1
    while grown < size:
        step = min(grown, size - grown)
        length = mask.shape[axis] - step
        ahead, behind = (slice(None),) * axis + (slice(0, length),), (slice(None),) * axis + (slice(step, None),)
        mask = together(mask[ahead], mask[behind])
        grown += step
        yield grown / size
    return mask


def usual_height(found: Components) -> float:
    """The usual height of characters: the median of the components that could be some, each as often as it is wide, so
    that quotes and dots count little. 0 without any.
    """
    width, height = found.right - found.left, found.bottom - found.top
    likely = (height >= 6) & (width >= 2) & (width < 4 * height) & (height < 12 * width) & (found.area >= 8)
    if not likely.any():
        return 0.0
    width, height = width[likely], height[likely]
    order = np.argsort(height)
    shares = np.cumsum(width[order])
    return float(height[order][np.searchsorted(shares, shares[-1] / 2)])
