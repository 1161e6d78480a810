"""Lines of text: components of about the same height beside one another, and the marks that belong to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np

from .components import Components, joined
from .steps import Steps, within

if TYPE_CHECKING:
    from numpy.typing import NDArray

SMALL = 0.55  # of the usual height nearby: dots, accents, commas, dashes
LARGE = 8.0  # times the usual height: pictures
REACH = 1.7  # times the height: the widest space between words
JOIN = 0.9  # times the height: the widest space between parts of a line that were found apart
OVERLAP = 0.45  # of the lower one's height
SIMILAR = 3.0  # times the other's height at most
MARK_REACH = 1.2  # times a line's height: how far its marks are at the sides
MARK_RISE = 0.55  # and above or below
SPECK = 0.12  # of the usual height: smaller than any dot
TALL = 1.75  # times the usual height of a line's components: it may be several lines
SOME = 256  # components between two steps
VALLEY = 0.12  # of the most ink in a row is left between lines that touch


@dataclass(frozen=True)
class Line:
    """A line's box; `size` is the usual height of its characters."""

    left: int
    top: int
    right: int
    bottom: int
    size: float

    @property
    def height(self) -> int:
        return self.bottom - self.top


def find_lines(
    found: Components, chosen: NDArray[np.int64], mask: NDArray[np.bool_], usual: float
) -> Steps[list[Line]]:
    """The lines of the chosen components (their numbers) of a mask; in no order."""
    if not len(chosen) or usual <= 0:
        return []
    boxes = np.stack([found.left, found.top, found.right, found.bottom], 1)[chosen]
    width, height = boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]
    speck = max(2.0, SPECK * usual)
    kept = ((width >= speck) | (height >= speck)) & (height < LARGE * usual) & (found.area[chosen] >= speck)
    boxes, width, height = boxes[kept], width[kept], height[kept]
    if not len(boxes):
        return []
    small = (height < SMALL * usual) & ((width < 2.5 * usual) | (height < 0.3 * usual))
    body = np.flatnonzero(~small)
    if not len(body):  # a lone dash or dot
        return []
    order = body[np.argsort(boxes[body, 0], kind="stable")]
    root = joined(len(order), *(yield from within(_links(boxes[order]), 0.0, 0.5)))
    yield 0.5
    lines = _groups(boxes[order], root)
    lines = yield from within(_with_marks(*(yield from within(_apart(lines, boxes[small]), 0.5, 0.6))), 0.6, 0.8)
    lines = yield from within(_continued(lines), 0.8, 0.9)
    result: list[Line] = []
    for i, rows in enumerate(lines):
        result += _divided(rows, mask)
        yield 0.9 + 0.1 * i / len(lines)
    return result


def _groups(boxes: Any, root: NDArray[np.int64]) -> list[Any]:
    """The boxes (N, 4) of each group; root (N,) is the group of each box."""
    order = np.argsort(root, kind="stable")
    return np.split(boxes[order], np.flatnonzero(np.diff(root[order])) + 1)


def _links(boxes: Any, reach: float = REACH) -> Steps[tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Pairs of components, sorted by their left sides, that are beside one another in a line."""
    one: list[int] = []
    other: list[int] = []
    left, top, right, bottom = boxes.T
    height = bottom - top
    tallest = int(height.max())
    for i in range(len(boxes)):
        # Those that begin before the widest space after this one ends.
        behind = int(np.searchsorted(left, right[i] + reach * tallest, "right"))
        rest = slice(i + 1, behind)
        shared = np.minimum(bottom[rest], bottom[i]) - np.maximum(top[rest], top[i])
        lower, higher = np.minimum(height[rest], height[i]), np.maximum(height[rest], height[i])
        gap = left[rest] - right[i]
        fits = (shared >= OVERLAP * lower) & (higher <= SIMILAR * lower) & (gap <= reach * _between(lower, higher))
        near = np.flatnonzero(fits)
        if len(near):
            # The nearest, and what overlaps it.
            least = gap[near].min()
            near = near[gap[near] <= max(least, 0)]
            one += [i] * len(near)
            other += (near + i + 1).tolist()
        if i % SOME == 0:
            yield i / len(boxes)
    return np.array(one, np.int64), np.array(other, np.int64)


def _between(lower: Any, higher: Any) -> Any:
    """The height that counts for a space between two components: a capital beside a small letter is usual."""
    return np.minimum(higher, 1.6 * lower)


def _apart(lines: list[Any], marks: Any) -> Steps[tuple[list[Any], Any]]:
    """The lines, and the marks: also those of larger lines, which were lines of their own."""
    spans = np.array([_span(rows) for rows in lines])
    size = spans[:, 3] - spans[:, 1]
    own, more = [], [marks]
    for i, rows in enumerate(lines):
        if len(rows) <= 3 and _near(spans, size, rows)[size * SMALL > size[i]].any():
            more.append(rows)
        else:
            own.append(rows)
        if i % SOME == 0:
            yield i / len(lines)
    return own, np.concatenate(more)


def _span(rows: Any) -> tuple[int, int, int, int]:
    """The box of boxes (N, 4)."""
    return (*rows[:, :2].min(0).tolist(), *rows[:, 2:].max(0).tolist())


def _near(spans: Any, size: Any, rows: Any) -> Any:
    """Which lines are so near boxes (N, 4) that these may be their marks."""
    left, top, right, bottom = _span(rows)
    x, y = (left + right) / 2, (top + bottom) / 2
    beside = np.maximum(np.maximum(spans[:, 0] - x, x - spans[:, 2]), 0)
    above = np.maximum(np.maximum(spans[:, 1] - y, y - spans[:, 3]), 0)
    return (beside <= MARK_REACH * size) & (above <= MARK_RISE * size)


def _continued(lines: list[Any]) -> Steps[list[Any]]:
    """Lines that dashes or dots had parted are one."""
    spans = np.array([_span(rows) for rows in lines])
    order = np.argsort(spans[:, 0], kind="stable")
    root = joined(len(lines), *(yield from _links(spans[order], JOIN)))
    return [np.concatenate([lines[i] for i in order[root == group].tolist()]) for group in np.unique(root).tolist()]


def _with_marks(lines: list[Any], marks: Any) -> Steps[list[Any]]:
    """The lines with the dots, accents, commas and dashes that are nearest to them."""
    spans = np.array([_span(rows) for rows in lines])
    size = spans[:, 3] - spans[:, 1]
    added: list[list[Any]] = [[] for _ in lines]
    for i, mark in enumerate(marks):
        x, y = (mark[0] + mark[2]) / 2, (mark[1] + mark[3]) / 2
        beside = np.maximum(np.maximum(spans[:, 0] - x, x - spans[:, 2]), 0)
        above = np.maximum(np.maximum(spans[:, 1] - y, y - spans[:, 3]), 0)
        near = np.flatnonzero((beside <= MARK_REACH * size) & (above <= MARK_RISE * size))
        if len(near):
            added[near[np.argmin((beside + 2 * above)[near])]].append(mark)
        if i % SOME == 0:
            yield i / len(marks)
    return [np.concatenate([rows, np.array(more)]) if more else rows for rows, more in zip(lines, added, strict=True)]


def _divided(rows: Any, mask: NDArray[np.bool_]) -> list[Line]:
    """The line of components (N, 4), or several lines that touch one another."""
    left, top, right, bottom = _span(rows)
    heights = rows[:, 3] - rows[:, 1]
    size = float(np.median(heights[heights >= SMALL * heights.max()])) if len(rows) > 2 else float(heights.max())
    size = min(size, float(np.median(heights)) * 1.5)
    if bottom - top > TALL * size and right - left > 2 * size and len(rows) > 3:
        profile = mask[top:bottom, left:right].sum(1).astype(np.float64)
        margin = round(0.55 * size)
        middle = profile[margin : len(profile) - margin]
        if len(middle) and middle.min() <= VALLEY * profile.max():
            at = top + margin + int(np.argmin(middle))
            centre = (rows[:, 1] + rows[:, 3]) / 2
            upper, lower = rows[centre < at].copy(), rows[centre >= at].copy()
            if len(upper) and len(lower) and _is_line(upper, size) and _is_line(lower, size):
                upper[:, 3], lower[:, 1] = np.minimum(upper[:, 3], at), np.maximum(lower[:, 1], at)
                return [*_divided(upper, mask), *_divided(lower, mask)]
    return [Line(left, top, right, bottom, size)]


def _is_line(rows: Any, size: float) -> bool:
    """Whether components are more than accents or feet."""
    heights = rows[:, 3] - rows[:, 1]
    return bool((heights >= 0.5 * size).sum() >= max(1, 0.3 * len(rows)))
