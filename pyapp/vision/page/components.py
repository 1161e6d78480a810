"""Connected components of ink, of runs of pixels in rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True)
class Runs:
    """Runs of pixels: int arrays (N,) of rows, first columns, and columns behind the last, row by row."""

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


def runs_of(mask: NDArray[np.bool_]) -> Runs:
    """The runs of a mask bool (H, W)."""
    height, width = mask.shape
    padded = np.zeros((height, width + 2), np.int8)
    padded[:, 1:-1] = mask
    steps = np.diff(padded, axis=1)  # (H, W + 1)
    row, start = np.nonzero(steps == 1)
    _, end = np.nonzero(steps == -1)
    return Runs(row, start, end)


def components(mask: NDArray[np.bool_]) -> Components:
    """The components of a mask bool (H, W); pixels that touch at a corner are connected."""
    runs = runs_of(mask)
    count, width = len(runs.row), mask.shape[1] + 2
    starts, ends = runs.row * width + runs.start, runs.row * width + runs.end
    # The runs of the row above that touch a run lie between these two.
    first = np.searchsorted(ends, starts - width, "left")
    behind = np.searchsorted(starts, ends - width, "right")
    touching = np.maximum(behind - first, 0)
    lower = np.repeat(np.arange(count), touching)
    offset = np.arange(len(lower)) - np.repeat(np.cumsum(touching) - touching, touching)
    upper = first[lower] + offset
    root = joined(count, lower, upper)
    _, owner = np.unique(root, return_inverse=True)
    owner = owner.reshape(-1)
    number = int(owner.max()) + 1 if count else 0

    def least(values: Any, initial: int) -> Any:
        found = np.full(number, initial, np.int64)
        np.minimum.at(found, owner, values)
        return found

    big = 1 << 40
    area = np.bincount(owner, runs.end - runs.start, number).astype(np.int64) if number else np.zeros(0, np.int64)
    return Components(
        least(runs.start, big), least(runs.row, big), -least(-runs.end, big), -least(-runs.row - 1, big), area, runs,
        owner,
    )  # fmt: skip


def joined(count: int, one: NDArray[np.int64], other: NDArray[np.int64]) -> NDArray[np.int64]:
    """The smallest number of each of `count` items' group, (count,), where one[i] and other[i] belong together."""
    root = np.arange(count)
    while True:
        low = np.minimum(root[one], root[other])
        before = root.copy()
        np.minimum.at(root, root[one], low)
        np.minimum.at(root, root[other], low)
        while not np.array_equal(root, root[root]):
            root = root[root]
        if np.array_equal(before, root):
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
