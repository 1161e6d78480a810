"""The layout of drawn pages: ink, angles, lines, columns, and ruled tables."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("PIL")

from pyapp.recipes.chooser import Chooser
from pyapp.vision.page.components import component_steps, components, joined
from pyapp.vision.page.ink import dark_on_light, find_ink
from pyapp.vision.page.layout import Layout, Region, find_layout, layout_steps
from pyapp.vision.page.order import in_order
from pyapp.vision.page.skew import Turn, skew
from tests.vision.page_drawings import draw_lines, draw_table, text_of

pytestmark = pytest.mark.native_only


def lines_of(layout: Layout) -> list[tuple[int, int, int, int]]:
    return [(one.left, one.top, one.right, one.bottom) for region in layout.regions for one in region.lines]


def columns(number: int, count: int = 2, lines: int = 9) -> list[list[str]]:
    chooser = Chooser("columns", number)
    return [[text_of(chooser, 4) for _ in range(lines)] for _ in range(count)]


def flooded(mask: np.ndarray) -> list[tuple[int, int, int, int, int]]:
    """Boxes and areas of components, pixel by pixel."""
    left = {(int(y), int(x)) for y, x in np.argwhere(mask)}
    found = []
    while left:
        todo, own = [left.pop()], []
        while todo:
            y, x = todo.pop()
            own.append((y, x))
            near = {(y + i, x + j) for i in (-1, 0, 1) for j in (-1, 0, 1)} & left
            left -= near
            todo += near
        ys, xs = zip(*own, strict=True)
        found.append((min(xs), min(ys), max(xs) + 1, max(ys) + 1, len(own)))
    return sorted(found)


@pytest.mark.parametrize("share", [0.0, 0.2, 0.45, 0.8, 1.0])
def test_components_are_those_of_flooding(share: float) -> None:
    mask = np.random.default_rng(7).random((23, 31)) < share
    found = components(mask)
    boxes = [(*found.box(i), int(found.area[i])) for i in range(len(found))]
    assert sorted(boxes) == flooded(mask)


def test_groups_are_joined_over_chains() -> None:
    one, other = np.array([0, 5, 3, 4]), np.array([5, 3, 1, 2])
    assert joined(7, one, other).tolist() == [0, 0, 2, 0, 2, 0, 6]


@pytest.mark.parametrize("angle", [-4.0, -1.3, 0.0, 0.6, 2.5])
def test_pages_are_turned_straight(angle: float) -> None:
    pixels = draw_lines(Chooser("angle", angle), columns(1, 1), angle=angle)
    layout = find_layout(pixels)
    assert layout.turn.angle == pytest.approx(-angle, abs=0.12)
    assert len(lines_of(layout)) == 9
    # A corner of a line goes back to where its ink is in the page as it was given.
    left, top, right, bottom = lines_of(layout)[4]
    xs, ys = zip(*layout.corners((left, top, right, bottom)), strict=True)
    inside = pixels[max(0, int(min(ys))) : int(max(ys)) + 1, max(0, int(min(xs))) : int(max(xs)) + 1]
    assert inside.min() < 100


def test_a_turn_and_its_way_back() -> None:
    turn = Turn(3.0, 40, 60)
    assert turn.back(turn.out_width / 2, turn.out_height / 2) == (30.0, 20.0)
    assert skew(np.zeros((30, 30), bool)) == 0.0
    straight = Turn(0.0, 4, 5)
    grey = np.arange(20, dtype=np.uint8).reshape(4, 5)
    assert straight.pixels(grey, 255) is grey and straight.back(2.0, 3.0) == (2.0, 3.0)


@pytest.mark.parametrize(("noise", "inverse", "size"), [(0, False, 14), (10, False, 20), (0, True, 28), (8, True, 18)])
def test_columns_are_read_one_after_another(noise: float, inverse: bool, size: int) -> None:
    pixels = draw_lines(Chooser("columns"), columns(2), size, noise=noise, inverse=inverse)
    layout = find_layout(pixels)
    boxes = lines_of(layout)
    assert len(boxes) == 18
    middle = pixels.shape[1] / 2
    assert [box[0] < middle for box in boxes] == [True] * 9 + [False] * 9
    assert all(low[1] < high[1] for part in (boxes[:9], boxes[9:]) for low, high in zip(part, part[1:], strict=False))


def test_the_layout_of_a_large_page_can_be_stopped_at_any_time() -> None:
    """There are many steps, and what they say of the work that is done only grows."""
    lines = draw_lines(Chooser("large"), columns(2), 20, noise=8, angle=1.0)
    page = np.tile(lines, (-(-2600 // lines.shape[0]), -(-2200 // lines.shape[1])))[:2600, :2200]
    shares = [0.0, *layout_steps(np.ascontiguousarray(page))]
    assert len(shares) > 300
    assert shares == sorted(shares) and shares[-1] <= 1.0 and len(set(shares)) > 30


def test_components_of_noise_can_be_stopped_at_any_time() -> None:
    """Salt and pepper have as many runs of ink as a page can have."""
    steps = component_steps(np.random.default_rng(3).random((3000, 2000)) < 0.2)
    assert sum(1 for _ in steps) > 50


def test_a_strip_of_many_lines_is_read_from_top_to_bottom() -> None:
    """A page is cut as often as it has lines: more often than Python's functions may call one another."""
    strip = [Region((10, top, 300, top + 20), []) for top in range(0, 90_000, 60)]
    blocks = in_order(strip[::-1])
    assert [item for block in blocks for item in block] == strip


def test_a_dark_page_is_turned_round() -> None:
    pixels = draw_lines(Chooser("dark"), columns(3, 1, 2))
    assert np.array_equal(dark_on_light(pixels), pixels) and np.array_equal(dark_on_light(255 - pixels), pixels)


@pytest.mark.parametrize("level", [120, 180])
def test_dark_print_on_dark_paper_stays(level: int) -> None:
    """The frame of a label is darker than half way between print and paper."""
    pixels = draw_lines(Chooser("label"), columns(3, 1, 2))
    page = np.pad(pixels, 60, constant_values=level)
    assert np.array_equal(dark_on_light(page), page)
    assert np.array_equal(dark_on_light(pixels // 3), pixels // 3)


def test_stains_and_specks_are_no_ink() -> None:
    """Lines are found beside stains as dark as half the print, and under specks of a bad facsimile."""
    pixels = draw_lines(Chooser("stains"), columns(4, 1, 5), 22)
    wanted = [(top, bottom) for _, top, _, bottom in lines_of(find_layout(pixels))]
    y, x = np.mgrid[: pixels.shape[0], : pixels.shape[1]]
    stains = np.cos(y / 23) * np.cos(x / 31)
    stained = np.clip(pixels - 110 * np.clip(stains, 0, 1), 0, 255).astype(np.uint8)
    specks = np.random.default_rng(1).random(pixels.shape)
    speckled = np.where(specks < 0.01, 0, np.where(specks > 0.99, 255, pixels)).astype(np.uint8)
    for page in (stained, speckled):
        found = [(top, bottom) for _, top, _, bottom in lines_of(find_layout(page))]
        assert len(found) == len(wanted) == 5
        assert np.abs(np.array(found) - np.array(wanted)).max() <= 4


def test_small_text_that_noise_blurs_is_no_rule() -> None:
    pixels = draw_lines(Chooser("small"), columns(5, 1, 3), 12, noise=20)
    boxes = lines_of(find_layout(pixels))
    assert len(boxes) == 3 and all(8 <= bottom - top <= 20 for _, top, _, bottom in boxes)


@pytest.mark.parametrize("kind", ["white", "grey noise", "slope", "one pixel", "strip"])
def test_paper_without_ink_has_no_lines(kind: str) -> None:
    random = np.random.default_rng(3)
    pages = {
        "white": np.full((200, 300), 255),
        "grey noise": 128 + random.standard_normal((200, 300)) * 12,
        "slope": np.linspace(90, 250, 300)[None, :] + np.zeros((200, 1)),
        "one pixel": np.zeros((1, 1)),
        "strip": np.full((1, 900), 200),
    }
    page = np.clip(pages[kind], 0, 255).astype(np.uint8)
    assert find_layout(page).regions == []
    assert find_ink(page).mask.shape == page.shape


def test_cells_of_drawn_tables() -> None:
    """Spans, rules of 1 to 5 pixels, angles up to 2 degrees and noise: 95 % of the cells are right."""
    right = wanted = 0
    for number in range(20):
        chooser = Chooser("table", number)
        angle = chooser.between(-2, 2) if chooser.chance(0.7) else 0.0
        drawn = draw_table(chooser, angle, chooser.between(0, 14) if chooser.chance(0.6) else 0.0)
        tables = [region.table for region in find_layout(drawn.pixels).regions if region.table is not None]
        found = {
            (cell.row, cell.column, cell.row_span, cell.column_span) for table in tables[:1] for cell in table.cells
        }
        cells = {cell[:4] for cell in drawn.cells}
        right += len(cells & found)
        wanted += len(cells)
    assert right >= 0.95 * wanted, f"{right} of {wanted}"


def test_a_header_with_light_text_has_cells() -> None:
    chooser = Chooser("header")
    drawn = draw_table(chooser, share=0.0)
    columns = max(cell[1] for cell in drawn.cells) + 1
    layout = find_layout(drawn.pixels)
    region = next(region for region in layout.regions if region.table is not None)
    assert region.table is not None
    left, top, right, bottom = region.table.cells[0].box
    page = drawn.pixels.copy()
    for cell in region.table.cells[:columns]:  # light on dark between the rules
        left, top, right, bottom = cell.box
        page[top:bottom, left:right] = 290 - page[top:bottom, left:right].astype(int).clip(46, 244)
    again = next(region for region in find_layout(page).regions if region.table is not None)
    assert again.table is not None and again.table.columns == columns
    assert len(again.table.cells) == len(region.table.cells)
    assert {region.cells[i] for i in range(len(region.lines))} == {again.cells[i] for i in range(len(again.lines))}
