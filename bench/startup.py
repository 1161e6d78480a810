"""From navigation to the first token on the page itself: first visits, and later ones; and the bytes on the wire."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator

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
FIRST_TOKEN = "() => globalThis.pyappPage?.story?.output?.firstToken || false"


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


def figures(runs: int) -> Iterator[Figure]:
    """`runs` first visits, each with a new profile, and `runs` later ones with one."""
    cold: list[float] = []
    warm: list[float] = []
    sent: list[float] = []
    speeds: list[float] = []
    with sync_playwright() as playwright:
        for _ in range(runs):
            with SiteServer(ROOT / "dist") as server, tempfile.TemporaryDirectory() as folder:
                context = _profile(playwright, folder)
                cold.append(_visit(context, server.url)[0])
                sent.append(wire_bytes(server) / 1e6)
                context.close()
        with SiteServer(ROOT / "dist") as server, tempfile.TemporaryDirectory() as folder:
            context = _profile(playwright, folder)
            for turn in range(runs + 2):  # two visits fill the caches
                seconds, speed = _visit(context, server.url)
                if turn >= 2:
                    warm.append(seconds)
                    speeds.append(speed)
            context.close()
    yield Figure("startup/first visit to first token", "s", {"pyapp": cold})
    yield Figure("startup/later visit to first token", "s", {"pyapp": warm})
    yield Figure("startup/embedded model on the page", "tok/s", {"pyapp": speeds})
    yield Figure("startup/first visit, all files", "MB", {"pyapp": sent})
