"""From navigation to the first token of a story and to the first text of a recording, on the page itself: first
visits, and later ones; and the bytes on the wire.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from playwright.sync_api import BrowserContext, Playwright, sync_playwright

from scripts.serve import SiteServer

from .browser import ARGUMENTS, ROOT
from .report import Figure
from .whisper_site import ID, write_whisper_site

DIST = ROOT / "dist"
PATIENCE = 120_000.0  # milliseconds

# Clicks a button as soon as it can be, then notes when `answer` is there, in milliseconds since navigation.
CLICK = """
addEventListener("DOMContentLoaded", () => {
  const look = () => {
    const answer = %(answer)s;
    if (answer) globalThis.firstAnswer = answer;
    else requestAnimationFrame(look);
  };
  const timer = setInterval(() => {
    const button = document.querySelector("%(button)s");
    if (!globalThis.pyappPage || !button || button.disabled || !(%(ready)s)) return;
    clearInterval(timer);
    button.click();
    look();
  }, 5);
});
"""


@dataclass(frozen=True)
class Start:
    """What a visitor does at once, and how the page answers.

    The button is clicked as soon as it can be and `ready` holds. `answer` is an expression that is false until the
    answer begins, then its time in milliseconds; `shown` is where a number stands when the whole answer is in `sheet`;
    `meaning` and `unit` name it.
    """

    name: str
    first: str
    fragment: str
    button: str
    answer: str
    sheet: str
    shown: str
    meaning: str
    unit: str
    ready: str = "true"

    def visit(self, context: BrowserContext, url: str) -> tuple[float, float]:
        """Seconds from navigation to the first answer, and the number that the page shows at the end."""
        page = context.new_page()
        page.add_init_script(CLICK % {"button": self.button, "ready": self.ready, "answer": self.answer})
        page.goto(url + self.fragment)
        milliseconds = page.wait_for_function("() => globalThis.firstAnswer || false", timeout=PATIENCE).json_value()
        page.wait_for_selector(f"{self.sheet}[data-state=done]", timeout=PATIENCE)
        page.wait_for_timeout(1500)  # what the page does in idle time: NumPy, the service worker's cache, a snapshot
        shown = page.locator(self.shown).inner_text().removesuffix("×").replace(",", "")
        page.close()
        return float(milliseconds) / 1000, float(shown)


STORY = Start(
    "startup", "first token", "", "#generate", "pyappPage.story?.output?.firstToken", "#sheet", "#metric-speed",
    "embedded model on the page", "tok/s",
)  # fmt: skip
SPEECH = Start(
    "startup speech", "first text", "#transcribe", "#samples button",
    "(document.getElementById('transcript').textContent.match(/[a-z]/gi) ?? []).length > 1 && performance.now()",
    "#transcript-sheet", "#metric-factor", "embedded model, seconds of sound in a second", "",
)  # fmt: skip


Prepare = Callable[[BrowserContext, SiteServer], None]


def _profile(playwright: Playwright, folder: str) -> BrowserContext:
    path = shutil.which("chromium") or shutil.which("google-chrome")
    return playwright.chromium.launch_persistent_context(folder, executable_path=path, args=ARGUMENTS)


def wire_bytes(server: SiteServer) -> int:
    """Bytes of the files that a first visit asks for, as the server sends them (brotli where there is a copy)."""
    total = 0
    for path in sorted(set(server.requests)):
        place = server.find(path)
        if place is not None:
            compressed = place.with_name(place.name + ".br")
            total += (compressed if compressed.is_file() else place).stat().st_size
    return total


def first_visits(playwright: Playwright, start: Start, runs: int) -> tuple[list[float], list[float]]:
    """Seconds of `runs` visits, each with a new profile, and the megabytes that each was sent."""
    seconds: list[float] = []
    sent: list[float] = []
    for _ in range(runs):
        with SiteServer(DIST) as server, tempfile.TemporaryDirectory() as folder:
            context = _profile(playwright, folder)
            seconds.append(start.visit(context, server.url)[0])
            sent.append(wire_bytes(server) / 1e6)
            context.close()
    return seconds, sent


def later_visits(
    playwright: Playwright, start: Start, runs: int, site: SiteServer, prepare: Prepare | None = None
) -> tuple[list[float], list[float]]:
    """Seconds of `runs` visits with one profile, whose caches `prepare` and two visits before have filled, and what
    they showed."""
    with site, tempfile.TemporaryDirectory() as folder:
        context = _profile(playwright, folder)
        if prepare is not None:
            prepare(context, site)
        found = [start.visit(context, site.url) for _ in range(runs + 2)][2:]
        context.close()
    return [seconds for seconds, _ in found], [shown for _, shown in found]


def figures(start: Start, runs: int) -> Iterator[Figure]:
    """With the embedded model."""
    with sync_playwright() as playwright:
        cold, sent = first_visits(playwright, start, runs)
        warm, shown = later_visits(playwright, start, runs, SiteServer(DIST))
        yield Figure(f"{start.name}/first visit to {start.first}", "s", {"pyapp": cold})
        yield Figure(f"{start.name}/later visit to {start.first}", "s", {"pyapp": warm})
        yield Figure(f"{start.name}/{start.meaning}", start.unit, {"pyapp": shown})
        yield Figure(f"{start.name}/first visit, all files", "MB", {"pyapp": sent})


def download_whisper(context: BrowserContext, site: SiteServer, language: str) -> None:
    """Downloads whisper_site's model and chooses it, as a visitor does once, and the language ("": it is detected)."""
    page = context.new_page()
    page.goto(f"{site.url}#transcribe")
    page.wait_for_function("() => globalThis.pyappPage?.app.engine.about", timeout=PATIENCE)
    request = {"model": ID, "hub": f"{site.origin}/hub/"}
    page.evaluate("(request) => pyappPage.app.engine.call('models.download', request)", request)
    page.evaluate("() => pyappPage.app.refresh()")
    page.evaluate("(id) => pyappPage.app.choices.transcribe.chooseById(id)", ID)
    page.evaluate("(text) => localStorage.setItem('pyapp.speech-settings', text)", json.dumps({"language": language}))
    page.close()


def whisper_figures(runs: int) -> Iterator[Figure]:
    """With a kept model of whisper-tiny's shape in q8_0: everything up to the first text of a clip of 7 seconds. To
    detect the language the encoder runs once more, as openai-whisper's does."""
    english = replace(SPEECH, ready="document.getElementById('speech-language').value === 'en'")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        place = write_whisper_site(DIST, Path(folder))
        for start, language, name in ((english, "en", "language chosen"), (SPEECH, "", "language detected")):
            site = SiteServer(place / "site", mounts={"/hub/": place / "hub"})
            warm, factors = later_visits(playwright, start, runs, site, partial(download_whisper, language=language))
            yield Figure(f"startup whisper-tiny/q8_0/{name}/later visit to first text", "s", {"pyapp": warm})
            yield Figure(f"startup whisper-tiny/q8_0/{name}/seconds of sound in a second", "", {"pyapp": factors})
