"""Connected components of ink, of runs of pixels in rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np

from .steps import Steps, bands, finished, parts

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Runs:
    """Runs of pixels: int arrays (N,) of rows, first columns, and columns after the last, row by row."""

    row: NDArray[np.int64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]


@dataclass(frozen=True)
class Components:
    """Boxes and areas of components, int arrays (N,); `owner` (runs,) is the component of each run."""

    left: NDArray[np.int64]
    top: NDArray[np.int64]
    right: NDArray[np.int64]
    bottom: NDArray[np.int64]
    area: NDArray[np.int64]
    runs: Runs
    owner: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.left)

    def box(self, i: int) -> tuple[int, int, int, int]:
        return int(self.left[i]), int(self.top[i]), int(self.right[i]), int(self.bottom[i])


def runs_of(mask: NDArray[np.bool_]) -> Steps[Runs]:
    """The runs of a mask bool (H, W)."""
    height, width = mask.shape
    found: list[Any] = [np.zeros((3, 0), np.int64)]
    for first, last in bands(height, width):
        padded = np.zeros((last - first, width + 1), bool)  # a run ends with its row
        padded[:, :-1] = mask[first:last]
        flat = padded.reshape(-1)
        changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1  # where runs begin and end, in turn
        if flat[0]:
            changes = np.concatenate([np.zeros(1, changes.dtype), changes])
        row, start = np.divmod(changes[::2].astype(np.int64), width + 1)
        found.append(np.stack([row + first, start, changes[1::2] - row * (width + 1)]))
        yield last / height
    row, start, end = np.concatenate(found, axis=1)
    yield 1.0
    return Runs(row, start, end)


def components(mask: NDArray[np.bool_]) -> Components:
    """The components of a mask bool (H, W); pixels that touch at a corner are connected."""
    return finished(component_steps(mask))


def component_steps(mask: NDArray[np.bool_]) -> Steps[Components]:
    """As `components`."""
    runs = yield from runs_of(mask)
    count, width = len(runs.row), mask.shape[1] + 2
    starts, ends = runs.row * width + runs.start, runs.row * width + runs.end
    lowers, uppers = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for part in parts(count):
        # The runs of the row above that touch a run lie between these two.
        first = np.searchsorted(ends, starts[part] - width, "left")
        behind = np.searchsorted(starts, ends[part] - width, "right")
        touching = np.maximum(behind - first, 0)
        lower = np.repeat(np.arange(len(first)), touching)
        offset = np.arange(len(lower)) - np.repeat(np.cumsum(touching) - touching, touching)
        lowers.append(lower + part.start)
        uppers.append(first[lower] + offset)
        yield 1.0
    lower, upper = np.concatenate(lowers), np.concatenate(uppers)
    yield 1.0
    root = yield from joining_steps(count, lower, upper)
    first_of = root == np.arange(count)  # a group's smallest number is its own
    owner = (np.cumsum(first_of) - 1)[root]
    number = int(first_of.sum())
    yield 1.0

    def least(values: Any, initial: int) -> Steps[Any]:
        found = np.full(number, initial, np.int64)
        for part in parts(count):
            np.minimum.at(found, owner[part], values[part])
            yield 1.0
        return found

    big = 1 << 40
    left, top = (yield from least(runs.start, big)), (yield from least(runs.row, big))
    right, bottom = -(yield from least(-runs.end, big)), -(yield from least(-runs.row - 1, big))
    area = np.bincount(owner, runs.end - runs.start, number).astype(np.int64) if number else np.zeros(0, np.int64)
    return Components(left, top, right, bottom, area, runs, owner)


def joined(count: int, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """The smallest number of each of `count` items' group, (count,), where one[i] and other[i] belong together."""
    return finished(joining_steps(count, one, other))


def joining_steps(count: int, one: NDArray[np.int64], other: NDArray[np.int64]) -> Steps[NDArray[np.int64]]:
    """As `joined`."""
    root = np.arange(count)
    changed = True
    while changed:
        changed = False
        for part in parts(len(one)):
            first, second = root[one[part]], root[other[part]]
            if np.array_equal(first, second):
                continue
            changed = True
            low = np.minimum(first, second)
            np.minimum.at(root, first, low)
            np.minimum.at(root, second, low)
            yield 1.0
        while not np.array_equal(root, further := root[root]):
            root = further
            yield 1.0
    return root


def filled(runs: Runs, shape: Any) -> NDArray[np.bool_]:
    """A mask bool (H, W) of runs that do not overlap."""
    steps = np.zeros((shape[0], shape[1] + 1), np.int8)
    np.add.at(steps, (runs.row, runs.start), 1)
    np.add.at(steps, (runs.row, runs.end), -1)
    return np.cumsum(steps, axis=1, dtype=np.int8)[:, :-1].astype(bool)


def painted(found: Components, chosen: NDArray[np.bool_], shape: Any) -> NDArray[np.bool_]:
    """A mask bool (H, W) of the chosen components."""
    keep, runs = chosen[found.owner], found.runs
    return filled(Runs(runs.row[keep], runs.start[keep], runs.end[keep]), shape)


def pixels_of(mask: NDArray[np.bool_], runs: Runs) -> NDArray[np.int64]:
    """How many pixels of a mask bool (H, W) each run has, (N,); rows outside of it have none."""
    count = np.zeros(len(runs.row), np.int64)
    inside = (runs.row >= 0) & (runs.row < len(mask))
    rows, place = np.unique(runs.row[inside], return_inverse=True)
    sums = np.zeros((len(rows), mask.shape[1] + 1), np.int32)
    np.cumsum(mask[rows], axis=1, dtype=np.int32, out=sums[:, 1:])
    count[inside] = sums[place, runs.end[inside]] - sums[place, runs.start[inside]]
    return count
