"""Helper processes that make the batches of a training."""

from __future__ import annotations

import multiprocessing
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

from pyapp.dataclass import dataclass

Key = TypeVar("Key")
Made = TypeVar("Made")
Lesson = TypeVar("Lesson")


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


@dataclass(frozen=True, slots=True)
class Stage(Generic[Lesson]):
    """A part of a training: from the batch `begin` on, batches are of this lesson."""

    begin: int
    lesson: Lesson


def stage_at(stages: Sequence[Stage[Lesson]], batch: int) -> int:
    """The index of the stage that a batch belongs to."""
    return max(index for index, stage in enumerate(stages) if stage.begin <= batch)


class PreparedLoader(Generic[Key, Made]):
    """The base of loaders whose batches come in pieces, by a key, that `helpers` processes make ahead, or this process
    if there are none. `position` is the number of the next batch, and the whole state.
    """

    def __init__(self, helpers: int, begin: Callable[..., object], *arguments: Any) -> None:
        """Each helper first calls `begin(*arguments)`."""
        self._position = 0
        self._ready: dict[Key, Future[Made]] = {}
        self._pool = helper_pool(helpers, begin, *arguments) if helpers and sys.platform != "emscripten" else None

    @property
    def position(self) -> int:
        return self._position

    @position.setter
    def position(self, value: int) -> None:
        self._forget()
        self._position = value

    def close(self) -> None:
        """Ends the helpers."""
        self._forget()
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)

    def _start(self, key: Key, make: Callable[..., Made], *arguments: Any) -> None:
        """Has a helper make a piece, or makes it."""
        if self._pool is not None:
            with interrupts_blocked():  # a process that starts here inherits it
                self._ready[key] = self._pool.submit(make, *arguments)
            return
        made: Future[Made] = Future()
        made.set_result(make(*arguments))
        self._ready[key] = made

    def _forget(self) -> None:
        for future in self._ready.values():
            future.cancel()
        self._ready.clear()
