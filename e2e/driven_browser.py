"""What the tests ask of a browser that Playwright does not drive."""

from __future__ import annotations

import base64
import time
from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

import pytest

from e2e.pdf_files import pdf
from scripts.serve import SiteServer

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "javascript"


class DrivenBrowser(ABC):
    """A browser with one tab; `errors` has what its console said, where the browser tells."""

    def __init__(self) -> None:
        self.errors: list[str] = []

    @abstractmethod
    def open(self, url: str) -> None:
        """Goes to an address."""

    @abstractmethod
    def evaluate(self, expression: str) -> Any:
        """The value of an expression of the page, or of its promise, as JSON."""

    @abstractmethod
    def click(self, selector: str) -> None:
        """Clicks with the mouse in the middle of an element."""

    @abstractmethod
    def close(self) -> None:
        """Ends the browser."""

    def until(self, expression: str, timeout: float = 120.0) -> Any:
        """Polls an expression until it is true."""
        end = time.monotonic() + timeout
        while not (value := self.evaluate(expression)):
            if time.monotonic() > end:
                pytest.fail(f"never true: {expression}; the console: {self.errors}; alerts: {self.evaluate(ALERTS)}")
            time.sleep(0.05)
        return value


ALERTS = "[...document.querySelectorAll('[role=alert]')].map(({ innerText }) => innerText).filter(Boolean)"
READY = "document.getElementById('engine-status')?.dataset.state === 'ready'"
STARTED = f"{READY} && globalThis.pyappPage?.story !== undefined"


def visit(browser: DrivenBrowser, url: str) -> None:
    """Opens the page, isolated by its service worker."""
    browser.open(url)
    browser.until(STARTED)
    if not browser.evaluate("crossOriginIsolated"):  # a slow first visit does not wait for the service worker
        browser.until("Boolean(navigator.serviceWorker?.controller)")
        browser.open(url)
        browser.until(STARTED)
    assert browser.evaluate("crossOriginIsolated"), "the page is not isolated"


def write_story(browser: DrivenBrowser, url: str) -> None:
    """Opens the page and writes a story with the embedded model, on whatever kernels the browser runs."""
    visit(browser, url)
    instructions = browser.evaluate("pyappPage.app.engine.about.instructionSet")
    assert instructions in ("relaxed", "simd128"), instructions
    browser.evaluate("pyappPage.story.settings.inputs.get('max_new_tokens').set(64)")
    browser.click("#generate")
    browser.until("document.getElementById('sheet').dataset.state === 'done'")
    text = browser.evaluate("pyappPage.story.output.text")
    assert len(text.split()) > 20, text


def transcribe_sample(browser: DrivenBrowser) -> None:
    """Transcribes the first sample with the embedded model."""
    browser.click("#views a[href='#transcribe']")
    browser.until("document.querySelector('#samples button') !== null && pyappPage.transcribe !== undefined")
    browser.click("#samples button")
    browser.until("document.getElementById('transcript-sheet').dataset.state === 'done'")
    assert browser.evaluate("pyappPage.transcribe.sheet.transcript.text").startswith("Two tickets to Rome")


# Hands over a picture of two lines of print, as the page draws it, and a PDF (base64).
HAND_OVER = """(async () => {
  const canvas = new OffscreenCanvas(700, 200);
  const context = canvas.getContext("2d");
  context.fillStyle = "#fff";
  context.fillRect(0, 0, 700, 200);
  context.fillStyle = "#000";
  context.font = "30px serif";
  context.fillText("The quick brown fox jumps", 40, 80);
  context.fillText("over seven lazy dogs.", 40, 130);
  const files = new DataTransfer();
  files.items.add(new File([await canvas.convertToBlob()], "fox.png", { type: "image/png" }));
  const pdf = Uint8Array.from(atob("DATA"), (character) => character.charCodeAt(0));
  files.items.add(new File([pdf], "report.pdf", { type: "application/pdf" }));
  const field = document.getElementById("read-files");
  field.files = files.files;
  field.dispatchEvent(new Event("change"));
})()"""


def read_pictures(browser: DrivenBrowser) -> None:
    """Reads a picture and a PDF with the embedded model, and writes what was read as a file."""
    browser.click("#views a[href='#read']")
    browser.until("pyappPage.read !== undefined")
    browser.evaluate(HAND_OVER.replace("DATA", base64.b64encode(pdf("A page of a PDF")).decode()))
    browser.until("pyappPage.read.pages.filter(({ state }) => state === 'done').length === 2")
    texts = browser.evaluate("pyappPage.read.pages.map(({ values }) => values.text)")
    assert texts == ["The quick brown fox jumps\nover seven lazy dogs.", "A page of a PDF"]
    hocr = browser.evaluate("pyappPage.read.written('hocr', pyappPage.read.pages)")
    assert hocr.count('class="ocrx_word"') == 14, hocr


def visit_views(browser: DrivenBrowser) -> None:
    """Opens every view; none shows an error."""
    for view in browser.evaluate("[...document.querySelectorAll('#views a')].map(({ hash }) => hash.slice(1))"):
        browser.click(f"#views a[href='#{view}']")
        browser.until(f"pyappPage.{view} !== undefined && !document.getElementById('view-{view}').hidden")
        alerts = browser.evaluate(ALERTS)
        assert alerts == [], f"{view}: {alerts}"


def write_in_a_page_of_its_own(browser: DrivenBrowser, dist: Path) -> None:
    """examples/javascript on a plain host writes a story."""
    with SiteServer(EXAMPLE, mounts={"/pyapp/": dist}) as server:
        browser.open(server.url)
        browser.click("#write")
        browser.until("document.querySelector('#status').textContent === 'Done.'")
        assert len(browser.evaluate("document.querySelector('#story').textContent")) > 100
