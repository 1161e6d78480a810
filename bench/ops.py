"""Figures of single ops and of a training step on one thread: natively beside torch (where it is installed) and NumPy,
in Chromium beside NumPy in Pyodide.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from typing import Any

from .browser import call, chromium, open_page
from .ops_workload import IN_NUMPY, NAMES, OpsWorkload
from .report import Figure

SLOW_IN_THE_PAGE = ("matmul 1024", "matmul 2048")  # NumPy has no BLAS there: half a minute a product, and minutes


def sampled(
    place: str, runs: int, who: dict[str, Callable[[str], float]], environment: dict[str, Any]
) -> Iterator[Figure]:
    """Samples in turn, the first of each to warm up."""
    endless = SLOW_IN_THE_PAGE if place == "chromium" else ()
    for name in NAMES:
        samples: dict[str, list[float]] = {
            w: [] for w in who if w != "numpy" or (name in IN_NUMPY and name not in endless)
        }
        for turn in range(runs + 1):
            for w, values in samples.items():
                value = who[w](name)
                if turn:
                    values.append(value)
        yield Figure(f"{place}/ops/{name}", "ms", samples, environment)


def native_figures(runs: int, with_peers: bool = True) -> Iterator[Figure]:
    import pyapp

    from .workload import environment

    pyapp.set_num_threads(1)
    about = environment()
    who = {"pyapp": OpsWorkload("pyapp").figure}
    if with_peers:
        who["numpy"] = OpsWorkload("numpy").figure
        if importlib.util.find_spec("torch"):
            import torch

            torch.set_num_threads(1)
            about["torch"] = torch.__version__
            who["torch"] = OpsWorkload("torch").figure
    yield from sampled("native", runs, who, about)


def browser_figures(runs: int, with_peers: bool = True) -> Iterator[Figure]:
    with chromium() as (server, browser):
        page = open_page(browser, f"{server.url}pages/pyapp.html")
        environment = call(page, "loadOps", packages=["pyapp", "numpy"] if with_peers else ["pyapp"])

        def of(package: str) -> Callable[[str], float]:
            return lambda name: float(call(page, "opFigure", package=package, name=name))

        who = {package: of(package) for package in (("pyapp", "numpy") if with_peers else ("pyapp",))}
        yield from sampled("chromium", runs, who, {**environment, "browser": browser.version})
