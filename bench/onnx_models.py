"""Seconds of a run of ONNX files: ours beside onnxruntime-web in Chromium and beside onnxruntime natively, one thread
each."""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import pyapp
from pyapp.engine.native import get_num_threads, set_num_threads

from .browser import PEERS, WEIGHTS, call, chromium, open_page
from .onnx_files import FILES, Inputs
from .report import Figure

CHECKED, CLOSE = 1000, 2e-2  # numbers that are compared; of the largest one (4-bit products round their inputs)
ALONE = ("q4 decoder",)  # onnxruntime-web has not answered within a minute: not compared
RUNS = {"q4 decoder": 4, "mobilenet-v2": 2}  # in a sample


def written(name: str) -> tuple[Path, Inputs]:
    """The file, and what it is run with."""
    WEIGHTS.mkdir(parents=True, exist_ok=True)
    path = WEIGHTS / f"{name.replace(' ', '-')}.onnx"
    return path, FILES[name](path)


def check(name: str, mine: np.ndarray, others: np.ndarray) -> None:
    apart = float(np.abs(mine - others).max() / np.abs(others).max())
    if not apart < CLOSE:
        raise ValueError(f"{name}: the outputs differ by {apart:g} of the largest: it is not one model")


def in_pyapp(path: Path, inputs: Inputs) -> Callable[[], np.ndarray]:
    model = pyapp.onnx.load(path)
    tensors = {key: pyapp.from_numpy(np.ascontiguousarray(value)) for key, value in inputs.items()}

    def run() -> np.ndarray:
        with pyapp.no_grad():
            found: Any = model(**tensors)
        first = found[0] if isinstance(found, tuple | list) else found
        return np.asarray(first.numpy())

    return run


def in_onnxruntime(path: Path, inputs: Inputs) -> Callable[[], np.ndarray]:
    import onnxruntime  # type: ignore[import-not-found]

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return lambda: np.asarray(session.run(None, inputs)[0])


def native_figures(name: str, runs: int, with_peers: bool = True) -> Iterator[Figure]:
    path, inputs = written(name)
    before = get_num_threads()
    set_num_threads(1)
    try:
        sides = {"pyapp": in_pyapp(path, inputs)}
        if with_peers and importlib.util.find_spec("onnxruntime"):
            sides["onnxruntime"] = in_onnxruntime(path, inputs)
            check(name, *(run().reshape(-1)[:CHECKED] for run in sides.values()))
        samples: dict[str, list[float]] = {who: [] for who in sides}
        for turn in range(runs + 1):  # the first of each warms up
            for who, run in sides.items():
                best = math.inf  # of some runs in turn: other programs disturb them
                for _ in range(5):
                    start = time.perf_counter()
                    run()
                    best = min(best, time.perf_counter() - start)
                if turn:
                    samples[who].append(best)
    finally:
        set_num_threads(before)
    yield Figure(f"native/onnx/{name}", "s", samples)


def browser_figures(name: str, runs: int, with_peers: bool = True) -> Iterator[Figure]:
    path, values = written(name)
    inputs = {key: [value.dtype.name, list(value.shape), value.reshape(-1).tolist()] for key, value in values.items()}
    with chromium() as (server, browser):
        ours = open_page(browser, f"{server.url}pages/pyapp.html")
        environment = call(ours, "loadOnnx", file=path.name, inputs=inputs)
        pages = {"pyapp": ours}
        if with_peers and name not in ALONE and (PEERS / "onnxruntime-web").is_dir():
            theirs = open_page(browser, f"{server.url}pages/onnxruntime.html")
            pages[f"onnxruntime-web {call(theirs, 'load', file=path.name, inputs=inputs)}"] = theirs
            check(name, *(np.array(call(page, "output", count=CHECKED)) for page in (ours, theirs)))
        samples: dict[str, list[float]] = {who: [] for who in pages}
        for turn in range(runs + 1):  # the first of each warms up
            for who, page in pages.items():
                value = call(page, "figure", name="run", runs=RUNS.get(name, 1))
                if turn:
                    samples[who].append(float(value))
        yield Figure(f"chromium/onnx/{name}", "s", samples, {**environment, "browser": browser.version})
