"""Reading pictures: the text is that of the native reader, beside the picture; PDFs, the camera, corrections, files."""

from __future__ import annotations

import csv
import io
import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import BrowserContext, Page, expect

from e2e.fake_hub import FakeHub
from e2e.page import ViewPage
from e2e.pdf_files import japanese_pdf, pdf
from pyapp.events import Item
from pyapp.formats.safetensors import write_safetensors
from pyapp.models.loading.by_task import load_task_model
from pyapp.models.loading.text_readers import load_reading_model
from pyapp.recipes.chooser import Chooser
from pyapp.tasks.documents import answer_pages
from pyapp.tasks.reading import read_pages
from pyapp.vision.page.writers import as_csv
from scripts.serve import SiteServer
from tests.models.picture_configs import CONFIGS
from tests.models.test_pictures import make
from tests.tasks.test_documents import folder as write_answerer
from tests.tasks.test_texts import WORDS, tokenizer_json
from tests.vision.page_drawings import draw_lines, draw_table

TEXTS = ["The quick brown fox jumps", "over 14 lazy dogs in the rain.", "Total: 1,024.50 Euro"]
REPO = "microsoft/trocr-small-handwritten"
DONE = "!pyappPage.read.button.running && pyappPage.read.pages.every(({ state }) => state !== 'waiting')"


# As browsers do that hide what a canvas shows: all of it is white.
RESISTS_FINGERPRINTING = """() => {
  const { prototype } = CanvasRenderingContext2D;
  globalThis.getImageData = prototype.getImageData;
  const white = (width, height) => new Uint8ClampedArray(4 * width * height).fill(255);
  prototype.getImageData = (x, y, width, height) => new ImageData(white(width, height), width, height);
}"""


class ReadPage(ViewPage):
    """The read view in one tab."""

    view = "read"
    anew = "await view.begin(); app.choices.read.chooseFirst()"

    def __init__(self, page: Page) -> None:
        super().__init__(page)
        self.queue = page.locator("#read-queue li")
        self.lines = page.locator("#read-text .read-line")
        self.cells = page.locator("#read-text td")
        self.button = page.locator("#read-start")

    def reset(self) -> None:
        super().reset()
        expect(self.page.locator("#read-sheet")).to_have_attribute("data-state", "empty")

    def give(self, *files: Path) -> None:
        self.page.locator("#read-files").set_input_files(files)

    def read(self, *files: Path) -> None:
        """Adds files, and waits until they are read."""
        before = self.state("pages.length")
        self.give(*files)
        self.until(f"pyappPage.read.pages.length > {before} && {DONE}", timeout=60)

    def values(self) -> dict[str, Any]:
        found: dict[str, Any] = self.state("page.values")
        return found

    def saved(self, form: str) -> str:
        return Path(self.download(f"#read-formats [data-format={form}]").path()).read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def tab(browser: BrowserContext, site: SiteServer) -> Iterator[ReadPage]:
    yield (page := ReadPage(browser.new_page()).open(site.url))
    page.page.close()


@pytest.fixture
def read(tab: ReadPage) -> Iterator[ReadPage]:
    tab.reset()
    yield tab
    assert tab.unexpected_errors() == []


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page with a ruled table, a little askew."""
    path = tmp_path_factory.mktemp("drawn") / "table.png"
    Image.fromarray(draw_table(Chooser("read", 3), angle=1.0, noise=4).pixels).save(path)
    return path


@pytest.fixture(scope="module")
def letter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("drawn") / "letter.png"
    Image.fromarray(draw_lines(Chooser("page"), [TEXTS], size=24)).save(path)
    return path


def native(file: Path, model: Path | str = "reader", **options: Any) -> dict[str, Any]:
    """What the native reader finds in the same file."""
    events = read_pages(load_reading_model(model), str(file), **options)
    [found] = [event.values for event in events if isinstance(event, Item)]
    return dict(found)


def native_answers(model: Path, question: str, file: Path, values: dict[str, Any]) -> list[dict[str, Any]]:
    """The answers of the native task on a page that was read, by the model as the page loads it."""
    words = [word for region in values["regions"] for line in region["lines"] for word in line["words"]]
    page = {"words": [word["text"] for word in words], "boxes": [word["box"] for word in words], "image": str(file)}
    page |= {"width": values["width"], "height": values["height"]}
    loaded = load_task_model(model, "question-answering", dtype="q8_0")
    [found] = [event.values for event in answer_pages(loaded, [question], [page], top=3) if isinstance(event, Item)]
    return list(found["answers"])


def png_that_announces(width: int, height: int) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(1000))) + chunk(b"IEND", b"")
    )


def test_the_sample(read: ReadPage, dist: Path) -> None:
    read.page.get_by_role("button", name="A bill with a table").dblclick()  # adds it once
    read.until(f"pyappPage.read.pages.length === 1 && {DONE}", timeout=60)
    assert read.values()["text"] == native(dist / "models" / "reader" / "samples" / "bill.png")["text"]
    expect(read.cells).to_have_count(20)
    expect(read.cells.nth(4)).to_have_text("Rye bread")


def test_a_page_is_read_as_natively_and_corrected_by_hand(read: ReadPage, table: Path) -> None:
    page = read.page
    expected = native(table)
    read.read(table)
    found = read.values()
    assert found["text"] == expected["text"] and found["angle"] == expected["angle"]
    [place] = [i for i, region in enumerate(expected["regions"]) if region["kind"] == "table"]
    cells = expected["regions"][place]["cells"]
    assert [cell["text"] for cell in found["regions"][place]["cells"]] == [cell["text"] for cell in cells]
    assert read.cells.all_inner_texts() == [cell["text"] for cell in cells]
    assert page.locator(".read-overlay .cell").count() == len(cells)
    expect(page.locator("#read-tables")).to_have_text("1")
    canvas = page.locator(".read-stage canvas").bounding_box()
    drawn = page.locator(f".read-overlay [data-key='{place}/cell/0']").bounding_box()
    assert canvas and drawn
    scale = canvas["width"] / found["width"]
    assert abs(drawn["x"] - canvas["x"] - cells[0]["box"][0] * scale) < 3  # over its cell of the picture

    # The text and the picture show the same place; the text is one stop of the tab key.
    page.locator(f".read-overlay [data-key='{place}/cell/1']").click()
    expect(page.locator(f"#read-text [data-key='{place}/cell/1']")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(page.locator(f".read-overlay [data-key='{place}/cell/2']")).to_have_class("cell marked")
    page.keyboard.press("Home")
    first = page.locator("#read-text [data-key]").first
    expect(first).to_be_focused()
    assert page.locator("#read-text [data-key][tabindex='0']").count() == 1

    # A cell and a line are corrected; the files have the corrections, and as many words in their places.
    page.get_by_role("button", name="Edit text").click()
    label = f"Row {cells[0]['row'] + 1}, column {cells[0]['column'] + 1} of table 1"
    page.get_by_label(label).fill("Corrected, 7")
    page.locator("#read-text textarea").first.fill("A list of things & more")
    page.locator("#read-undo").click()
    expect(page.locator("#read-text textarea").first).to_have_value(expected["regions"][0]["lines"][0]["text"])
    page.locator("#read-text textarea").first.fill("A list of things & more")
    page.get_by_role("button", name="Done editing").click()
    rows = list(csv.reader(io.StringIO(read.saved("csv"))))
    assert rows[cells[0]["row"]][cells[0]["column"]] == "Corrected, 7"
    rows[cells[0]["row"]][cells[0]["column"]] = cells[0]["text"]
    assert rows == list(csv.reader(io.StringIO(as_csv([expected]))))
    text = read.saved("text")
    assert text.startswith("A list of things & more\n\n") and "Corrected, 7" in text
    [saved] = json.loads(read.saved("json"))
    assert saved["name"] == "table.png" and saved["text"] == text.rstrip("\n")
    title = saved["regions"][0]["lines"][0]
    assert [word["text"] for word in title["words"]] == ["A", "list", "of", "things", "&", "more"]
    hocr = ElementTree.fromstring(read.saved("hocr").split("\n", 2)[2])
    words = [node.text for node in hocr.iter() if node.get("class") == "ocrx_word"]
    assert words[:6] == ["A", "list", "of", "things", "&", "more"] and "Corrected," in words
    assert "<td" in read.saved("html")

    # Read again, the page has what the model reads; the corrections are not lost.
    read.button.click()
    read.until(f"pyappPage.read.page.earlier && {DONE}")
    assert read.values()["text"] == expected["text"]
    page.get_by_role("button", name="Edit text").click()
    page.locator("#read-text textarea").first.fill("\u05ea\u05d9\u05e7\u05d5\u05df, 2")
    page.get_by_role("button", name="Done editing").click()
    expect(read.lines.first).to_have_css("direction", "rtl")  # Hebrew, in a page of English
    expect(read.cells.first).to_have_css("direction", "ltr")
    for first, title in (
        ("Corrected, 7", "A list of things & more"),
        (cells[0]["text"], "\u05ea\u05d9\u05e7\u05d5\u05df, 2"),
    ):
        page.get_by_role("button", name="Back to the edited text").click()
        expect(read.cells.first).to_have_text(first)
        expect(read.lines.first).to_have_text(title)
    page.get_by_role("button", name="Back to the edited text").click()
    expect(read.cells.first).to_have_text("Corrected, 7")

    # It is there after a reload, with its picture, and in the history.
    read.until("!pyappPage.read.store.busy")
    page.reload()
    read.wait_ready()
    read.state("ready")
    expect(read.cells.first).to_have_text("Corrected, 7")
    expect(page.locator(".read-stage canvas")).to_be_visible()
    page.locator("#history-reading summary").click()
    expect(page.locator("#history-reading .history-open").first).to_contain_text("table.png")
    read.page.evaluate("pyappPage.read.begin()")
    expect(page.locator("#read-sheet")).to_have_attribute("data-state", "empty")
    page.locator("#history-reading .history-open").first.click()
    expect(read.cells.first).to_have_text("Corrected, 7")


def test_pages_of_pdfs_wait_in_a_queue(read: ReadPage, letter: Path, tmp_path: Path) -> None:
    page = read.page
    (tmp_path / "report.pdf").write_bytes(pdf("The first page of all", "Nothing", "A third page (3.50)"))
    page.locator("#read-pdf-pages").fill("1, 3-9")
    page.locator("#read-pdf-pages").blur()
    read.read(letter, tmp_path / "report.pdf")
    names = ["letter.png", "report.pdf, page 1", "report.pdf, page 3"]
    assert read.state("pages.map(({ name }) => name)") == names
    found = read.state("pages.map(({ values }) => values.text)")
    assert found[0] == native(letter)["text"]
    assert found[1:] == ["The first page of all", "A third page (3.50)"]
    assert read.state("page.name") == names[2]
    page.locator("#read-scope").select_option("all")
    assert read.saved("text") == "\n\n".join(found) + "\n"
    page.evaluate("document.querySelector('#read-queue').children[2].isKept = true")
    read.queue.nth(1).locator(".read-open").press("Enter")
    expect(page.locator("#read-name")).to_have_text(names[1])
    expect(read.queue.nth(1).locator(".read-open")).to_be_focused()
    expect(page.locator("#read-queue [aria-current]")).to_have_text(names[1] + "5 words")
    assert page.evaluate("document.querySelector('#read-queue').children[2].isKept")  # a queue of 500 is not made anew
    expect(read.lines).to_have_text(["The first page of all"])
    page.get_by_role("button", name=f"Remove {names[1]}").dblclick()  # removes one
    expect(read.queue).to_have_count(2)
    expect(page.locator("#read-name")).to_have_text(names[2])
    removed = page.locator("#read-removed")
    page.get_by_role("button", name="Remove letter.png").press("Enter")
    expect(page.locator("#read-files")).to_be_focused()  # a list of one page is not shown
    expect(removed).to_contain_text("“letter.png” is removed.")
    for name in ("letter.png", names[1]):
        removed.get_by_role("button", name="Undo").click()
        expect(page.locator("#read-name")).to_have_text(name)
    expect(read.queue.nth(1).locator(".read-open")).to_be_focused()
    expect(removed).to_be_hidden()
    assert read.state("pages.map(({ name }) => name)") == names
    page.get_by_role("button", name=f"Remove {names[1]}").click()

    # What somebody types while the others are read goes on when they are.
    page.evaluate(
        "pyappPage.read.engine.call = async function (name, ...rest) {"
        " if (name === 'read') await new Promise((resolve) => { globalThis.goOn = resolve; });"
        " return Object.getPrototypeOf(this).call.call(this, name, ...rest) }, 1"
    )
    read.give(letter)
    read.until("Boolean(globalThis.goOn)")
    read.queue.nth(0).locator(".read-open").click()
    page.get_by_role("button", name="Edit text").click()
    page.keyboard.press("Home")
    page.keyboard.type("My ")
    page.evaluate("goOn(), delete globalThis.goOn, delete pyappPage.read.engine.call")
    read.until(f"pyappPage.read.pages.length === 3 && pyappPage.read.pages[2].state === 'done' && {DONE}")
    page.keyboard.type("own ")
    assert read.values()["regions"][0]["lines"][0]["text"].startswith("My own The quick")
    page.get_by_role("button", name="Remove letter.png").last.click()
    expect(read.queue).to_have_count(2)

    # Stop keeps what was read; the rest waits, and is read when the user wants it.
    page.evaluate(
        "pyappPage.read.engine.stream = ((stream) => function (method, params, signal, onStart) {"
        " if (method === 'read') setTimeout(() => pyappPage.read.button.stop());"
        " return stream.call(this, method, params, signal, onStart); })(pyappPage.read.engine.stream)"
    )
    read.give(tmp_path / "report.pdf")
    read.until("pyappPage.read.pages.length === 4 && !pyappPage.read.button.running")
    expect(read.button).to_have_text("Read on")
    expect(read.error).to_have_count(0)
    page.evaluate("delete pyappPage.read.engine.stream")
    read.button.click()
    read.until(f"pyappPage.read.pages.length === 4 && {DONE}")
    assert read.state("pages.map(({ values }) => values.text)").count("A third page (3.50)") == 2
    page.locator("#read-pdf-pages").fill("")
    page.locator("#read-pdf-pages").blur()


def test_a_locked_pdf_asks_for_its_password(read: ReadPage, letter: Path, tmp_path: Path) -> None:
    page = read.page
    field, says = page.get_by_label("Password", exact=True), page.locator("#read-password-says")
    path = tmp_path / "locked.pdf"
    path.write_bytes(pdf("The secret page", "Another secret (2)", password="open it"))
    read.give(path)
    expect(field).to_be_focused()
    expect(page.locator("#read-password-title")).to_have_text("locked.pdf is locked with a password.")
    field.fill("Open it")
    page.keyboard.press("Enter")
    expect(says).to_contain_text("password is wrong")
    expect(field).to_be_focused()
    field.fill("open it")
    page.get_by_role("button", name="Open", exact=True).click()
    read.until(f"pyappPage.read.pages.length === 2 && {DONE}")
    assert read.state("pages.map(({ values }) => values.text)") == ["The secret page", "Another secret (2)"]
    expect(field).to_have_count(0)
    # Another PDF between: the password is remembered, in this tab alone.
    (tmp_path / "open.pdf").write_bytes(pdf("An open page"))
    read.read(tmp_path / "open.pdf")
    read.queue.first.locator(".read-open").click()
    expect(page.locator(".read-stage canvas")).to_be_visible()
    expect(field).to_have_count(0)
    stored = "async () => JSON.stringify([localStorage, sessionStorage])"
    assert "open it" not in page.evaluate(stored)
    # From the history it is asked for again; without it the text is there, without the picture.
    read.until("!pyappPage.read.store.busy")
    page.reload()
    read.wait_ready()
    expect(field).to_be_visible()
    page.keyboard.press("Escape")
    expect(field).to_have_count(0)
    expect(read.lines).to_have_text(["The secret page"])
    read.button.click()
    expect(field).to_be_visible()
    page.get_by_role("button", name="Cancel", exact=True).click()
    expect(read.error).to_contain_text("locked with a password")
    read.until(f"pyappPage.read.page.state === 'failed' && {DONE}")
    # What is dropped behind it is read; nothing is asked for what is gone.
    page.evaluate("pyappPage.read.begin()")
    read.give(path)
    expect(field).to_be_visible()
    page.evaluate("pyappPage.read.begin()")
    expect(field).to_have_count(0)
    read.read(letter)
    assert read.values()["text"] == native(letter)["text"]


def test_japanese_pdfs_are_drawn_by_parts_that_are_fetched_for_them(read: ReadPage, tmp_path: Path) -> None:
    page = read.page
    fetched: list[str] = []
    page.on("request", lambda request: fetched.append(request.url))
    (tmp_path / "plain.pdf").write_bytes(pdf("A plain page"))
    (tmp_path / "japanese.pdf").write_bytes(japanese_pdf("The Japanese page", "is read by its codes"))
    read.read(tmp_path / "plain.pdf")
    assert [url for url in fetched if "/pdfjs/" in url] and not [url for url in fetched if "/cmaps/" in url]
    expect(page.get_by_role("contentinfo")).to_contain_text("Stored on this device", timeout=60_000)
    stored = "async () => !!(await caches.match(new URL('pdfjs/cmaps/90ms-RKSJ-H.bcmap', location)))"
    assert not page.evaluate(stored)
    page.evaluate(
        "() => { window.whole = window.fetch; window.fetch = (url, ...rest) =>"
        " String(url).includes('/cmaps/') ? Promise.reject(new TypeError('lost')) : window.whole(url, ...rest); }"
    )
    read.give(tmp_path / "japanese.pdf")
    expect(read.error).to_contain_text("could not be loaded")
    expect(read.error).to_contain_text("pdfjs/cmaps/90ms-RKSJ-H.bcmap")
    read.until("pyappPage.read.pages.length === 3 && !pyappPage.read.button.running")
    page.evaluate("() => { window.fetch = window.whole; }")
    read.error.get_by_role("button", name="Try again").click()
    read.until(f"pyappPage.read.pages.length === 3 && {DONE}")
    assert read.state("pages.map(({ values }) => values.text)")[1:] == ["The Japanese page", "is read by its codes"]
    assert {url.rpartition("/")[2] for url in fetched if "/cmaps/" in url} == {
        "90ms-RKSJ-H.bcmap",
        "Adobe-Japan1-UCS2.bcmap",
    }
    assert page.evaluate(stored)  # offline, too, from now on


def test_questions_about_pages(
    read: ReadPage, table: Path, letter: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The answers are the native ones, about edited text too; they are marked in the picture, and kept. A model that
    sees pages gets their pictures."""
    page, asked = read.page, read.page.locator("#read-asked li")
    read.read(letter)
    question = "Who lives in Berlin?"
    page.locator("#read-question").fill(question)
    page.locator("#read-question").press("Enter")
    expect(read.error).to_contain_text("no model for this yet")
    for kind in ("layoutlmv3", "bert"):
        model = write_answerer(tmp_path_factory.mktemp("answers") / kind, kind, "question-answering")
        page.locator("#answer-model").get_by_role("button", name="model").first.click()
        read.models_opened()
        page.locator("#pick-files").set_input_files(sorted(model.iterdir()))
        expect(page.locator("#answer-model .model-name")).to_have_text("model.safetensors")
        page.locator("#read-ask").click()
        read.until("!pyappPage.read.questions.button.running && pyappPage.read.questions.field.value === ''")
        found = read.state("questions.asked[0].answers.map(({ answer, score }) => [answer, score])")
        wanted = native_answers(model, question, letter, read.values())
        assert found[0][0] == wanted[0]["answer"] and found[0][1] == pytest.approx(wanted[0]["score"], abs=0.02)
        expect(page.locator(".read-overlay .answer")).to_have_count(wanted[0]["end"] - wanted[0]["start"])
        expect(asked.first).to_contain_text(wanted[0]["answer"])
        page.locator("#read-question").fill(question)
    # Of several pages the best answers; a click shows another page. A reload shows them again.
    read.read(table)
    expect(page.locator("#read-question-label")).to_have_text("Ask about these 2 pages")
    page.locator("#read-question").press("Control+Enter")
    expect(asked).to_have_count(3)
    read.until("!pyappPage.read.questions.button.running && !pyappPage.read.store.busy")
    texts = asked.all_inner_texts()
    page.reload()
    read.wait_ready()
    page.evaluate("pyappPage.read.ready")
    expect(asked).to_have_text(texts, use_inner_text=True)
    asked.first.get_by_role("button").first.click()
    expect(page.locator(".read-overlay .answer").first).to_be_visible()


def test_stop_while_the_lines_of_a_large_page_are_found(read: ReadPage, letter: Path, tmp_path: Path) -> None:
    page = read.page
    small = np.asarray(Image.open(letter))
    large = np.full((5600, 4000), 250, np.uint8)
    for top in range(0, 5600 - small.shape[0], small.shape[0]):
        for left in range(0, 4000 - small.shape[1], small.shape[1]):
            large[top : top + small.shape[0], left : left + small.shape[1]] = small
    Image.fromarray(large).save(tmp_path / "large.png", compress_level=1)
    read.page.evaluate(
        "() => { pyappPage.shown = new Set(); const line = pyappPage.read.progress, show = line.show.bind(line);"
        " line.show = (text, done, total) => { show(text, done, total); pyappPage.shown.add(`${text} ${done}`);"
        " if (text.startsWith('Finding the lines') && done >= 20 && !pyappPage.stopped) {"
        " pyappPage.stopped = performance.now(); pyappPage.read.button.stop(); } } }"
    )
    read.give(tmp_path / "large.png")
    read.until("pyappPage.stopped && !pyappPage.read.button.running", timeout=60)
    took = page.evaluate("performance.now() - pyappPage.stopped")
    assert took < 1500, took  # at most one second, on a machine that has nothing else to do
    assert read.state("page.state") == "waiting" and read.error.count() == 0
    shown = page.evaluate("[...pyappPage.shown]")
    assert len([text for text in shown if text.startswith("Finding the lines…")]) > 3
    page.evaluate("() => { delete pyappPage.read.progress.show; }")
    page.evaluate("pyappPage.read.begin()")
    read.read(letter)
    assert read.values()["text"] == native(letter)["text"]


def test_wrong_files_are_refused_in_words(read: ReadPage, letter: Path, tmp_path: Path) -> None:
    files = {
        "bomb.png": (png_that_announces(60_000, 60_000), "60,000 × 60,000 pixels"),
        "none.png": (png_that_announces(0, 0), "has no pixels"),
        "cut.png": (letter.read_bytes()[:200], "cannot be decoded"),
        "empty.jpg": (b"", "empty"),
        "none.webp": (b"no picture", "cannot be decoded"),
        "none.svg": (b"no picture", "cannot be decoded"),
        "open.svg": (b"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 9 9'><path", "cannot be decoded"),
        "talk.wav": (b"RIFF", "Transcribe turns recordings into text"),
        "scan.tiff": (b"II*\0", "This kind of picture cannot be read here."),
        "layers.psd": (b"8BPS" + bytes(range(1, 250)), "This kind of picture cannot be read here."),
        "phone.jpg": (b"\0\0\0\x24ftypheic" + bytes(40), "This is a HEIC picture"),
        "broken.pdf": (pdf("Broken")[:150], "damaged"),
        "none.pdf": (b"no PDF", "damaged"),
    }
    for name, (data, says) in files.items():
        (tmp_path / name).write_bytes(data)
        read.give(tmp_path / name)
        expect(read.error).to_contain_text(says)
        expect(read.error).to_contain_text(name)
    (tmp_path / "two.pdf").write_bytes(pdf("One", "Two"))
    for pages, says in (("first", "names no pages"), ("2-1", "“2-1” names no pages"), ("7", "has only 2 pages")):
        read.page.locator("#read-pdf-pages").fill(pages)
        read.page.locator("#read-pdf-pages").blur()
        read.give(tmp_path / "two.pdf")
        expect(read.error).to_contain_text(says)
    read.page.locator("#read-pdf-pages").fill("")
    read.page.locator("#read-pdf-pages").blur()
    read.page.evaluate("Object.defineProperty(File.prototype, 'size', { get: () => 1e9, configurable: true })")
    for name in ("two.pdf", "cut.png"):
        read.give(tmp_path / name)
        expect(read.error).to_contain_text("has 1.00 GB")
    read.page.evaluate("delete File.prototype.size")
    # Files that cannot be opened are all named, and keep no other from being read.
    read.page.evaluate("pyappPage.read.begin()")
    (tmp_path / "none.pdf").write_bytes(b"%PDF-1.4 no")
    read.give(*(tmp_path / name for name in ("broken.pdf", "none.pdf", "cut.png")), letter)
    read.until(f"pyappPage.read.pages.length === 2 && {DONE}")
    expect(read.page.locator("#read-error")).to_contain_text("2 files could not be opened.")
    expect(read.page.locator("#read-error")).to_contain_text("broken.pdf, none.pdf")
    assert read.state("pages.map(({ state }) => state)") == ["failed", "done"]
    read.page.evaluate("pyappPage.read.begin()")
    read.page.evaluate(RESISTS_FINGERPRINTING)
    read.give(letter)
    expect(read.error).to_contain_text("This browser hides the pixels of pictures")
    read.page.evaluate("CanvasRenderingContext2D.prototype.getImageData = getImageData; 1")
    read.page.evaluate("pyappPage.read.begin()")
    read.read(letter)
    assert read.values()["text"] == native(letter)["text"]
    # After a reload it is known what was wrong with a picture.
    read.give(tmp_path / "none.webp")
    expect(read.queue.nth(1)).to_contain_text("could not be read")
    read.state("over")
    read.until("!pyappPage.read.store.busy")
    read.page.reload()
    read.wait_ready()
    read.state("ready")
    expect(read.queue.nth(1)).to_contain_text("could not be read")
    read.queue.nth(1).locator(".read-open").click()
    expect(read.error).to_contain_text("cannot be decoded")
    read.error.get_by_role("button", name="Try again").click()
    read.until(f"pyappPage.read.pages[1].state === 'failed' && {DONE}")
    expect(read.error).to_contain_text("cannot be decoded")


def test_drawings_are_read(read: ReadPage, hub: FakeHub, tmp_path: Path) -> None:
    """SVG: of a size in millimetres, in its own units, and of none. Scripts in it do not run, nothing is fetched."""
    address = hub.url
    words = '<text x="20" y="60" font-family="DejaVu Sans, sans-serif" font-size="28">Hello world</text>'
    hostile = f"<script>fetch('{address}')</script><image href='{address}a.png' width='9' height='9'/>"
    for name, size in (
        ("mm.svg", "width='80mm' height='30mm'"),
        ("box.svg", 'viewBox="0 0 300 113"'),
        ("none.svg", ""),
    ):
        (tmp_path / name).write_text(
            f"<?xml version='1.0'?><!-- a drawing -->"
            f"<svg xmlns='http://www.w3.org/2000/svg' {size}>{hostile}{words}</svg>"
        )
        read.page.evaluate("pyappPage.read.begin()")
        read.read(tmp_path / name)
        assert "Hello world" in read.values()["text"], name
        assert abs(read.state("page.values.width") - 300 * 200 / 96) < 10, name
    assert hub.requests == []


def test_pictures_are_turned_pasted_and_taken(read: ReadPage, letter: Path, tmp_path: Path) -> None:
    """As the file says it, by the button; transparent pixels are white; a picture of the camera."""
    page = read.page
    picture = Image.open(letter)
    says = Image.Exif()
    says[0x0112] = 6
    picture.rotate(90, expand=True).save(tmp_path / "phone.jpg", exif=says, quality=95)
    side = np.rot90(np.asarray(picture))
    dark = np.zeros((*side.shape, 4), np.uint8)
    dark[..., 3] = 255 - side
    Image.fromarray(dark).save(tmp_path / "side.png")
    text = native(letter)["text"]
    read.read(tmp_path / "phone.jpg")
    assert read.values()["text"] == text
    read.read(tmp_path / "side.png")
    assert read.values()["text"] == text  # the reader turns it by itself
    expect(page.locator("#read-facts")).to_contain_text("turned by 90")
    page.locator("#read-turn").press("Enter")
    expect(page.locator("#read-start")).to_be_focused()  # the button that was pressed waits until the page is read
    read.until(f"pyappPage.read.page.turns === 1 && {DONE}")
    assert read.values()["text"] == text
    expect(page.locator("#read-facts")).not_to_contain_text("turned")

    page.evaluate("pyappPage.read.begin()")
    page.locator("#read-camera").click()
    expect(read.error).to_contain_text("may not use the camera")
    page.context.grant_permissions(["camera"])
    page.evaluate(
        "globalThis.tracks = []; globalThis.ask = navigator.mediaDevices.getUserMedia;"
        "navigator.mediaDevices.getUserMedia = async function ({ video }) {"  # a small picture is read sooner
        " const stream = await ask.call(this, { video: { ...video, width: 320, height: 240 } });"
        " tracks.push(...stream.getTracks()); return stream }, 1"
    )
    page.locator("#read-camera").dblclick()  # asks for one stream: another would film for ever
    page.wait_for_function("() => document.getElementById('read-video').videoWidth > 0")
    page.locator("#read-take").dblclick()  # takes one
    read.until(f"pyappPage.read.pages.length === 1 && {DONE}")
    expect(page.locator("#read-name")).to_have_text("photo 1.jpg")
    assert page.evaluate("pyappPage.read.pages.length") == 1
    page.locator("#read-camera-close").click()
    expect(page.locator("#read-camera-panel")).to_be_hidden()
    expect(page.locator("#read-camera")).to_be_focused()
    assert page.evaluate("tracks.map(({ readyState }) => readyState)") == ["ended"]
    page.locator("#read-camera").click()
    page.wait_for_function("() => tracks.length === 2 && pyappPage.read.camera.stream")
    page.evaluate("tracks[1].dispatchEvent(new Event('ended'))")  # it was unplugged
    expect(read.error).to_contain_text("The camera has stopped.")
    expect(page.locator("#read-camera-panel")).to_be_hidden()
    page.evaluate("navigator.mediaDevices.getUserMedia = ask, 1")
    page.locator("#read-camera").click()
    expect(page.locator("#read-camera-panel")).to_be_visible()
    page.evaluate("location.hash = '#story'")  # the camera goes off where its picture is not seen
    page.wait_for_function("() => pyappPage.read.camera.stream === null")
    page.evaluate("location.hash = '#read'")
    expect(page.locator("#read-camera-panel")).to_be_hidden()
    page.context.clear_permissions()


def test_a_model_for_handwriting_by_its_name(read: ReadPage, hub: FakeHub, letter: Path, tmp_path: Path) -> None:
    page = read.page
    config = CONFIGS["trocr"] | {"decoder_start_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
    no_words = [[i] for i in (0, 1, 2, 4, *range(len(WORDS), 40))]
    generation = {"max_new_tokens": 5, "min_new_tokens": 4, "bad_words_ids": no_words}
    processor = {"image_processor_type": "ViTImageProcessor", "size": {"height": 12, "width": 12}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(processor))
    (tmp_path / "generation_config.json").write_text(json.dumps(generation))
    (tmp_path / "tokenizer.json").write_text(tokenizer_json())
    write_safetensors(tmp_path / "model.safetensors", make("trocr", "image-to-text").state_dict())
    for path in tmp_path.iterdir():
        hub.add(REPO, path.name, path.read_bytes())
    read.set_hub(hub.url)
    page.locator("#read-offer-list button").first.click()
    row = page.locator("#hub-found .model-row")
    expect(row).to_contain_text("kB")
    row.get_by_role("button", name="Download").click()
    expect(page.locator("#read-model .model-name")).to_have_text("trocr-small-handwritten")
    expect(page.locator("#read-offer")).to_be_hidden()
    read.read(letter)
    expected = native(letter, model=tmp_path, layout="page")["text"]
    assert expected and read.values()["text"] == expected
    page.locator("#read-layout").select_option("line")
    read.button.click()
    read.until(f"pyappPage.read.page.values?.layout === 'line' && {DONE}")
    assert read.values()["text"] == native(letter, model=tmp_path, layout="line")["text"]
    page.locator("#read-layout").select_option("page")
