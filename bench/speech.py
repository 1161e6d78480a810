"""Figures of Whisper (whisper-tiny's shape, random weights), in Chromium and natively, on one thread."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .browser import _open, call, chromium
from .report import Figure

UNITS = {"mel": "s", "encoder": "s", "decoder": "tok/s", "window": "s"}


def sampled(
    place: str, kind: str, runs: int, figure: Callable[[str], float], environment: dict[str, Any]
) -> Iterator[Figure]:
    for name, unit in UNITS.items():
        samples = [figure(name) for _ in range(runs + 1)][1:]  # the first warms up
        yield Figure(f"{place}/whisper-tiny/{kind}/{name}", unit, {"pyapp": samples}, environment)


def browser_figures(kind: str, runs: int) -> Iterator[Figure]:
    with chromium() as (server, browser):
        page = _open(browser, f"{server.url}pages/pyapp.html")
        environment = call(page, "loadSpeech", kind=kind)

        def figure(name: str) -> float:
            return float(call(page, "figure", name=name))

        yield from sampled("chromium", kind, runs, figure, {**environment, "browser": browser.version})


def native_figures(kind: str, runs: int) -> Iterator[Figure]:
    import pyapp

    from .speech_workload import SpeechWorkload
    from .workload import environment

    pyapp.set_num_threads(1)
    yield from sampled("native", kind, runs, SpeechWorkload(kind).figure, environment())
