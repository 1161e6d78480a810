"""Seconds of a run of ONNX files: ours beside onnxruntime-web in Chromium, one thread each."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .browser import PEERS, WEIGHTS, call, chromium, open_page
from .onnx_files import FILES
from .report import Figure

CHECKED, CLOSE = 1000, 2e-2  # numbers that are compared; of the largest one (4-bit products round their inputs)
ALONE = ("q4 decoder",)  # onnxruntime-web has not answered within a minute: not compared
RUNS = {"q4 decoder": 4, "mobilenet-v2": 2}  # in a sample


def browser_figures(name: str, runs: int, with_peers: bool = True) -> Iterator[Figure]:
    WEIGHTS.mkdir(parents=True, exist_ok=True)
    path = WEIGHTS / f"{name.replace(' ', '-')}.onnx"
    inputs = {
        key: [value.dtype.name, list(value.shape), value.reshape(-1).tolist()]
        for key, value in FILES[name](path).items()
    }
    with chromium() as (server, browser):
        ours = open_page(browser, f"{server.url}pages/pyapp.html")
        environment = call(ours, "loadOnnx", file=path.name, inputs=inputs)
        pages = {"pyapp": ours}
        if with_peers and name not in ALONE and (PEERS / "onnxruntime-web").is_dir():
            theirs = open_page(browser, f"{server.url}pages/onnxruntime.html")
            pages[f"onnxruntime-web {call(theirs, 'load', file=path.name, inputs=inputs)}"] = theirs
            mine, others = (np.array(call(page, "output", count=CHECKED)) for page in (ours, theirs))
            apart = float(np.abs(mine - others).max() / np.abs(others).max())
            if not apart < CLOSE:
                raise ValueError(f"{name}: the outputs differ by {apart:g} of the largest: it is not one model")
        samples: dict[str, list[float]] = {who: [] for who in pages}
        for turn in range(runs + 1):  # the first of each warms up
            for who, page in pages.items():
                value = call(page, "figure", name="run", runs=RUNS.get(name, 1))
                if turn:
                    samples[who].append(float(value))
        yield Figure(f"chromium/onnx/{name}", "s", samples, {**environment, "browser": browser.version})
