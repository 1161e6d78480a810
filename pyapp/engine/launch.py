"""Launch records: a kernel call is a record; eager execution runs one, a Graph replays those that a function left
behind.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from . import storage as _storage
from .local import ThreadLocal
from .native import KERNELS, RECORD_BYTES, Kernel, fail, library


def _run(address: int, count: int) -> int:
    """The library's pyapp_run, which takes this one's place when it is loaded."""
    global _run
    _run = library.pyapp_run
    return int(_run(address, count))


class _Scratch(ThreadLocal):
    """Records of this thread's eager calls (the library runs without Python's lock), and what it is capturing."""

    def __init__(self) -> None:
        self.records = bytearray(RECORD_BYTES * 4)
        self.buffer = (ctypes.c_ubyte * len(self.records)).from_buffer(self.records)
        self.address = ctypes.addressof(self.buffer)
        self.recorder: Recorder | None = None


_scratch = _Scratch()


class Recorder:
    """Collects the records of a function while it runs."""

    def __init__(self) -> None:
        self.records = bytearray()
        self.names: list[str] = []
        self.calls: list[tuple[int, Callable[[], None]]] = []  # foreign kernels, and how many records stand before

    def add(self, kernel: Kernel, work: int, values: tuple[Any, ...]) -> None:
        at = len(self.records)
        self.records += bytes(RECORD_BYTES)
        kernel.pack_into(self.records, at, kernel.index, work, *values)
        self.names.append(kernel.name)


def launch(kernel: Kernel, work: int, *values: Any) -> None:
    """Runs one kernel. `values` are pointers (addresses), dims, floats in the order of kernels.h; `work` is the cost in
    multiply-adds or elements, in thousands."""
    scratch = _scratch
    kernel.pack_into(scratch.records, 0, kernel.index, work, *values)
    status = _run(scratch.address, 1)
    if status:
        fail(status, kernel.name)
    if scratch.recorder is not None:
        scratch.recorder.add(kernel, work, values)


def launch_all(work: int, *calls: tuple[Any, ...]) -> None:
    """Up to four kernels, each (kernel, *values) reading what those before it wrote, in one call."""
    scratch = _scratch
    at = 0
    for call in calls:
        kernel = call[0]
        kernel.pack_into(scratch.records, at, kernel.index, work, *call[1:])
        at += RECORD_BYTES
    status = _run(scratch.address, len(calls))
    if status:
        fail(status, calls[status >> 8][0].name)
    if scratch.recorder is not None:
        for call in calls:
            scratch.recorder.add(call[0], work, call[1:])


def record_call(name: str, call: Callable[[], None]) -> None:
    """Adds a call that is not of this library (a kernel of the user's own) to the Graph that is being recorded."""
    recorder = _scratch.recorder
    if recorder is not None:
        recorder.calls.append((len(recorder.names), call))


def capturing() -> bool:
    """Whether this thread is recording a Graph."""
    return _scratch.recorder is not None


def refuse_capture(name: str) -> None:
    """Raises when a Graph is being recorded: `name` was computed without a launch record and would not be replayed."""
    if _scratch.recorder is not None:
        raise RuntimeError(
            f"capture: cpu has no kernel for '{name}' with these dtypes and layouts, so it cannot be replayed"
        )


class Graph:
    """What one run of a function left behind. `replay()` runs it again, in one call, on whatever its inputs now hold;
    `outputs` (what the function returned) then hold the new results."""

    def __init__(self, function: Callable[[], Any], outputs: Any, recorder: Recorder, pool: _storage.Pool) -> None:
        self.function = function  # keeps alive what the records point to: weights, caches, input buffers
        self.outputs = outputs
        self.names = recorder.names
        self._pool = pool
        self._records = recorder.records
        self._buffer = (ctypes.c_ubyte * max(1, len(recorder.records))).from_buffer(recorder.records or bytearray(1))
        self._address = ctypes.addressof(self._buffer)
        self._count = len(recorder.names)
        self._calls = recorder.calls

    def replay(self) -> Any:
        """Runs every record in order; returns `outputs`."""
        if self._calls:
            return self._replay_parts()
        status = _run(self._address, self._count)
        if status:
            fail(status, self.names[status >> 8])
        return self.outputs

    def _replay_parts(self) -> Any:
        """The records between foreign calls, and these."""
        done = 0
        for before, call in (*self._calls, (self._count, None)):
            status = _run(self._address + done * RECORD_BYTES, before - done) if before > done else 0
            if status:
                fail(status, self.names[done + (status >> 8)])
            done = before
            if call is not None:
                call()
        return self.outputs

    def __repr__(self) -> str:
        return f"<Graph of {self._count + len(self._calls)} kernels>"


def capture(function: Callable[[], Any]) -> Graph:
    """Runs `function()` once and keeps its kernel calls as a Graph.

    Its inputs are tensors that the caller keeps and writes in place between replays; anything it computes outside
    kernels (in Python or NumPy) is fixed at this run. Raises RuntimeError where an op has no kernel to record.
    """
    if _scratch.recorder is not None:
        raise RuntimeError("capture: already capturing; captures do not nest")
    recorder, pool = Recorder(), _storage.Pool()
    before = _storage.use_pool(pool)
    _scratch.recorder = recorder
    try:
        outputs = function()
    finally:
        _scratch.recorder = None
        _storage.use_pool(before)
    return Graph(function, outputs, recorder, pool)


__all__ = ["KERNELS", "Graph", "capture", "capturing", "launch", "launch_all", "record_call", "refuse_capture"]
