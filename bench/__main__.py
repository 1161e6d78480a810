"""python -m bench [--only REGEX] [--runs 5] [--no-peers] [--out bench/output/figures.jsonl]

Prints the median of each figure, its range, and the ratio to each peer in the same run. Peers: `npm ci` in bench/
brings wllama (llama.cpp for browsers), transformers.js, onnxruntime-web and TensorFlow.js; `pip install .[bench]`
brings gguf, which writes wllama's weights; llama-cpp-python, torch, transformers, onnxruntime and
sentence-transformers, where installed, are measured natively.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before NumPy's BLAS reads it

from . import architectures, browser, embeddings, memory, native, onnx_models, ops, speech, startup, training, voices
from .report import Figure, show
from .shapes import LLAMA_KINDS, LLAMAS, ROW_KINDS, SHAPES, STREAMED


def cases(runs: int, with_peers: bool) -> dict[str, Callable[[], Generator[Figure]]]:
    """Every case by the beginning of its figures' names."""
    found: dict[str, Callable[[], Generator[Figure]]] = {}
    for place, module in (("chromium", browser), ("native", native)):
        found[f"{place}/stream"] = partial(module.stream_figures, runs)
        for kind in STREAMED:
            found[f"{place}/linear/{kind}"] = partial(module.block_figures, kind, runs)
        for kind in ROW_KINDS:
            found[f"{place}/rows/{kind}"] = partial(module.row_figures, kind, runs)
        for shape in SHAPES:
            for kind in ("f32", "q8_0", "q4_0"):
                found[f"{place}/{shape}/{kind}"] = partial(module.model_figures, shape, kind, runs, with_peers)
    for shape in LLAMAS:
        for kind in LLAMA_KINDS:
            found[f"chromium/{shape}/{kind}"] = partial(browser.llama_figures, shape, kind, runs, with_peers)
            found[f"native/memory/{shape}/{kind}"] = partial(memory.load_figures, shape, kind, runs)
            for threads in (1, 2):
                found[f"native/{shape}/{kind}/{threads} thread"] = partial(
                    native.llama_figures, shape, kind, threads, runs, with_peers
                )
    for threads in (1, 2):
        found[f"native/embeddings/{threads} thread"] = partial(embeddings.native_figures, threads, runs, with_peers)
        found[f"native/voices/{threads} thread"] = partial(voices.native_figures, threads, runs, with_peers)
        for name in architectures.ARCHITECTURES:
            found[f"native/architectures/{name}/{threads} thread"] = partial(
                architectures.native_figures, name, threads, runs, with_peers
            )
    found["chromium/embeddings"] = partial(embeddings.browser_figures, runs, with_peers)
    for name in onnx_models.FILES:
        found[f"chromium/onnx/{name}"] = partial(onnx_models.browser_figures, name, runs, with_peers)
        found[f"native/onnx/{name}"] = partial(onnx_models.native_figures, name, runs, with_peers)
    for kind in ("f32", "q8_0"):
        found[f"chromium/whisper-tiny/{kind}"] = partial(speech.browser_figures, kind, runs)
        found[f"native/whisper-tiny/{kind}"] = partial(speech.native_figures, kind, runs)
    found["chromium/ops"] = partial(ops.browser_figures, runs, with_peers)
    found["native/ops"] = partial(ops.native_figures, runs, with_peers)
    for name in training.MODELS:
        found[f"chromium/train/{name}"] = partial(training.browser_figures, name, runs, with_peers)
        found[f"native/train/{name}"] = partial(training.step_figures, name, runs, with_peers)
        found[f"native/train/{name}/memory"] = partial(training.memory_figures, name, runs, with_peers)
    for name in training.IN_TORCH_COMPILE if with_peers else ():
        found[f"native/train/{name}/torch.compile"] = partial(training.torch_compile_figures, name, runs)
    found["native/train/digits epoch"] = partial(training.fit_figures, runs, with_peers)
    for start in (startup.STORY, startup.SPEECH):
        found[start.name] = partial(startup.figures, start, runs)
    found["startup whisper-tiny"] = partial(startup.whisper_figures, runs)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name this regular expression finds")
    parser.add_argument("--runs", type=int, default=5, help="samples of each figure")
    parser.add_argument("--no-peers", action="store_true", help="only our side")
    parser.add_argument(
        "--out", type=Path, default=Path("bench/output/figures.jsonl"), help="file of JSON lines to append to"
    )
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    arguments = parser.parse_args()
    for name, run in cases(arguments.runs, not arguments.no_peers).items():
        if not re.search(arguments.only, name):
            continue
        if arguments.list:
            print(name)
            continue
        with closing(run()) as figures:  # which ends what it started, a browser, before an error leaves
            show(figures, arguments.out)


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:  # the reader of the figures has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(141)
