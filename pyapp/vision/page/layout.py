"""From the pixels of a page to its tables and lines of text, in the order of reading."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np

from .components import component_steps
from .ink import Ink, dark_on_light, find_ink, histogram, ink_steps, usual_height, without_specks
from .lines import Line, find_lines
from .order import in_order, order_steps
from .rules import find_rules
from .skew import Turn, skew
from .steps import Steps, finished, within
from .tables import Table, find_tables

if TYPE_CHECKING:
    from numpy.typing import NDArray

Box = tuple[int, int, int, int]
ROOM = 0.1  # of a line's height is left above and below its ink
SIDE_ROOM = 0.2  # and before and after it
SMALLEST_LINE = 5  # pixels high


@dataclass(frozen=True)
class Region:
    """A block of lines, or a table with the lines of its cells: `lines` are those of all cells, and `cells` gives the
    number of the table's cell for each.
    """

    box: Box
    lines: list[Line]
    table: Table | None = None
    cells: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Layout:
    """A page: the turn that makes it straight, its straight pixels uint8 (H, W), dark on light, and its regions in the
    order of reading. Boxes are those of the straight page. `quarters`: how many quarters of a circle the page was
    turned to the left before.
    """

    turn: Turn
    grey: NDArray[np.uint8]
    regions: list[Region]
    quarters: int = 0

    @property
    def angle(self) -> float:
        """The degrees by which the lines of the page, as it was given, fall to the right: -180 to 180."""
        return (self.turn.angle + 90 * self.quarters + 180) % 360 - 180

    def crop(self, line: Line) -> tuple[NDArray[np.uint8], int, int]:
        """A line's pixels with some room around them, and the left and top of these in the straight page."""
        room, side = round(ROOM * line.height) + 1, round(SIDE_ROOM * line.height) + 1
        left, top = max(0, line.left - side), max(0, line.top - room)
        return self.grey[top : line.bottom + room, left : line.right + side], left, top

    def corners(self, box: Sequence[float]) -> list[list[float]]:
        """The corners of a box in the page as it was given: left top, right top, right bottom, left bottom."""
        left, top, right, bottom = box
        places = ((left, top), (right, top), (right, bottom), (left, bottom))
        return [[round(value, 1) for value in self._given(*self.turn.back(x, y))] for x, y in places]

    def _given(self, x: float, y: float) -> tuple[float, float]:
        """The place in the page as it was given of a place in the page after the quarters."""
        height, width = self.turn.height, self.turn.width
        return ((x, y), (height - y, x), (width - x, height - y), (y, width - x))[self.quarters]


def whole_line(grey: NDArray[np.uint8]) -> Layout:
    """A grey picture uint8 (H, W) as one line, around its ink."""
    ink = find_ink(grey)
    rows, columns = np.flatnonzero(ink.mask.any(1)), np.flatnonzero(ink.mask.any(0))
    turn = Turn(0.0, *grey.shape)
    if not len(rows):
        return Layout(turn, ink.grey, [])
    box = int(columns[0]), int(rows[0]), int(columns[-1]) + 1, int(rows[-1]) + 1
    return Layout(turn, ink.grey, [Region(box, [Line(*box, float(box[3] - box[1]))])])


@dataclass(frozen=True)
class _Item:
    """A line or a table, to be put in order."""

    box: Box
    line: Line | None = None
    table: Region | None = None


def find_layout(grey: NDArray[np.uint8], tables: bool = True, straighten: bool = True) -> Layout:
    """The layout of a grey page uint8 (H, W). tables: ruled tables are found; otherwise their text is lines."""
    return finished(layout_steps(grey, tables, straighten))


def layout_steps(grey: NDArray[np.uint8], tables: bool = True, straighten: bool = True) -> Steps[Layout]:
    """As `find_layout`."""
    grey = dark_on_light(grey)
    plain = yield from within(without_specks(grey), 0.0, 0.05)
    ink = yield from within(ink_steps(plain), 0.05, 0.3)
    angle = skew(ink.mask) if straighten else 0.0
    turn = Turn(angle, *grey.shape)
    if angle:
        ink = yield from within(_turned(turn, plain), 0.3, 0.6)
        rest = skew(ink.mask)  # dark boxes are open now
        if rest:
            turn = Turn(angle + rest, *grey.shape)
            ink = yield from within(_turned(turn, plain), 0.6, 0.72)
    if plain is not grey:  # what is read has its specks
        ink = ink.of((yield from within(turn.pixel_steps(grey, _paper(grey)), 0.72, 0.75)))
    mask, straight = ink.mask, ink.grey
    usual = usual_height((yield from within(component_steps(mask), 0.75, 0.78)))
    rules = yield from within(find_rules(mask, usual), 0.78, 0.9)
    mask = mask & ~_with_edges(rules.across_mask) & ~_with_edges(rules.down_mask.T).T
    found = yield from within(component_steps(mask), 0.9, 0.93)
    usual = usual_height(found) or usual
    found_tables = (yield from within(find_tables(rules, ink.boxes, mask, usual), 0.93, 0.94)) if tables else []
    centre_x, centre_y = (found.left + found.right) / 2, (found.top + found.bottom) / 2

    def inside(box: Box) -> NDArray[np.bool_]:
        return (centre_x >= box[0]) & (centre_x < box[2]) & (centre_y >= box[1]) & (centre_y < box[3])

    free = np.ones(len(found), bool)
    items: list[_Item] = []
    for table in found_tables:
        here = inside(table.box)
        free &= ~here
        lines: list[Line] = []
        cells: list[int] = []
        for number, cell in enumerate(table.cells):
            chosen = np.flatnonzero(here & inside(cell.box))
            own = _of_cell((yield from within(find_lines(found, chosen, mask, usual), 0.94, 0.94)), cell.box)
            own = own or _lone(found, chosen, usual)
            lines += own
            cells += [number] * len(own)
        if lines:
            items.append(_Item(table.box, table=Region(table.box, lines, table, cells)))
    for line in (yield from within(find_lines(found, np.flatnonzero(free), mask, usual), 0.94, 0.98)):
        if line.height >= SMALLEST_LINE:
            items.append(_Item((line.left, line.top, line.right, line.bottom), line=line))
    return Layout(turn, straight, _regions((yield from within(order_steps(items), 0.98, 1.0))))


def _with_edges(rules: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Rules across with the pixels above and below them: what a rule that is not quite straight leaves there."""
    found = rules.copy()
    found[1:] |= rules[:-1]
    found[:-1] |= rules[1:]
    return found


def _turned(turn: Turn, grey: NDArray[np.uint8]) -> Steps[Ink]:
    """The ink of a turned page."""
    pixels = yield from within(turn.pixel_steps(grey, _paper(grey)), 0.0, 0.3)
    return (yield from within(ink_steps(pixels), 0.3, 1.0))


def _paper(grey: NDArray[np.uint8]) -> int:
    """The usual value of a page, with which the corners are filled that a turn leaves."""
    return int(histogram(grey).reshape(32, 8).sum(1).argmax()) * 8 + 4


def _of_cell(lines: list[Line], box: Box) -> list[Line]:
    """A cell's lines in order, cut off at its sides."""
    boxed = [_Item((line.left, line.top, line.right, line.bottom), line=line) for line in lines]
    found = [item.line for block in in_order(boxed) for item in block if item.line is not None]
    return [
        Line(
            max(line.left, box[0]), max(line.top, box[1]), min(line.right, box[2]), min(line.bottom, box[3]), line.size
        )
        for line in found
    ]


def _lone(found: object, chosen: NDArray[np.int64], usual: float) -> list[Line]:
    """A line around the ink of a cell without text, such as a dash; none if there is none that is large enough."""
    boxes = np.stack([getattr(found, side)[chosen] for side in ("left", "top", "right", "bottom")], 1)
    boxes = boxes[np.maximum(boxes[:, 2] - boxes[:, 0], boxes[:, 3] - boxes[:, 1]) >= 0.25 * usual]
    if not len(boxes) or usual <= 0:
        return []
    (left, top), (right, bottom) = boxes[:, :2].min(0).tolist(), boxes[:, 2:].max(0).tolist()
    missing = max(0, round(usual - (bottom - top)) // 2)
    return [Line(left, max(0, top - missing), right, bottom + missing, usual)]


def _regions(blocks: list[list[_Item]]) -> list[Region]:
    regions: list[Region] = []
    for block in blocks:
        lines: list[Line] = []
        for item in block:
            if item.table is None and item.line is not None:
                lines.append(item.line)
            else:
                regions += [_text(lines)] if lines else []
                regions += [item.table] if item.table is not None else []
                lines = []
        regions += [_text(lines)] if lines else []
    return regions


def _text(lines: list[Line]) -> Region:
    box = (
        min(line.left for line in lines), min(line.top for line in lines), max(line.right for line in lines),
        max(line.bottom for line in lines),
    )  # fmt: skip
    return Region(box, lines)
