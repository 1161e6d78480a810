"""From navigation to the first token, and to the first text of a sample recording, on the page itself: first visits,
and later ones; and the bytes on the wire.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Iterator

from playwright.sync_api import BrowserContext, Playwright, sync_playwright

from scripts.serve import SiteServer

from .browser import ARGUMENTS, ROOT
from .report import Figure

# Generate is clicked as soon as it can be; the page notes when the first token arrived, from navigation on.
CLICK = """
addEventListener("DOMContentLoaded", () => {
  const timer = setInterval(() => {
    const button = document.getElementById("generate");
    if (!globalThis.pyappPage || button.disabled) return;
    clearInterval(timer);
    button.click();
  }, 5);
});
"""
Visit = Callable[[BrowserContext, str], tuple[float, float]]
FIRST_TOKEN = "() => globalThis.pyappPage?.story?.output?.firstToken || false"

# The same for the first sample recording, and when its first text stands there.
CLICK_SAMPLE = """
addEventListener("DOMContentLoaded", () => {
  const timer = setInterval(() => {
    const button = document.querySelector("#samples button");
    if (!globalThis.pyappPage || !button || button.disabled) return;
    clearInterval(timer);
    button.click();
    const look = () => {
      const letters = document.getElementById("transcript").textContent.match(/[a-z]/gi) ?? [];
      if (letters.length > 1) globalThis.firstText = performance.now();
      else requestAnimationFrame(look);
    };
    look();
  }, 5);
});
"""
FIRST_TEXT = "() => globalThis.firstText || false"


def _visit_transcribe(context: BrowserContext, url: str) -> tuple[float, float]:
    """Seconds from navigation to the first text, and the real-time factor that the page shows at the end."""
    page = context.new_page()
    page.add_init_script(CLICK_SAMPLE)
    page.goto(f"{url}#transcribe")
    milliseconds = page.wait_for_function(FIRST_TEXT, timeout=120_000).json_value()
    page.wait_for_selector("#transcript-sheet[data-state=done]", timeout=120_000)
    page.wait_for_timeout(1500)
    factor = page.locator("#metric-factor").inner_text().removesuffix("×").replace(",", "")
    page.close()
    return float(milliseconds) / 1000, float(factor)


def _visit(context: BrowserContext, url: str) -> tuple[float, float]:
    """Seconds from navigation to the first token, and the tokens per second that the page shows at the end."""
    page = context.new_page()
    page.add_init_script(CLICK)
    page.goto(url)
    milliseconds = page.wait_for_function(FIRST_TOKEN, timeout=120_000).json_value()
    page.wait_for_function("() => pyappPage.story.output.sheet.dataset.state === 'done'", timeout=120_000)
    page.wait_for_timeout(1500)  # what the page does in idle time: NumPy, the service worker's cache, a snapshot
    speed = page.locator("#metric-speed").inner_text().replace(",", "")
    page.close()
    return float(milliseconds) / 1000, float(speed)


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


def first_visits(playwright: Playwright, visit: Visit, runs: int) -> tuple[list[float], list[float]]:
    """Seconds of `runs` visits, each with a new profile, and the megabytes that each was sent."""
    seconds: list[float] = []
    sent: list[float] = []
    for _ in range(runs):
        with SiteServer(ROOT / "dist") as server, tempfile.TemporaryDirectory() as folder:
            context = _profile(playwright, folder)
            seconds.append(visit(context, server.url)[0])
            sent.append(wire_bytes(server) / 1e6)
            context.close()
    return seconds, sent


def later_visits(playwright: Playwright, visit: Visit, runs: int) -> tuple[list[float], list[float]]:
    """Seconds of `runs` visits with one profile, whose caches two visits before have filled, and what they showed."""
    found: list[tuple[float, float]] = []
    with SiteServer(ROOT / "dist") as server, tempfile.TemporaryDirectory() as folder:
        context = _profile(playwright, folder)
        found = [visit(context, server.url) for _ in range(runs + 2)][2:]
        context.close()
    return [seconds for seconds, _ in found], [shown for _, shown in found]


def figures(runs: int) -> Iterator[Figure]:
    with sync_playwright() as playwright:
        cold, sent = first_visits(playwright, _visit, runs)
        warm, speeds = later_visits(playwright, _visit, runs)
        yield Figure("startup/first visit to first token", "s", {"pyapp": cold})
        yield Figure("startup/later visit to first token", "s", {"pyapp": warm})
        yield Figure("startup/embedded model on the page", "tok/s", {"pyapp": speeds})
        yield Figure("startup/first visit, all files", "MB", {"pyapp": sent})


def speech_figures(runs: int) -> Iterator[Figure]:
    """With the embedded speech model and its first sample."""
    with sync_playwright() as playwright:
        cold, sent = first_visits(playwright, _visit_transcribe, runs)
        warm, factors = later_visits(playwright, _visit_transcribe, runs)
        yield Figure("startup speech/first visit to first text", "s", {"pyapp": cold})
        yield Figure("startup speech/later visit to first text", "s", {"pyapp": warm})
        yield Figure("startup speech/embedded model, seconds of sound in a second", "", {"pyapp": factors})
        yield Figure("startup speech/first visit, all files", "MB", {"pyapp": sent})
