"""Figures in headless Chromium: our page and its peers open side by side, sampled in turn, so that ratios hold on a
busy machine.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

from scripts.serve import SiteServer

from .peer_weights import write_gguf
from .report import Figure
from .shapes import DECODE, LLAMA_PROMPT, LLAMAS, PROMPT, ROWS, SHAPES

HERE = Path(__file__).parent
ROOT = HERE.parent
WEIGHTS = ROOT / "build" / "bench-weights"
PEERS = HERE / "node_modules"
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-background-timer-throttling",
    "--disable-renderer-backgrounding",
]
FIGURES = ("decode", "eager", "prompt")
THREADS = 2  # of our page with threads, beside that with one
THREADED = f"pyapp, {THREADS} threads"


def site(isolated: bool = False) -> SiteServer:
    """A server of dist/ with the bench pages. `isolated`: pages may have threads."""
    mounts = {"/bench/": HERE, "/pages/": HERE / "pages", "/peers/": PEERS, "/weights/": WEIGHTS}
    modules = {"/modules/": ROOT / "web" / "modules"}  # dist/ has them in bundles only
    return SiteServer(ROOT / "dist", mounts=mounts | modules, isolated=isolated)


@contextmanager
def chromium() -> Iterator[tuple[SiteServer, Browser]]:
    """A server of dist/ with the bench pages, and a browser. FileNotFoundError where one is missing."""
    path = shutil.which("chromium") or shutil.which("google-chrome")
    if path is None or not (ROOT / "dist" / "manifest.json").is_file():
        raise FileNotFoundError("the browser benches need Chromium and dist/: run `make bench`")
    WEIGHTS.mkdir(parents=True, exist_ok=True)
    with site() as server, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        try:
            yield server, browser
        finally:
            browser.close()


def open_page(browser: Browser, address: str) -> Page:
    """A bench page that answers calls."""
    page = browser.new_context().new_page()
    page.set_default_timeout(600_000)
    page.goto(address)
    page.wait_for_function("typeof window.call === 'function'")
    return page


def call(page: Page, method: str, **params: Any) -> Any:
    """What a bench page answers."""
    return page.evaluate("([method, params]) => window.call(method, params)", [method, params])


def in_turn(
    name: str, ours: Mapping[str, Page], peers: Mapping[str, Page], asked: Mapping[str, Any], runs: int
) -> dict[str, list[float]]:
    """`runs` samples of a figure of every page; `asked` is what peers need to be told. The first of each, which warms
    up, is left out.
    """
    samples: dict[str, list[float]] = {who: [] for who in (*ours, *peers)}
    for turn in range(runs + 1):
        for who, values in samples.items():
            more = {} if who in ours else asked
            value = call(ours[who] if who in ours else peers[who], "figure", name=name, **more)
            if turn:
                values.append(float(value))
    return samples


def peer_versions() -> list[str]:
    """The wllama releases that are installed (npm ci in bench/)."""
    return [v for v in ("2", "3") if (PEERS / f"wllama-{v}").is_dir()]


def model_figures(shape: str, kind: str, runs: int, with_peers: bool = True) -> Iterator[Figure]:
    """Decode, eager decode and prompt of one model, ours and the peers', `runs` samples each in turn."""
    with chromium() as (server, browser), site(isolated=True) as isolated:
        ours = {
            "pyapp": open_page(browser, f"{server.url}pages/pyapp.html"),
            THREADED: open_page(browser, f"{isolated.url}pages/pyapp.html?threads={THREADS}"),
        }
        environment = [call(page, "load", shape=shape, kind=kind) for page in ours.values()][0]
        pages = {}
        for version in peer_versions() if with_peers else []:
            gguf = write_gguf(shape, kind, WEIGHTS)
            for who, host, threads in (
                (f"wllama {version}", server, 1),
                (f"wllama {version}, {THREADS} threads", isolated, THREADS),
            ):
                page = open_page(browser, f"{host.url}pages/wllama.html?version={version}&threads={threads}")
                call(page, "load", gguf=f"../weights/{gguf.name}", context=SHAPES[shape].max_seq_len)
                pages[who] = page
        asked = {"prompt": PROMPT, "tokens": DECODE[shape]}
        for name in FIGURES:
            whose = ({"pyapp": ours["pyapp"]}, {}) if name == "eager" else (ours, pages)
            samples = in_turn(name, *whose, asked, runs)
            yield Figure(
                f"chromium/{shape}/{kind}/{name}", "tok/s", samples, {**environment, "browser": browser.version}
            )


def llama_figures(shape: str, kind: str, runs: int, with_peers: bool = True) -> Iterator[Figure]:
    """Decode and a prompt of 512 of a Llama from a GGUF file, ours and the peers'."""
    gguf = write_gguf(shape, kind, WEIGHTS)
    with chromium() as (server, browser), site(isolated=True) as isolated:
        ours = {
            "pyapp": open_page(browser, f"{server.url}pages/pyapp.html"),
            THREADED: open_page(browser, f"{isolated.url}pages/pyapp.html?threads={THREADS}"),
        }
        loaded = [call(page, "loadLlama", shape=shape, gguf=f"../weights/{gguf.name}") for page in ours.values()]
        environment = loaded[0]
        pages = {}
        for version in peer_versions() if with_peers else []:
            page = open_page(browser, f"{server.url}pages/wllama.html?version={version}")
            call(page, "load", gguf=f"../weights/{gguf.name}", context=LLAMAS[shape].max_seq_len)
            pages[f"wllama {version}"] = page
        asked = {"prompt": LLAMA_PROMPT, "tokens": DECODE[shape]}
        for name in ("decode", "prompt"):
            samples = in_turn(name, ours, pages, asked, runs)
            yield Figure(
                f"chromium/{shape}/{kind}/{name}", "tok/s", samples, {**environment, "browser": browser.version}
            )


def block_figures(kind: str, runs: int) -> Iterator[Figure]:
    """How fast a product in a block format reads its weights, beside how fast they can be read at all: the ratio is the
    share of the memory's bandwidth."""
    with chromium() as (_, browser), site(isolated=True) as server:  # isolated pages have a finer clock
        page = open_page(browser, f"{server.url}pages/pyapp.html")
        environment = call(page, "loadBlocks", kind=kind)
        pairs = [call(page, "sampleBlocks") for _ in range(runs + 1)][1:]
        samples = {"pyapp": [ours for ours, _ in pairs], "stream": [stream for _, stream in pairs]}
        yield Figure(f"chromium/linear/{kind}", "GB/s", samples, {**environment, "browser": browser.version})


def row_figures(kind: str, runs: int) -> Iterator[Figure]:
    """Multiplications in a product of several rows with weights in a block format."""
    with chromium() as (_, browser), site(isolated=True) as server:  # as above
        page = open_page(browser, f"{server.url}pages/pyapp.html")
        environment = call(page, "loadRows", kind=kind)
        samples = [call(page, "sampleBlocks") for _ in range(runs + 1)][1:]
        for i, rows in enumerate(ROWS):
            values = {"pyapp": [float(sample[i]) for sample in samples]}
            yield Figure(f"chromium/rows/{kind}/{rows}", "GMAC/s", values, {**environment, "browser": browser.version})


def stream_figures(runs: int) -> Iterator[Figure]:
    """How fast weights can be read at all: from memory (192 MB) and from the cache (1 MB)."""
    with chromium() as (server, browser):
        page = open_page(browser, f"{server.url}pages/pyapp.html")
        for megabytes in (192, 1):
            samples = [float(call(page, "stream", megabytes=megabytes)) for _ in range(runs)]
            yield Figure(f"chromium/stream/{megabytes} MB", "GB/s", {"pyapp": samples}, {"browser": browser.version})
