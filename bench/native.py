"""Figures on this machine's CPU: ours, and llama.cpp where llama-cpp-python is installed."""

from __future__ import annotations

import importlib.util
import math
import multiprocessing
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from .browser import FIGURES, WEIGHTS
from .peer_weights import write_gguf
from .report import Figure
from .shapes import DECODE, LLAMA_PROMPT, LLAMAS, PROMPT, ROWS, SHAPES


class LlamaCpp:
    """llama.cpp through llama-cpp-python, greedy."""

    def __init__(self, shape: str, kind: str, threads: int, prompt: int) -> None:
        from llama_cpp import Llama  # type: ignore[import-not-found]

        path = str(write_gguf(shape, kind, WEIGHTS))
        self.tokens, self.prompt = DECODE[shape], prompt
        self.model: Any = Llama(
            path, n_ctx=(SHAPES | LLAMAS)[shape].max_seq_len, n_threads=threads, n_threads_batch=threads,
            logits_all=False, verbose=False,
        )  # fmt: skip

    def figure(self, name: str) -> float:
        spent, done = 0.0, 0
        while spent < 0.6:
            self.model.reset()
            ids = [300 + i * 7 for i in range(self.prompt if name == "prompt" else 8)]
            start = time.perf_counter()
            self.model.eval(ids)
            if name == "prompt":
                spent += time.perf_counter() - start
                done += self.prompt
                continue
            start = time.perf_counter()
            for i in range(self.tokens):
                self.model.eval([300 + i])
            spent += time.perf_counter() - start
            done += self.tokens
        return done / spent


_peer: LlamaCpp | None = None  # of the helper process


def _begin(shape: str, kind: str, threads: int, prompt: int) -> None:
    global _peer
    _peer = LlamaCpp(shape, kind, threads, prompt)


def _figure(name: str) -> float:
    assert _peer is not None
    return _peer.figure(name)


class Apart:
    """LlamaCpp in a process of its own: if it crashes (llama-cpp-python 0.3 does with q8_0 on some processors), the
    other figures are still measured."""

    def __init__(self, shape: str, kind: str, threads: int = 1, prompt: int = PROMPT) -> None:
        self.name, self._crashed = f"llama.cpp {shape} {kind}", False
        self._pool = ProcessPoolExecutor(
            1, multiprocessing.get_context("spawn"), _begin, (shape, kind, threads, prompt)
        )

    def figure(self, name: str) -> float:
        """nan once it has crashed."""
        if not self._crashed:
            try:
                return self._pool.submit(_figure, name).result()
            except BrokenProcessPool:
                print(f"{self.name} crashed", file=sys.stderr, flush=True)
                self._crashed = True
        return math.nan

    def close(self) -> None:
        self._pool.shutdown()


def model_figures(shape: str, kind: str, runs: int, with_peers: bool = True) -> Iterator[Figure]:
    """As browser.model_figures, natively."""
    import pyapp

    from .workload import Workload, environment

    pyapp.set_num_threads(1)
    peer = Apart(shape, kind) if with_peers and importlib.util.find_spec("llama_cpp") else None
    yield from _in_turn(f"native/{shape}/{kind}", FIGURES, Workload(shape, kind).figure, peer, runs, environment)


def llama_figures(shape: str, kind: str, threads: int, runs: int, with_peers: bool = True) -> Iterator[Figure]:
    """Decode and a prompt of 512 of a Llama from a GGUF file, ours and llama.cpp's."""
    import pyapp

    from .workload import LlamaWorkload, environment

    pyapp.set_num_threads(threads)
    ours = LlamaWorkload(shape, str(write_gguf(shape, kind, WEIGHTS)))
    installed = with_peers and importlib.util.find_spec("llama_cpp")
    peer = Apart(shape, kind, threads, LLAMA_PROMPT) if installed else None
    name = f"native/{shape}/{kind}/{threads} thread" + ("s" if threads > 1 else "")
    yield from _in_turn(name, ("decode", "prompt"), ours.figure, peer, runs, environment)


def _in_turn(
    title: str, figures: Sequence[str], ours: Callable[[str], float], peer: Apart | None, runs: int,
    environment: Callable[[], dict[str, Any]],
) -> Iterator[Figure]:  # fmt: skip
    """Samples of ours and the peer's in turn; the first of each warms up."""
    who: dict[str, Callable[[str], float]] = {"pyapp": ours}
    if peer:
        who["llama.cpp"] = peer.figure
    for name in figures:
        samples: dict[str, list[float]] = {w: [] for w in who if w == "pyapp" or name != "eager"}
        for turn in range(runs + 1):
            for w, values in samples.items():
                value = who[w](name)
                if turn and not math.isnan(value):
                    values.append(value)
        measured = {w: values for w, values in samples.items() if values}
        yield Figure(f"{title}/{name}", "tok/s", measured, environment())
    if peer:
        peer.close()


def block_figures(kind: str, runs: int) -> Iterator[Figure]:
    """As browser.block_figures, natively."""
    import pyapp

    from .workload import BlockStream, environment

    pyapp.set_num_threads(1)
    workload = BlockStream(kind)
    pairs = [workload.sample() for _ in range(runs + 1)][1:]  # the first warms up
    samples = {"pyapp": [ours for ours, _ in pairs], "stream": [stream for _, stream in pairs]}
    yield Figure(f"native/linear/{kind}", "GB/s", samples, environment())


def row_figures(kind: str, runs: int) -> Iterator[Figure]:
    """As browser.row_figures, natively."""
    import pyapp

    from .workload import BlockRows, environment

    pyapp.set_num_threads(1)
    workload = BlockRows(kind)
    samples = [workload.sample() for _ in range(runs + 1)][1:]  # the first warms up
    for i, rows in enumerate(ROWS):
        name = f"native/rows/{kind}/{rows}"
        yield Figure(name, "GMAC/s", {"pyapp": [sample[i] for sample in samples]}, environment())


def stream_figures(runs: int) -> Iterator[Figure]:
    """As browser.stream_figures, natively."""
    import pyapp

    from .workload import environment, stream

    pyapp.set_num_threads(1)
    for megabytes in (192, 1):
        yield Figure(
            f"native/stream/{megabytes} MB", "GB/s", {"pyapp": [stream(megabytes) for _ in range(runs)]}, environment()
        )
