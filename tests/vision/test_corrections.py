"""Pages whose text was corrected by hand: words, lines of cells and the text follow."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from pyapp.vision.page.corrections import corrected
from pyapp.vision.page.writers import FORMATS, written


def place(left: float, top: float, right: float, bottom: float) -> dict[str, Any]:
    return {"box": [left, top, right, bottom], "corners": [[left, top], [right, top], [right, bottom], [left, bottom]]}


def line(text: str, top: float, **more: Any) -> dict[str, Any]:
    """A line whose characters are 10 pixels wide and 20 high."""
    words, at = [], 0
    for word in text.split():
        words.append({"text": word, "confidence": 0.5, **place(10 * at, top, 10 * (at + len(word)), top + 20)})
        at += len(word) + 1
    return {"text": text, "confidence": 0.5, **place(0, top, 10 * len(text), top + 20), "words": words, **more}


@pytest.fixture
def page() -> dict[str, Any]:
    cells = [
        {"row": 0, "column": 0, "row_span": 1, "column_span": 1, "text": "one two", **place(0, 100, 90, 150)},
        {"row": 0, "column": 1, "row_span": 1, "column_span": 1, "text": "", **place(90, 100, 180, 150)},
    ]
    table = {"kind": "table", "rows": 1, "columns": 2, "cells": cells, **place(0, 100, 180, 150),
             "lines": [line("one", 100, cell=0), line("two", 125, cell=0)]}  # fmt: skip
    block = {"kind": "text", **place(0, 0, 200, 50), "lines": [line("a fxo ran", 0), line("over", 30)]}
    return {"text": "a fxo ran\nover\n\none two\t", "layout": "page", "regions": [block, table], "angle": 0.0,
            "width": 200, "height": 160}  # fmt: skip


def test_a_page_that_nobody_changed_stays_as_it_is(page: dict[str, Any]) -> None:
    assert corrected(page) == page
    page["regions"][0]["lines"][1]["words"] = [{"text": "over and over", "confidence": 1.0, **place(0, 30, 40, 50)}]
    page["regions"][0]["lines"][1]["text"] = "over and over"  # a model such as TrOCR tells no places of words
    page["text"] = page["text"].replace("over", "over and over")
    assert corrected(page) == page


def test_words_keep_their_places_or_share_the_line(page: dict[str, Any]) -> None:
    first, second = page["regions"][0]["lines"]
    before = copy.deepcopy(page)
    first["text"], second["text"] = "a fox ran", " over the hill "
    given = copy.deepcopy(page)
    found = corrected(page)
    assert page == given, "the page was changed"
    assert found["text"] == "a fox ran\nover the hill\n\none two\t"
    fox, hill = found["regions"][0]["lines"]
    assert [word["text"] for word in fox["words"]] == ["a", "fox", "ran"]
    boxes = [word["box"] for word in before["regions"][0]["lines"][0]["words"]]
    assert [word["box"] for word in fox["words"]] == boxes
    assert [word["confidence"] for word in fox["words"]] == [0.5, 1.0, 0.5] and fox["confidence"] == 1.0
    assert [word["text"] for word in hill["words"]] == ["over", "the", "hill"]
    ends = [side for word in hill["words"] for side in word["box"][::2]]
    assert ends == pytest.approx([40 * at / 13 for at in (0, 4, 5, 8, 9, 13)])
    assert all(word["box"][1::2] == pytest.approx((30, 50)) for word in hill["words"])


def test_cells_and_empty_lines(page: dict[str, Any]) -> None:
    block, table = page["regions"]
    for one in block["lines"]:
        one["text"] = " "
    table["cells"][0]["text"], table["cells"][1]["text"] = "three", "4 <b>"
    found = corrected(page)
    assert found["text"] == "three\t4 <b>" and len(found["regions"]) == 1
    lines = found["regions"][0]["lines"]
    assert [(one["cell"], one["text"]) for one in lines] == [(0, "three"), (1, "4 <b>")]
    assert lines[1]["box"] == [90, 100, 180, 150] and len(lines[1]["words"]) == 2
    texts = {form: written(form, [found, found], ["a.png", 'b".png']) for form in FORMATS}
    assert texts["csv"] == "three,4 <b>\n\nthree,4 <b>\n"
    assert texts["text"] == "three\t4 <b>\n\nthree\t4 <b>\n"
    assert [one["name"] for one in json.loads(texts["json"])] == ["a.png", 'b".png']
    assert "4 &lt;b&gt;" in texts["html"] and texts["hocr"].count("ocrx_word") == 7  # six words, and the head
    table["cells"][0]["text"] = table["cells"][1]["text"] = ""
    assert corrected(page)["text"] == "\t"
    only = written("json", [page], ["a.png"], only_tables=True)
    assert [region["kind"] for region in json.loads(only)[0]["regions"]] == ["table"]
