"""tasks.read and `pyapp read`: events, formats, bad pictures, and nothing invented where there is no text."""

from __future__ import annotations

import csv
import io
import json
import re
import zlib
from importlib import import_module
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest

pytest.importorskip("PIL")

from click.testing import CliRunner
from PIL import Image

from e2e.pdf_files import japanese_pdf, pdf
from pyapp import from_numpy, tasks
from pyapp.cli import cli
from pyapp.events import Cancel, Done, Error, Item, Notice, Progress, Region, TextLine
from pyapp.formats import BytesSource
from pyapp.models.loading.text_readers import load_reading_model
from pyapp.recipes.chooser import Chooser
from pyapp.vision.page.writers import as_csv, as_hocr, as_html, plain_text
from tests.together import collect
from tests.vision.page_drawings import draw_lines, draw_table

pytestmark = pytest.mark.native_only

TEXTS = ["The quick brown fox jumps", "over 14 lazy dogs in the rain.", "Total: 1,024.50 Euro"]


@pytest.fixture(scope="module")
def loaded() -> Any:
    return load_reading_model("reader")


@pytest.fixture(scope="module")
def page() -> np.ndarray:
    return draw_lines(Chooser("page"), [TEXTS], size=24)


def run(images: Any, cancel: Cancel | None = None, **options: Any) -> list[Any]:
    return collect(tasks.read(images, cancel=cancel, **options))


def as_png(pixels: np.ndarray, **options: Any) -> bytes:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", **options)
    return file.getvalue()


def item(events: list[Any]) -> dict[str, Any]:
    assert isinstance(events[-1], Done), events[-1]
    found = [event for event in events if isinstance(event, Item)]
    assert len(found) == 1
    return dict(found[0].values)


def alike(read: str, said: str) -> bool:
    from rapidfuzz.distance import Levenshtein

    return Levenshtein.normalized_distance(read, said) < 0.08


def test_events_of_a_page(loaded: Any, page: np.ndarray) -> None:
    events = run(as_png(page), model=loaded)
    kinds = [type(event) for event in events if not isinstance(event, Progress)]
    assert kinds == [Region, TextLine, TextLine, TextLine, Item, Done]
    values = item(events)
    assert alike(values["text"], "\n".join(TEXTS)), values["text"]
    assert (values["height"], values["width"]) == page.shape and values["angle"] == 0
    lines = sorted((event for event in events if isinstance(event, TextLine)), key=lambda line: line.line)
    for line, said in zip(lines, TEXTS, strict=True):
        assert line.confidence > 0.8 and alike(line.text, said)
        left, top, right, bottom = line.box
        assert [word["text"] for word in line.words] == line.text.split()
        for word in line.words:
            assert left - 2 <= word["box"][0] < word["box"][2] <= right + 2
            inside = page[round(top) : round(bottom), round(word["box"][0]) : round(word["box"][2])]
            assert inside.min() < 100  # a word's box has its ink
    json.dumps([event.to_dict() for event in events])


@pytest.mark.parametrize("quarters", [1, 2, 3])
def test_a_page_that_lies_on_its_side_or_head(loaded: Any, page: np.ndarray, quarters: int) -> None:
    wanted = item(run(as_png(page), model=loaded))
    turned = np.ascontiguousarray(np.rot90(page, quarters))
    values = item(run(as_png(turned), model=loaded))
    assert values["text"] == wanted["text"] and (values["height"], values["width"]) == turned.shape
    assert abs(values["angle"] - (0, -90, 180, 90)[quarters]) % 360 < 1
    for line, said in zip(values["regions"][0]["lines"], TEXTS, strict=True):
        assert alike(line["text"], said)
        left, top, right, bottom = map(round, line["box"])
        assert turned[top:bottom, left:right].min() < 100  # a line's box has its ink
    upright = item(run(as_png(turned), model=loaded, straighten=False))
    assert upright["text"] != wanted["text"]


def test_a_table_with_its_texts(loaded: Any) -> None:
    drawn = draw_table(Chooser("sp", 8), angle=0.7, noise=8)
    values = item(run(from_numpy(drawn.pixels).unsqueeze(2), model=loaded))
    assert "Text below the table" in values["text"]  # the scores alone find no space between "below" and "the"
    table = next(region for region in values["regions"] if region["kind"] == "table")
    read = {
        (cell["row"], cell["column"], cell["row_span"], cell["column_span"]): cell["text"] for cell in table["cells"]
    }
    assert set(read) == {cell[:4] for cell in drawn.cells}
    assert alike(" ".join(read[cell[:4]] for cell in drawn.cells), " ".join(cell[4] for cell in drawn.cells))
    rows = list(csv.reader(io.StringIO(as_csv([values]))))
    assert len(rows) == table["rows"] and {len(row) for row in rows} == {table["columns"]}
    assert values["text"].count("\t") >= table["columns"] - 1


@pytest.mark.parametrize("kind", ["photo", "noise", "blank", "dots", "stripes"])
def test_no_words_are_invented(loaded: Any, kind: str) -> None:
    random = np.random.default_rng(9)
    y, x = np.mgrid[0:240, 0:320]
    made = {
        "photo": 120 + 70 * np.sin(x / 37) * np.cos(y / 23) + 40 * ((x - 200) ** 2 + (y - 90) ** 2 < 2500)
        + random.standard_normal((240, 320)) * 6,
        "noise": random.integers(0, 256, (240, 320)),
        "blank": np.full((240, 320), 250),
        "dots": 255 - 200 * (random.random((240, 320)) < 0.01),
        "stripes": 255 - 180 * ((x + y) % 40 < 12),
    }  # fmt: skip
    events = run(as_png(np.clip(made[kind], 0, 255).astype(np.uint8)), model=loaded)
    assert item(events)["text"] == ""
    assert [event.what for event in events if isinstance(event, Notice)] == ["no text was found"]


def test_pictures_of_all_kinds_give_the_same_text(loaded: Any, page: np.ndarray) -> None:
    wanted = item(run(as_png(page), model=loaded))["text"]
    rgba = np.dstack([np.zeros((*page.shape, 3), np.uint8), 255 - page])  # black with the ink as opacity
    deep = page.astype(np.uint16) * 257
    frames, turned = io.BytesIO(), io.BytesIO()
    Image.fromarray(page).save(frames, "GIF", save_all=True, append_images=[Image.new("L", page.shape[::-1])])
    exif = Image.Exif()
    exif[0x112] = 6
    Image.fromarray(np.rot90(page).copy()).save(turned, "PNG", exif=exif)
    for data in (as_png(rgba), as_png(deep), frames.getvalue(), turned.getvalue(), as_png(255 - page)):
        assert alike(item(run(data, model=loaded))["text"], wanted)
    assert item(run(from_numpy(page).unsqueeze(2), model=loaded))["text"] == wanted


def bomb() -> bytes:
    """A PNG that announces 60,000 x 60,000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")

    head = (60_000).to_bytes(4, "big") * 2 + bytes([8, 0, 0, 0, 0])
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"\0" * 100)) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"), (b"no picture", "not a picture"), (bomb(), "too large|at most"),
        (as_png(np.eye(99, dtype=np.uint8) * 200)[:-40], "ends too early"),
        (b"%PDF-1.7 broken", "pypdfium2|cannot be opened"),
    ],
    ids=["empty", "text", "bomb", "cut", "pdf"],
)  # fmt: skip
def test_bad_pictures_are_refused(loaded: Any, data: bytes, message: str) -> None:
    last = run(BytesSource(data, "given.png"), model=loaded)[-1]
    assert isinstance(last, Error) and re.search(message, last.what), last
    shapes = run(from_numpy(np.zeros((4, 5, 2), np.uint8)), model=loaded)[-1]
    assert isinstance(shapes, Error) and "(H, W, 1 or 3)" in shapes.what


def test_a_pdf_with_a_damaged_page(loaded: Any) -> None:
    pytest.importorskip("pypdfium2")
    cut = pdf("The first page", "Another one").replace(b"/Kids [4 0 R 6 0 R]", b"/Kids [4 0 R 9 0 R]")
    *_, item, last = run(BytesSource(cut, "cut.pdf"), model=loaded)
    assert isinstance(last, Error) and "page 2 of the PDF is damaged" in last.what and last.where == "cut.pdf", item


def test_locked_pdfs_open_with_their_password(loaded: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pypdfium2")
    locked, free = pdf("The secret page", "Another one (2)", password="open it"), japanese_pdf("The Japanese page")
    for password, says in ((None, "locked with a password"), ("Open it", "password is wrong")):
        last = run(BytesSource(locked, "locked.pdf"), model=loaded, password=password)[-1]
        assert isinstance(last, Error) and says in last.what and last.where == "locked.pdf"
    events = run([locked, free], model=loaded, password="open it")
    texts = [event.values["text"] for event in events if isinstance(event, Item)]
    assert texts == ["The secret page", "Another one (2)", "The Japanese page"]
    (tmp_path / "locked.pdf").write_bytes(locked)
    command = ["read", str(tmp_path / "locked.pdf")]
    result = CliRunner().invoke(cli, command, standalone_mode=False)
    assert result.return_value == 1 and "locked with a password" in result.stderr  # there is no terminal
    for more, variables in ((["--password", "open it"], {}), ([], {"PYAPP_PDF_PASSWORD": "open it"})):
        result = CliRunner().invoke(cli, [*command, *more], env=variables)
        assert result.exit_code == 0 and "Another one (2)" in result.stdout
    monkeypatch.setattr(import_module("pyapp.cli.read"), "_in_terminal", lambda: True)
    result = CliRunner().invoke(cli, command, input="wrong\nopen it\n")
    assert result.exit_code == 0 and "password is wrong" in result.stderr and "The secret page" in result.stdout


def test_wrong_options_and_a_stop(loaded: Any, page: np.ndarray) -> None:
    for options, message in (
        ({"layout": "book"}, "layout"),
        ({"threshold": 2}, "threshold"),
        ({"num_beams": 2}, "num_b"),
    ):
        last = run(as_png(page), model=loaded, **options)[-1]
        assert isinstance(last, Error) and message in f"{last.where} {last.what}"
    cancel = Cancel()
    cancel.set()
    assert run(as_png(page), cancel=cancel, model=loaded)[-1].reason == "cancelled"
    line = item(run(as_png(draw_lines(Chooser("one"), [["Garden 1024"]])[40:110]), model=loaded, layout="line"))
    assert alike(line["text"], "Garden 1024")


def test_the_command(tmp_path: Path, page: np.ndarray) -> None:
    drawn = draw_table(Chooser("read", 3))
    files = [tmp_path / "page.png", tmp_path / "table.png"]
    files[0].write_bytes(as_png(page))
    files[1].write_bytes(as_png(drawn.pixels))

    def output(*arguments: Any, **options: Any) -> str:
        found = CliRunner().invoke(cli, ["read", *map(str, arguments)], standalone_mode=False, **options)
        assert found.exception is None and not found.return_value, found.output
        return found.stdout

    text = output(*files)
    assert alike(text.split("\n\n")[0], "\n".join(TEXTS)) and "\t" in text
    assert output("-", input=as_png(page)) == "\n".join(text.split("\n")[:3]) + "\n"
    found = json.loads(output(*files, "--format", "json"))
    assert [Path(entry["name"]).name for entry in found] == ["page.png", "table.png"]
    rows = max(cell[0] for cell in drawn.cells) + 1
    assert len(list(csv.reader(io.StringIO(output(*files, "-f", "csv"))))) == rows
    assert output(*files, "-f", "html").count("<tr>") == output(*files, "-f", "html", "--tables").count("<tr>") == rows
    hocr = ElementTree.fromstring(re.sub("<!DOCTYPE[^>]*>", "", output(*files, "-f", "hocr")).encode())
    classes = [element.get("class") for element in hocr.iter() if element.get("class")]
    assert classes.count("ocr_page") == 2 and classes.count("ocrx_word") >= 14
    assert all("type" in json.loads(line) for line in output(files[0], "--json").splitlines())


def test_writers_escape_what_was_read() -> None:
    place = {"box": (1, 2, 3.4, 4), "corners": [[1, 2], [3, 2], [3, 4], [1, 4]]}
    word = {"text": '<&"', "confidence": 0.9, **place}
    line = {"text": '<&"', "confidence": 0.9, "words": [word], **place}
    cells = [
        {"row": 0, "column": 0, "row_span": 1, "column_span": 2, "text": 'a,"<', **place},
        {"row": 1, "column": 1, "row_span": 1, "column_span": 1, "text": "=1", **place},
    ]
    regions = [
        {"kind": "text", "lines": [line], **place},
        {"kind": "table", "rows": 2, "columns": 2, "cells": cells, "lines": [], **place},
    ]
    pages = [{"regions": regions, "width": 9, "height": 8}]
    assert plain_text(regions) == '<&"\n\na,"<\t\n\t=1'
    assert list(csv.reader(io.StringIO(as_csv(pages)))) == [['a,"<', ""], ["", "=1"]]
    html = as_html(pages)
    assert '<td colspan="2">a,&quot;&lt;</td>' in html and "<p>&lt;&amp;&quot;</p>" in html
    hocr = as_hocr(pages, ['a"<b.png'])
    ElementTree.fromstring(re.sub("<!DOCTYPE[^>]*>", "", hocr).encode())
    assert "bbox 1 2 3 4; x_wconf 90" in hocr
