"""Helper processes that make the batches of a training."""

from __future__ import annotations

import multiprocessing
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any


def helper_pool(helpers: int, begin: Callable[..., object], *arguments: Any) -> ProcessPoolExecutor:
    """A pool of processes, each of which first calls `begin(*arguments)`. Submit work under interrupts_blocked().

    Processes, because threads would keep the interpreter from the model; spawned, because kernels may have threads,
    with which a process must not fork.
    """
    return ProcessPoolExecutor(helpers, multiprocessing.get_context("spawn"), _begin, (begin, arguments))


@contextmanager
def interrupts_blocked() -> Iterator[None]:
    """Ctrl-C waits until the block ends, also in a process that starts in it. It is for the training, which ends its
    helpers itself.
    """
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(begin: Callable[..., object], arguments: tuple[Any, ...]) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # if it could not be blocked
    begin(*arguments)
