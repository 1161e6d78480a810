"""Takes the pictures of the page in docs/ anew: `python -m scripts.screenshots`, after `make site`. Needs Chromium."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from .serve import SiteServer

ROOT = Path(__file__).resolve().parents[1]
SIZE = {"width": 1280, "height": 860}
COLOURS = 256
LISTED = "() => globalThis.pyappPage?.story !== undefined && pyappPage.app.choices.generate.model !== null"


def write_story(page: Page) -> None:
    page.locator("#seed").fill("4")
    page.locator("#seed").blur()
    page.locator("#generate").click()
    page.wait_for_selector("#sheet[data-state=done]")


def transcribe(page: Page) -> None:
    page.locator("#samples button").first.click()
    page.wait_for_selector("#transcript-sheet[data-state=done]")


def read(page: Page) -> None:
    page.locator("#read-samples button").first.click()
    page.wait_for_selector("#read-sheet[data-state=done]")


VIEWS = {"page": ("story", write_story), "transcribe": ("transcribe", transcribe), "read": ("read", read)}


def main() -> None:
    """Each view in a tab of its own, after its work, with few colours: a third of the bytes."""
    with sync_playwright() as playwright, SiteServer(ROOT / "dist", isolated=True) as site:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for name, (view, work) in VIEWS.items():
            page = browser.new_page(viewport=SIZE, reduced_motion="reduce")  # type: ignore[arg-type]
            page.goto(f"{site.url}#{view}")
            page.wait_for_function(LISTED.replace("story", view))
            work(page)
            page.mouse.move(5, 400)
            page.evaluate("() => { document.activeElement.blur(); scrollTo(0, 0); }")
            page.wait_for_function("() => document.getElementById('engine-status').dataset.state === 'ready'")
            picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
            picture.quantize(COLOURS, dither=Image.Dither.NONE).save(ROOT / "docs" / f"{name}.png", optimize=True)
        browser.close()


if __name__ == "__main__":
    main()
