"""Read the text in pictures: pages to regions, lines and words with boxes, tables to cells.

A picture is a file (a path, bytes, a ByteSource) or a tensor uint8 (height, width, 3 or 1). Of a PDF every page is a
picture.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import exp, log
from typing import TYPE_CHECKING, Any

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad
from pyapp.engine.lazy import np
from pyapp.engine.ops import from_numpy
from pyapp.errors import OptionError
from pyapp.events import Done, Item, Notice, Progress, Region, TextLine
from pyapp.text.generation.ctc import Mark, best_path
from pyapp.text.generation.options import check_number
from pyapp.vision.line_pixels import ink, scaled_width
from pyapp.vision.page.layout import Layout, layout_steps, whole_line
from pyapp.vision.page.writers import plain_text
from pyapp.vision.resampling import resize

from .given_files import check_files
from .picture_batches import BATCH_SIZE
from .pictures import texts_of_images
from .text_batches import Work
from .texts import stream_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyapp.vision.page.lines import Line

LAYOUTS = ("page", "line")
THRESHOLD = 0.6  # a line's confidence: what is less sure may be no text
LONG, LONG_SHARE = 4, 0.7  # characters of a line that is hardly no text, and the share of the threshold for it
PIXELS_PER_PLACE = 2  # of a line's picture, of a reader's scores
BATCH_PIXELS = 1 << 12  # columns of lines that are read together
WIDTH_STEP = 32  # widths of batches are multiples
LAYOUT = "layout"  # the Progress of what comes before the lines
LINE_FIELDS = ("text", "confidence", "box", "corners", "words", "cell")  # of a picture's Item
INKED = 0.4  # of a pixel is ink
UPRIGHT = 0.85  # the confidence of a page that stands upright
TURNED, BETTER = 0.8, 0.15  # so much confidence, and so much more, turns a page by quarters
SAMPLES = 4  # lines of a page that are read for that
FEW = 3  # lines are a page
SPACE_CHANCE = 0.03  # of a space, which a wide gap in the ink then proves
SPACE_SHARE = 0.6  # of the narrowest space of a line: as wide is such a gap
SPACE_WIDTH = 0.2  # of a line's height: the narrowest space of a line that has none
WIDEST = 1 << 14  # columns of a line
NO_TEXT = "no text was found"


@dataclass(frozen=True)
class Found:
    """What was read in a line's crop: words (text, first column, column after the last, confidence) in pixels of the
    crop, and the confidence of all.
    """

    words: list[tuple[str, float, float, float]]
    confidence: float

    @property
    def text(self) -> str:
        return " ".join(word[0] for word in self.words)


def read_pages(
    loaded: Any, images: Any, *, layout: str | None = None, tables: bool = True, straighten: bool = True,
    threshold: float = THRESHOLD, password: str | None = None, **options: Any,
) -> Work:  # fmt: skip
    """For each picture a Region for each block and table, a TextLine for each line, and an Item with `picture` (its
    number), `page` (of a PDF), `layout`, `text`, `regions`, `width`, `height` and `angle`. Done
    carries `count`, and `lines`: how many there are. A Notice reports a picture without text.

    layout: "page" finds lines and tables; "line" reads the whole picture as one line, which is usual for models such as
    TrOCR; None: what is usual for the model. tables: ruled tables are found. straighten: pages that are not straight
    are turned, also by quarters where a reader of lines reads more surely then. threshold (0 to 1): lines of less
    confidence are left out; for lines of four characters or more, 0.7 of it is enough, since shapes that are not text
    are read as one or two. password: opens PDFs that are locked. The other options are those of a model such as TrOCR
    (text.generation.sequence_to_sequence.SearchOptions).
    """
    from pyapp.models.loading.text_readers import LoadedReader

    reads_lines = isinstance(loaded, LoadedReader)
    layout = layout or ("page" if reads_lines else "line")
    if layout not in LAYOUTS:
        raise OptionError(f"{layout!r:.40} is none of {', '.join(LAYOUTS)}", where="layout")
    if options and reads_lines:
        raise OptionError("is not a setting of a reader of lines", where=next(iter(options)))
    check_number("threshold", threshold, 0, 1)
    images = list(images) if isinstance(images, list | tuple) else [images]
    count = total = 0
    for done, image in enumerate(images):
        yield Progress("pictures", done, len(images), "pictures")
        for part, grey in enumerate(_pictures(image, password)):
            yield None
            page = (yield from _find_layout(grey, tables, straighten)) if layout == "page" else whole_line(grey)
            if reads_lines and layout == "page" and straighten:
                page = yield from _upright(loaded, grey, page, tables)
            yield from _regions(count, page)
            yield None
            lines = yield from _read(loaded, count, page, threshold, options, keep_all=layout == "line")
            total += len(lines)
            values = _values(page, lines, grey.shape)
            if not lines:
                yield Notice(NO_TEXT, where=getattr(image, "name", None) or (image if isinstance(image, str) else None))
            yield Item(count, {"picture": done, "page": part, "layout": layout, **values})
            count += 1
    yield Progress("pictures", len(images), len(images), "pictures")
    yield Done("complete", {"count": count, "lines": total})


def _pictures(image: Any, password: str | None) -> Iterator[NDArray[np.uint8]]:
    """The grey pages uint8 (H, W) of a picture or a PDF."""
    from pyapp.vision.reading import grey_pages

    yield from grey_pages(image, password)


def _find_layout(grey: NDArray[np.uint8], tables: bool, straighten: bool) -> Any:
    """The layout of a page; yields Progress in hundredths."""
    shown, steps = 0, layout_steps(grey, tables, straighten)
    while True:
        try:
            done = int(100 * next(steps))
        except StopIteration as end:
            yield Progress(LAYOUT, 100, 100, "%")
            return end.value
        yield Progress(LAYOUT, done, 100, "%") if done > shown else None
        shown = max(shown, done)


def _upright(loaded: Any, grey: NDArray[np.uint8], page: Layout, tables: bool) -> Any:
    """The layout of a page, or of the page turned by quarters where its lines can be read better then. Pictures of
    a line or two are as they are.
    """
    lines = [line for region in page.regions for line in region.lines]
    if not lines or (len(lines) < FEW and any(line.right - line.left > LONG * line.height for line in lines)):
        return page
    confidence = _sampled(loaded, page, 0)
    if confidence >= UPRIGHT:
        return page
    ways = {0: confidence, 2: _sampled(loaded, page, 2)}  # by quarters to the left
    yield None
    if ways[2] < UPRIGHT:
        turned = yield from _find_layout(np.ascontiguousarray(np.rot90(grey)), tables, True)
        ways |= {1: _sampled(loaded, turned, 0), 3: _sampled(loaded, turned, 2)}
    quarters = max(ways, key=ways.__getitem__)
    if not quarters or ways[quarters] < max(TURNED, confidence + BETTER):
        return page
    if quarters > 1:
        turned = yield from _find_layout(np.ascontiguousarray(np.rot90(grey, quarters)), tables, True)
    return replace(turned, quarters=quarters)


def _sampled(loaded: Any, page: Layout, quarters: int) -> float:
    """The confidence of the widest lines of usual height of a page, each turned by quarters, weighted by their
    lengths.
    """
    lines = [line for region in page.regions for line in region.lines]
    usual = sorted(lines, key=lambda line: line.height)[len(lines) // 2].height if lines else 0
    lines = [line for line in lines if 0.7 * usual <= line.height <= usual / 0.7]
    lines.sort(key=lambda line: line.left - line.right)
    crops = [np.ascontiguousarray(np.rot90(page.crop(line)[0], quarters)) for line in lines[:SAMPLES]]
    read = [one for _, one in _by_scores(loaded, crops, {}) if one is not None]
    length = sum(len(one.text) for one in read)
    return sum(one.confidence * len(one.text) for one in read) / length if length else 0.0


def _regions(index: int, page: Layout) -> Iterator[Region]:
    for number, region in enumerate(page.regions):
        table: dict[str, Any] = {}
        if region.table is not None:
            cells = [
                {"row": cell.row, "column": cell.column, "row_span": cell.row_span, "column_span": cell.column_span,
                 **_place(page, cell.box)}
                for cell in region.table.cells
            ]  # fmt: skip
            table = {"rows": region.table.rows, "columns": region.table.columns, "cells": tuple(cells)}
        kind = "text" if region.table is None else "table"
        yield Region(index, number, kind, len(region.lines), **_place(page, region.box), **table)


def _place(page: Layout, box: Sequence[float]) -> dict[str, Any]:
    """`box` and `corners` in the page as it was given, of a box in the straight page."""
    corners = page.corners(box)
    xs, ys = [corner[0] for corner in corners], [corner[1] for corner in corners]
    return {"box": (min(xs), min(ys), max(xs), max(ys)), "corners": tuple(corners)}


def _read(loaded: Any, index: int, page: Layout, threshold: float, options: Mapping[str, Any], keep_all: bool) -> Any:
    """Reads all lines; yields a TextLine for each; returns them by (region, line)."""
    wanted = [(number, i, line) for number, region in enumerate(page.regions) for i, line in enumerate(region.lines)]
    found: dict[tuple[int, int], TextLine] = {}
    crops = [page.crop(line) for _, _, line in wanted]
    reading = _by_scores if loaded.tokenizer is None else _by_writing
    for done, (i, read) in enumerate(reading(loaded, [crop[0] for crop in crops], options), 1):
        if read is not None:
            number, place, line = wanted[i]
            region = page.regions[number]
            least = threshold * LONG_SHARE if len(read.text) >= LONG else threshold
            if read.words and (keep_all or read.confidence >= least):
                event = _text_line(index, number, place, page, line, crops[i][1], read)
                if region.table is not None:
                    event = replace(event, cell=region.cells[place])
                found[number, place] = event
                yield event
            yield Progress("lines", done, len(wanted), "lines")
        yield None
    return found


def _text_line(index: int, region: int, place: int, page: Layout, line: Line, left: int, read: Found) -> TextLine:
    words = tuple(
        {"text": text, "confidence": round(confidence, 4),
         **_place(page, (left + first, line.top, min(left + last, line.right + line.height), line.bottom))}
        for text, first, last, confidence in read.words
    )  # fmt: skip
    box = (line.left, line.top, line.right, line.bottom)
    return TextLine(index, region, place, read.text, round(read.confidence, 4), **_place(page, box), words=words)


def _by_scores(loaded: Any, crops: Sequence[NDArray[np.uint8]], options: Any) -> Iterator[tuple[int, Found | None]]:
    """(number, what was read) of each crop, by a reader of lines; lines of about the same width are read together."""
    height = loaded.model.config.height
    marks_of = best_path if loaded.search is None else loaded.search.best
    widths = [min(WIDEST, scaled_width(crop.shape[0], crop.shape[1], height)) for crop in crops]
    order = sorted(range(len(crops)), key=lambda i: widths[i])
    first = 0
    while first < len(order):
        last = first + 1
        while last < len(order) and (last - first + 1) * widths[order[last]] <= BATCH_PIXELS:
            last += 1
        chosen = order[first:last]
        width = -(-widths[chosen[-1]] // WIDTH_STEP) * WIDTH_STEP
        pixels = np.zeros((len(chosen), 1, height, width), np.float32)
        for row, i in enumerate(chosen):
            scaled = resize(from_numpy(np.ascontiguousarray(crops[i])).unsqueeze(2), height, widths[i], "bilinear")
            pixels[row, 0, :, : widths[i]] = ink(scaled.numpy()[:, :, 0])
        with no_grad():
            scores = loaded.model(from_numpy(pixels).to(loaded.model.device)).to("float32").cpu().numpy()
        for row, i in enumerate(chosen):
            places = -(-widths[i] // PIXELS_PER_PLACE)
            scale = crops[i].shape[0] / height
            inked: Any = (pixels[row, 0, :, : widths[i]] > INKED).any(0)
            alphabet = loaded.model.config.alphabet
            marks = with_spaces(marks_of(scores[row, :places]), scores[row, :places], alphabet, inked, height)
            yield i, spelled_words(marks, alphabet, inked, scale)
        first = last


def with_spaces(
    marks: Sequence[Mark], scores: NDArray[np.float32], alphabet: str, inked: NDArray[np.bool_], height: int
) -> list[Mark]:
    """The marks with spaces between words that stand close: where the scores (T, classes) have some chance of a space,
    and the ink has a gap nearly as wide as at the line's narrowest space. `inked` as for spelled_words; `height` of the
    line's picture.
    """
    space = alphabet.find(" ") + 1
    spaces = [i for i, mark in enumerate(marks) if mark.number == space]
    inner = [i for i in spaces if 0 < i < len(marks) - 1]
    narrowest = min((_gap(marks[i - 1], marks[i + 1], inked) for i in inner), default=SPACE_WIDTH * height)
    found = list(marks[:1])
    for before, mark in pairwise(marks):
        between = scores[before.last + 1 : mark.first]
        if space and space not in (before.number, mark.number) and len(between):
            chances = np.exp(between - between.max(1, keepdims=True), dtype=np.float32)
            chance = chances[:, space] / chances.sum(1)
            place = int(chance.argmax())
            if chance[place] >= SPACE_CHANCE and _gap(before, mark, inked) >= max(SPACE_SHARE * narrowest, 2):
                place += before.last + 1
                found.append(Mark(space, place, place, 1.0))
        found.append(mark)
    return found


def _gap(before: Mark, behind: Mark, inked: NDArray[np.bool_]) -> int:
    """The columns of the widest gap in the ink between two marks."""
    columns = inked[PIXELS_PER_PLACE * before.first : PIXELS_PER_PLACE * (behind.last + 1)]
    edges = np.flatnonzero(np.concatenate(([True], columns, [True])))
    return int(np.diff(edges).max()) - 1


def spelled_words(marks: Sequence[Mark], alphabet: str, inked: NDArray[np.bool_], scale: float) -> Found:
    """The words that marks spell. A word begins and ends with the ink between the spaces around it: `inked` are the
    columns of the line's picture that have some, each `scale` pixels of the crop wide.
    """
    words: list[tuple[str, float, float, float]] = []
    current: list[Mark] = []
    begin = 0
    for mark in [*marks, None]:
        if mark is not None and alphabet[mark.number - 1] != " ":
            current.append(mark)
            continue
        end = len(inked) if mark is None else (mark.first + mark.last + 1) * PIXELS_PER_PLACE // 2
        if current:
            ink_at = np.flatnonzero(inked[begin:end])
            first, last = (begin + int(ink_at[0]), begin + int(ink_at[-1]) + 1) if len(ink_at) else (begin, end)
            text = "".join(alphabet[one.number - 1] for one in current)
            words.append((text, first * scale, last * scale, _confidence(current)))
        current, begin = [], end
    return Found(words, _confidence(marks))


def _confidence(marks: Sequence[Mark]) -> float:
    """The geometric mean of the probabilities."""
    if not marks:
        return 0.0
    return exp(sum(log(max(mark.probability, 1e-9)) for mark in marks) / len(marks))


def _by_writing(loaded: Any, crops: Sequence[NDArray[np.uint8]], options: Any) -> Iterator[tuple[int, Found | None]]:
    """(number, what was read) of each crop, by a model such as TrOCR, which reports no places and no confidence."""
    pictures: list[Tensor] = []
    for crop in crops:
        grey = from_numpy(np.ascontiguousarray(crop)).unsqueeze(2)
        pictures.append(grey.expand(*crop.shape, 3).contiguous())
    for event in texts_of_images(loaded, pictures, batch_size=BATCH_SIZE, **options):
        if isinstance(event, Item):
            words, width = event.values["text"].split(), float(crops[event.index].shape[1])
            yield event.index, Found([(" ".join(words), 0.0, width, 1.0)] if words else [], 1.0)
        elif event is None:
            yield 0, None


def _values(page: Layout, lines: Mapping[tuple[int, int], TextLine], shape: tuple[int, ...]) -> dict[str, Any]:
    """The values of a picture's Item."""
    regions = []
    for number, region in enumerate(page.regions):
        own = [lines[number, i].to_dict() for i in range(len(region.lines)) if (number, i) in lines]
        own = [{name: line[name] for name in LINE_FIELDS if name in line} for line in own]
        if not own:  # no text, or a table of a picture that is none
            continue
        entry: dict[str, Any] = {
            "kind": "text" if region.table is None else "table", **_place(page, region.box), "lines": own,
        }  # fmt: skip
        if region.table is not None:
            texts: dict[int, list[str]] = {}
            for line in own:
                texts.setdefault(line["cell"], []).append(line["text"])
            entry |= {"rows": region.table.rows, "columns": region.table.columns, "cells": [
                {"row": cell.row, "column": cell.column, "row_span": cell.row_span, "column_span": cell.column_span,
                 "text": " ".join(texts.get(i, ())), **_place(page, cell.box)}
                for i, cell in enumerate(region.table.cells)
            ]}  # fmt: skip
        regions.append(entry)
    height, width = shape
    return {"text": plain_text(regions), "regions": regions, "width": width, "height": height,
            "angle": round(page.angle, 2)}  # fmt: skip


read = stream_of("read", read_pages, remote=False, check=check_files)
