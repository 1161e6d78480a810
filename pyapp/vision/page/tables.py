"""Ruled tables: a grid of the places of all rules; cells that no rule divides are one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np

from .components import joined
from .rules import Rule, Rules
from .steps import Steps

if TYPE_CHECKING:
    from numpy.typing import NDArray

RULED = 0.6  # of the side of a cell is ruled
TOLERANCE = 0.35  # of the usual height of characters: rules as near are one
LEAST_TOLERANCE = 4  # pixels
CELL_LIMIT = 20_000  # of a table


@dataclass(frozen=True)
class Cell:
    """A cell: its first row and column, how many it spans, and its box between the rules."""

    row: int
    column: int
    row_span: int
    column_span: int
    box: tuple[int, int, int, int]


@dataclass(frozen=True)
class Table:
    """A ruled table: its box, numbers of rows and columns, and cells row by row."""

    box: tuple[int, int, int, int]
    rows: int
    columns: int
    cells: list[Cell]


def find_tables(rules: Rules, boxes: NDArray[np.bool_], ink: NDArray[np.bool_], usual: float) -> Steps[list[Table]]:
    """The tables that rules make: at least two cells. boxes bool (H, W): where a page was light on dark, and rules may
    not be seen; ink bool (H, W): what is not a rule.
    """
    tolerance = max(LEAST_TOLERANCE, round(TOLERANCE * usual))
    found = []
    for across, down in _groups(rules, tolerance):
        if len(across) >= 2 and len(down) >= 1 or len(across) >= 1 and len(down) >= 2:
            table = yield from _table(across, down, rules, boxes, ink, tolerance)
            if table is not None and len(table.cells) >= 2:
                found.append(table)
    return sorted(found, key=lambda table: (table.box[1], table.box[0]))


def _groups(rules: Rules, tolerance: int) -> list[tuple[list[Rule], list[Rule]]]:
    """Rules that touch one another: across, and down."""
    every = [*rules.across, *rules.down]
    if not every:
        return []
    boxes = np.array([(rule.left, rule.top, rule.right, rule.bottom) for rule in every])
    low, high = boxes[:, :2] - tolerance, boxes[:, 2:] + tolerance
    touch = ((low[:, None] < boxes[None, :, 2:]) & (boxes[None, :, :2] < high[:, None])).all(2)
    one, other = np.nonzero(touch)
    root = joined(len(every), one, other)
    count = len(rules.across)
    return [
        (
            [every[i] for i in np.flatnonzero(root == group).tolist() if i < count],
            [every[i] for i in np.flatnonzero(root == group).tolist() if i >= count],
        )
        for group in np.unique(root).tolist()
    ]


def _places(values: Sequence[float], tolerance: int) -> list[float]:
    """The means of values that are within the tolerance of the one before, sorted."""
    groups: list[list[float]] = []
    for value in sorted(values):
        if groups and value - groups[-1][-1] <= tolerance:
            groups[-1].append(value)
        else:
            groups.append([value])
    return [sum(group) / len(group) for group in groups]


def _table(
    across: list[Rule], down: list[Rule], rules: Rules, boxes: NDArray[np.bool_], ink: NDArray[np.bool_], tolerance: int
) -> Steps[Table | None]:
    every = [*across, *down]
    left, right = min(rule.left for rule in every), max(rule.right for rule in every)
    top, bottom = min(rule.top for rule in every), max(rule.bottom for rule in every)
    # The outer sides count as ruled, with rules or without.
    ys = _places([top, bottom - 1, *((rule.top + rule.bottom - 1) / 2 for rule in across)], tolerance)
    xs = _places([left, right - 1, *((rule.left + rule.right - 1) / 2 for rule in down)], tolerance)
    rows, columns = len(ys) - 1, len(xs) - 1
    if rows < 1 or columns < 1 or rows * columns > CELL_LIMIT:
        return None
    numbers = np.arange(rows * columns).reshape(rows, columns)
    one: list[int] = []
    other: list[int] = []
    for row in range(rows):
        yield row / rows
        for column in range(columns):
            box = (xs[column], ys[row], xs[column + 1], ys[row + 1])
            if column + 1 < columns and not (
                _ruled(rules.down_mask.T, box[2], box[1], box[3], tolerance)
                or _hidden(boxes.T, ink.T, box[2], box[1], box[3], tolerance)
            ):
                one.append(numbers[row, column])
                other.append(numbers[row, column + 1])
            if row + 1 < rows and not _ruled(rules.across_mask, box[3], box[0], box[2], tolerance):
                one.append(numbers[row, column])
                other.append(numbers[row + 1, column])
    root = joined(rows * columns, np.array(one, np.int64), np.array(other, np.int64)).reshape(rows, columns)
    inset = _inset(across, down)
    cells = []
    for group in np.unique(root).tolist():
        places = np.argwhere(root == group)
        (first_row, first_column), (last_row, last_column) = places.min(0).tolist(), places.max(0).tolist()
        whole = len(places) == (last_row - first_row + 1) * (last_column - first_column + 1)
        spans = (
            [(first_row, first_column, last_row, last_column)] if whole else [(r, c, r, c) for r, c in places.tolist()]
        )
        for first_row, first_column, last_row, last_column in spans:
            box = (
                round(xs[first_column]) + inset, round(ys[first_row]) + inset, round(xs[last_column + 1]) - inset + 1,
                round(ys[last_row + 1]) - inset + 1,
            )  # fmt: skip
            cells.append(Cell(first_row, first_column, last_row - first_row + 1, last_column - first_column + 1, box))
    cells.sort(key=lambda cell: (cell.row, cell.column))
    return Table((left, top, right, bottom), rows, columns, cells)


def _inset(across: list[Rule], down: list[Rule]) -> int:
    """Pixels from the middle of a rule to what is beside it."""
    thick = [rule.bottom - rule.top for rule in across] + [rule.right - rule.left for rule in down]
    return int(np.median(thick)) // 2 + 1


def _ruled(mask: NDArray[np.bool_], at: float, first: float, behind: float, tolerance: int) -> bool:
    """Whether a rule across runs near the row `at` from a column to another, in a mask bool (H, W)."""
    margin = min(tolerance, int((behind - first) * 0.2))
    low, high = int(first) + margin, int(behind) - margin
    if high <= low:
        return True
    band = mask[max(0, int(at) - tolerance) : int(at) + tolerance + 1, low:high]
    return bool(band.any(0).mean() >= RULED)


def _hidden(
    boxes: NDArray[np.bool_], ink: NDArray[np.bool_], at: float, first: float, behind: float, tolerance: int
) -> bool:
    """Whether a rule across may be hidden in a dark box: nothing is written over its place."""
    low, high = int(first) + tolerance, int(behind) - tolerance
    if high <= low or boxes[int(at), low:high].mean() < RULED:
        return False
    return not ink[max(0, int(at) - 1) : int(at) + 2, low:high].any()
