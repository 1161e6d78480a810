"""Figures of Whisper (whisper-tiny's shape, random weights), in Chromium on one thread and several, natively on one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from playwright.sync_api import Page

from .browser import THREADED, THREADS, call, chromium, open_page, site
from .report import Figure

UNITS = {"mel": "s", "encoder": "s", "decoder": "tok/s", "window": "s"}


def sampled(
    place: str, kind: str, runs: int, figures: dict[str, Callable[[str], float]], environment: dict[str, Any]
) -> Iterator[Figure]:
    for name, unit in UNITS.items():
        turns = [{who: figure(name) for who, figure in figures.items()} for _ in range(runs + 1)][1:]  # one warms up
        samples = {who: [turn[who] for turn in turns] for who in figures}
        yield Figure(f"{place}/whisper-tiny/{kind}/{name}", unit, samples, environment)


def browser_figures(kind: str, runs: int) -> Iterator[Figure]:
    with chromium() as (server, browser), site(isolated=True) as isolated:
        pages = {
            "pyapp": open_page(browser, f"{server.url}pages/pyapp.html"),
            THREADED: open_page(browser, f"{isolated.url}pages/pyapp.html?threads={THREADS}"),
        }
        environment = [call(page, "loadSpeech", kind=kind) for page in pages.values()][0]

        def figure_of(page: Page) -> Callable[[str], float]:
            return lambda name: float(call(page, "figure", name=name))

        figures = {who: figure_of(page) for who, page in pages.items()}
        yield from sampled("chromium", kind, runs, figures, {**environment, "browser": browser.version})


def native_figures(kind: str, runs: int) -> Iterator[Figure]:
    import pyapp

    from .speech_workload import SpeechWorkload
    from .workload import environment

    pyapp.set_num_threads(1)
    yield from sampled("native", kind, runs, {"pyapp": SpeechWorkload(kind).figure}, environment())
