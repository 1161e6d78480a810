"""Rules: long straight thin lines, across and down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyapp.dataclass import dataclass
from pyapp.engine.lazy import np

from .components import Components, Runs, component_steps, filled, painted, pixels_of, runs_of
from .steps import Steps, within

if TYPE_CHECKING:
    from numpy.typing import NDArray

SHORTEST = 24  # pixels
CHARACTERS = 2.5  # a rule is at least so many usual heights of characters long
GAP = 4  # pixels that a rule may lack
PIECE = 1.3  # usual heights of characters: the shortest piece between gaps
SHORTEST_PIECE = 10  # pixels
THICKEST = 0.8  # of the usual height of characters
SLENDER = 6  # times as long as thick at least
COVERED = 0.6  # of a rule's two sides may have ink; blurred text has more


@dataclass(frozen=True)
class Rule:
    """A rule as a box."""

    left: int
    top: int
    right: int
    bottom: int


@dataclass(frozen=True)
class Rules:
    """The rules of a page, and masks bool (H, W) of their pixels."""

    across: list[Rule]
    down: list[Rule]
    across_mask: NDArray[np.bool_]
    down_mask: NDArray[np.bool_]


def find_rules(mask: NDArray[np.bool_], usual: float) -> Steps[Rules]:
    """The rules of a mask bool (H, W) of ink whose characters are usually `usual` pixels high."""
    shortest = max(SHORTEST, int(CHARACTERS * usual))
    thickest = max(6.0, THICKEST * usual)
    piece = max(SHORTEST_PIECE, int(PIECE * usual))
    across, across_mask = yield from within(_across(mask, piece, shortest, thickest), 0.0, 0.5)
    turned, turned_mask = yield from within(_across(mask.T, piece, shortest, thickest), 0.5, 1.0)
    down = [Rule(rule.top, rule.left, rule.bottom, rule.right) for rule in turned]
    return Rules(across, down, across_mask, turned_mask.T)


def _across(
    mask: NDArray[np.bool_], piece: int, shortest: int, thickest: float
) -> Steps[tuple[list[Rule], NDArray[np.bool_]]]:
    """Rules across, and the mask of their pixels."""
    runs = yield from within(runs_of(mask), 0.0, 0.4)
    pieces = runs.end - runs.start >= piece
    if not pieces.any():
        return [], np.zeros_like(mask)
    row, start, end = runs.row[pieces], runs.start[pieces], runs.end[pieces]
    # Pieces of a row that nearly touch are one.
    follows = np.zeros(len(row), bool)
    follows[1:] = (row[1:] == row[:-1]) & (start[1:] - end[:-1] <= GAP)
    first = np.flatnonzero(~follows)
    last = np.append(first[1:], len(row)) - 1
    row, start, end = row[first], start[first], end[last]
    long = end - start >= shortest
    found_mask = filled(Runs(row[long], start[long], end[long]), mask.shape)
    yield 0.5
    found = yield from within(component_steps(found_mask), 0.5, 0.9)
    beside = _ink_beside(found, found_mask, mask)
    rules: list[Rule] = []
    keep = np.zeros(len(found), bool)
    for i in range(len(found)):
        left, top, right, bottom = found.box(i)
        thick = found.area[i] / (right - left)  # of one that is not quite straight
        free = beside[i] <= COVERED * 2 * (right - left)
        if free and thick <= thickest and right - left >= SLENDER * thick:
            rules.append(Rule(left, top, right, bottom))
            keep[i] = True
    return rules, painted(found, keep, mask.shape)


def _ink_beside(found: Components, found_mask: NDArray[np.bool_], mask: NDArray[np.bool_]) -> NDArray[np.int64]:
    """How many pixels right above and below each component of `found_mask` are other ink, (components,)."""
    runs, other = found.runs, mask & ~found_mask
    count = sum(pixels_of(other, Runs(runs.row + beside, runs.start, runs.end)) for beside in (-1, 1))
    return np.bincount(found.owner, count, len(found)).astype(np.int64)
