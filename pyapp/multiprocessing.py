"""torch.multiprocessing: Python's multiprocessing, and functions in several processes. Tensors are sent as copies."""

from __future__ import annotations

import multiprocessing
import time
import traceback
from collections.abc import Callable, Sequence
from multiprocessing import *  # noqa: F403
from multiprocessing.connection import wait
from typing import Any

from .errors import ProcessError as _ProcessError

__all__ = [
    *multiprocessing.__all__, "ProcessContext", "ProcessRaisedException", "SpawnContext", "get_all_sharing_strategies",
    "get_sharing_strategy", "set_sharing_strategy", "spawn", "start_processes",
]  # fmt: skip


class _Sharing:
    """The name of torch's strategy that was set; here tensors are copied with each of them."""

    strategies = ("file_descriptor", "file_system")
    current = strategies[0]


def get_all_sharing_strategies() -> set[str]:
    """torch's names of the ways in which tensors are sent."""
    return set(_Sharing.strategies)


def get_sharing_strategy() -> str:
    """The name that was set."""
    return _Sharing.current


def set_sharing_strategy(new_strategy: str) -> None:
    """Sets the name. Tensors are sent as copies with each of them. ValueError for another one."""
    if new_strategy not in _Sharing.strategies:
        raise ValueError(f"set_sharing_strategy: takes {' or '.join(_Sharing.strategies)}, not {new_strategy!r}")
    _Sharing.current = new_strategy


class ProcessRaisedException(_ProcessError):
    """The function failed in a process: `error_index` is the number of the process; the message has its traceback."""

    def __init__(self, what: str, error_index: int) -> None:
        super().__init__(what, where=f"process {error_index}")
        self.error_index = error_index


class ProcessContext:
    """Processes that were started together."""

    def __init__(self, processes: Sequence[Any], errors: Sequence[Any]) -> None:
        self.processes, self._errors = list(processes), list(errors)

    def pids(self) -> list[int]:
        """The numbers that the system gives the processes."""
        return [int(process.pid) for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Waits until all processes have ended, at most `timeout` seconds; returns whether they have. If one fails, the
        others are ended, after `grace_period` seconds, and ProcessRaisedException is raised.
        """
        end = None if timeout is None else time.monotonic() + timeout
        while running := [process.sentinel for process in self.processes if process.exitcode is None]:
            left = None if end is None else max(end - time.monotonic(), 0.0)
            ended = wait(running, left)
            failed = next((i for i, process in enumerate(self.processes) if process.exitcode), None)
            if failed is not None:
                self._end(grace_period)
                self._refuse(failed)
            if not ended:
                return False
        failed = next((i for i, process in enumerate(self.processes) if process.exitcode), None)
        if failed is not None:
            self._refuse(failed)
        return True

    def _end(self, grace_period: float | None) -> None:
        end = time.monotonic() + (grace_period or 0.0)
        for process in self.processes:
            process.join(max(end - time.monotonic(), 0.0))
            if process.is_alive():
                process.terminate()
            process.join()

    def _refuse(self, number: int) -> None:
        reader, process = self._errors[number], self.processes[number]
        text = reader.recv() if reader.poll() else f"it ended with the exit code {process.exitcode}"
        raise ProcessRaisedException(f"the function failed:\n{text}", number)


SpawnContext = ProcessContext


def _run(function: Callable[..., Any], number: int, args: tuple[Any, ...], errors: Any) -> None:
    try:
        function(number, *args)
    except BaseException:
        errors.send(traceback.format_exc())
        raise SystemExit(1) from None


def start_processes(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Calls `fn(i, *args)` in processes i = 0 … nprocs - 1, begun by `start_method`. With `join` waits for them, and
    raises ProcessRaisedException if one fails; else gives their ProcessContext.
    """
    context: Any = multiprocessing.get_context(start_method)
    processes, errors = [], []
    for number in range(nprocs):
        reader, writer = context.Pipe(False)
        process = context.Process(target=_run, args=(fn, number, args, writer), daemon=daemon)
        process.start()
        writer.close()
        processes.append(process)
        errors.append(reader)
    started = ProcessContext(processes, errors)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """start_processes with new interpreters."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)
