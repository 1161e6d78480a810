"""The order of reading: columns from left to right, in them blocks from top to bottom (recursive XY cut, Nagy and Seth
1984); what stands in rows, such as a label and its value, is read row by row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol, TypeVar

from pyapp.engine.lazy import np

from .steps import Steps, finished

GUTTER = 1.2  # heights of lines between columns
FULL = 0.55  # of a column's width is the usual line of running text
WIDE = 7  # heights of lines: narrower columns are those of a table
RUNNING = 3  # lines of a column of running text
PARAGRAPH = 0.9  # heights of lines between blocks


class Boxed(Protocol):
    """What is put in order."""

    @property
    def box(self) -> tuple[int, int, int, int]: ...


B = TypeVar("B", bound=Boxed)


def in_order(items: Sequence[B]) -> list[list[B]]:
    """The blocks of a page in the order of reading, and their items in order."""
    return finished(order_steps(items))


def order_steps(items: Sequence[B]) -> Steps[list[list[B]]]:
    """As `in_order`."""
    if not items:
        return []
    boxes = np.array([item.box for item in items], np.float64)
    size = float(np.median(boxes[:, 3] - boxes[:, 1]))
    blocks: list[list[B]] = []
    done = 0
    waiting = [np.arange(len(items))]  # the next part last: a page may be cut as often as it has lines
    while waiting:
        chosen = waiting.pop()
        parts = _cut(boxes, chosen, size)
        if parts is None:
            blocks.append([items[i] for i in _row_by_row(boxes, chosen)])
            done += len(chosen)
        else:
            waiting += parts[::-1]
        yield done / len(items)
    return blocks


def _cut(boxes: Any, chosen: Any, size: float) -> list[Any] | None:
    """The parts of the chosen boxes (their numbers), in the order of reading; None: they are one block."""
    own = boxes[chosen]
    columns = _split(own[:, 0], own[:, 2], GUTTER * size)
    if len(columns) > 1:
        groups = _columns([chosen[part] for part in columns], boxes, size)
        if len(groups) > 1:
            return groups
    rows = _at_the_widest(own[:, 1], own[:, 3], PARAGRAPH * size)
    if rows is not None:  # at the widest gap first: it ends what stands above columns
        return [chosen[part] for part in rows]
    spanning = _spanning(own, size)
    return None if spanning is None else [chosen[part] for part in spanning]


def _sorted(low: Any, high: Any, gap: float) -> tuple[Any, Any, Any]:
    """The order of intervals; where in it a space of at least `gap` comes before one; and these spaces."""
    order = np.argsort(low, kind="stable")
    spaces = low[order][1:] - np.maximum.accumulate(high[order])[:-1]
    breaks = np.flatnonzero(spaces >= gap)
    return order, breaks + 1, spaces[breaks]


def _split(low: Any, high: Any, gap: float) -> list[Any]:
    """Numbers of the intervals, in groups that at least `gap` separates."""
    order, breaks, _ = _sorted(low, high, gap)
    return np.split(order, breaks)


def _at_the_widest(low: Any, high: Any, gap: float) -> list[Any] | None:
    """Numbers of the intervals above and below the widest space; None where none is as wide as `gap`."""
    order, breaks, spaces = _sorted(low, high, gap)
    return np.split(order, [breaks[np.argmax(spaces)]]) if len(breaks) else None


def _columns(parts: list[Any], boxes: Any, size: float) -> list[Any]:
    """The parts as columns: those that stand in rows with the part before are one with it."""
    found = [parts[0]]
    for part in parts[1:]:
        if (
            _running(boxes[found[-1]], size)
            or _running(boxes[part], size)
            or not _aligned(boxes[found[-1]], boxes[part])
        ):
            found.append(part)
        else:
            found[-1] = np.concatenate([found[-1], part])
    return found


def _running(own: Any, size: float) -> bool:
    """Whether lines are a column of running text: they fill it."""
    width = own[:, 2].max() - own[:, 0].min()
    usual = float(np.median(own[:, 2] - own[:, 0]))
    return len(own) >= RUNNING and width >= WIDE * size and usual >= FULL * width


def _aligned(one: Any, other: Any) -> bool:
    """Whether most lines of the shorter part stand beside a line of the other."""
    few, many = sorted((one, other), key=len)
    shared = np.minimum(few[:, None, 3], many[None, :, 3]) - np.maximum(few[:, None, 1], many[None, :, 1])
    beside = (shared > 0.5 * (few[:, None, 3] - few[:, None, 1])).any(1)
    return bool(beside.mean() > 0.6)


def _spanning(own: Any, size: float) -> list[Any] | None:
    """What is above and below a line that spans columns; None if no line does. Without a gap that shows it."""
    order = np.argsort(own[:, 1], kind="stable")
    for at in (1, len(order) - 1):
        if not 0 < at < len(order) or len(order) < 4:
            continue
        parts = [order[:at], order[at:]]
        rest = parts[1] if at == 1 else parts[0]
        if len(_split(own[rest, 0], own[rest, 2], GUTTER * size)) > 1:
            return parts
    return None


def _row_by_row(boxes: Any, chosen: Any) -> list[int]:
    """From top to bottom; what stands beside a row is in it, from left to right."""
    rows: list[list[int]] = []
    for i in sorted(chosen.tolist(), key=lambda i: boxes[i, 1] + boxes[i, 3]):
        if rows and _beside(boxes, rows[-1], i):
            rows[-1].append(i)
        else:
            rows.append([i])
    return [i for row in rows for i in sorted(row, key=lambda i: boxes[i, 0])]


def _beside(boxes: Any, row: list[int], i: int) -> bool:
    """Whether a box is beside those of a row: at the same height, and not above or below one."""
    top, bottom = (np.mean([boxes[j, k] for j in row]) for k in (1, 3))
    shared = min(bottom, boxes[i, 3]) - max(top, boxes[i, 1])
    free = all(boxes[i, 0] >= boxes[j, 2] or boxes[i, 2] <= boxes[j, 0] for j in row)
    return bool(free and shared > 0.5 * min(bottom - top, boxes[i, 3] - boxes[i, 1]))
