"""python -m bench.records [NAME] [--rounds 300] [--all] [--chromium]

Where the time of a training step goes: the kernels of one captured step of a model of bench/training.py, one by one.
The records run in their order, on one thread, and each has the least of many rounds. "k" are the multiply-adds or
elements in thousands that a record says it has. The last line compares their sum with a replay and a call of the step.
In Chromium, whose clock is coarse, a record runs many times in a row.
"""

from __future__ import annotations

import argparse
import ctypes
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from time import perf_counter_ns
from typing import Any

from pyapp.engine.launch import capture_or_run
from pyapp.engine.native import IN_BROWSER, SIGNATURES, library, set_num_threads

from .training import MODELS, training_step

COARSE_NS = 10_000_000  # of a sample, where the clock is coarse


class _Record(ctypes.Structure):
    """`launch` of native/kernels.h."""

    _fields_ = [
        ("kernel", ctypes.c_int32), ("work", ctypes.c_int32), ("pointers", ctypes.c_void_p * 8),
        ("dims", ctypes.c_int64 * 24), ("floats", ctypes.c_float * 4),
    ]  # fmt: skip


def _elapsed(call: Callable[[], Any]) -> float:
    """Nanoseconds of a call."""
    start, count = perf_counter_ns(), 0
    while True:
        call()
        count += 1
        spent = perf_counter_ns() - start
        if not IN_BROWSER or spent > COARSE_NS:
            return spent / count


def least(call: Callable[[], Any], rounds: int) -> float:
    """Microseconds of the fastest call."""
    return min(_elapsed(call) for _ in range(rounds)) / 1e3


def profile(name: str, rounds: int) -> tuple[list[tuple[str, int, float, str]], float, float]:
    """(kernel, work, microseconds, dims) of each record of a step; and the microseconds of a replay and of a call."""
    set_num_threads(1)
    step, batch = training_step("pyapp", name)
    for _ in range(2):
        step(*batch)
    _, graph, recorder = capture_or_run(lambda: step(*batch))
    if graph is None:
        raise RuntimeError(f"{name}: {recorder.reason}")
    parts = [part for part in recorder.parts if isinstance(part, tuple)]
    names = [kernel for _, _, kernels in parts for kernel in kernels]
    memory = b"".join(bytes(records) for _, records, _ in parts)
    records = (_Record * len(names)).from_buffer_copy(memory)
    nothing = _Record()
    nothing.kernel = list(SIGNATURES).index("fill_f32")
    run, empty = library.pyapp_run_short, ctypes.addressof(nothing)
    calls = [partial(run, ctypes.c_void_p(ctypes.addressof(record))) for record in records]
    best = [float("inf")] * len(names)
    for _ in range(rounds):
        for at, call in enumerate(calls):
            best[at] = min(best[at], _elapsed(call))
    of_call = least(partial(run, ctypes.c_void_p(empty)), 3 if IN_BROWSER else 2000)
    found = []
    for kernel, record, time in zip(names, records, best, strict=True):
        slots = SIGNATURES[kernel].split("|")[1].split()
        dims = " ".join(f"{slot}={record.dims[k]}" for k, slot in enumerate(slots) if not slot.startswith("number"))
        found.append((kernel, record.work, max(0.0, time / 1e3 - of_call), dims))
    replay = least(graph.replay, rounds)
    step, batch = training_step("pyapp", name, compiled=True)
    for _ in range(3):
        step(*batch)
    return found, replay, least(lambda: step(*batch), rounds)


def report(name: str, rounds: int, every: bool) -> str:
    """The profile as text: sums by kernel, and before them each record where `every` is set."""
    records, replay, call = profile(name, rounds)
    total = sum(time for _, _, time, _ in records)
    lines = []
    if every:
        for kernel, work, time, dims in records:
            lines.append(f"{time:9.2f} us {time / total:5.1%} {work:8} k  {kernel:28} {dims}")
        lines.append("")
    sums: dict[str, list[float]] = defaultdict(list)
    for kernel, _, time, _ in records:
        sums[kernel].append(time)
    for kernel, times in sorted(sums.items(), key=lambda of: -sum(of[1])):
        lines.append(f"{sum(times):9.2f} us {sum(times) / total:5.1%} {len(times):4} x {kernel}")
    last = f"{total:9.2f} us in {len(records)} records; {replay:.2f} us a replay; {call:.2f} us a call of the step"
    return "\n".join([*lines, last])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?", default="small CNN", choices=MODELS, help="a model of bench/training.py")
    parser.add_argument("--rounds", type=int, default=300, help="in Chromium 3 are enough")
    parser.add_argument("--all", action="store_true", help="every record, not only sums by kernel")
    parser.add_argument("--chromium", action="store_true", help="inside Pyodide")
    arguments = parser.parse_args()
    if not arguments.chromium:
        print(report(arguments.name, arguments.rounds, arguments.all))
        return
    from .browser import call, chromium, open_page  # needs Playwright

    with chromium() as (server, browser):
        page = open_page(browser, f"{server.url}pages/pyapp.html")
        print(call(page, "records", name=arguments.name, rounds=min(arguments.rounds, 3), every=arguments.all))


if __name__ == "__main__":
    main()
