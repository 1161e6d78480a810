"""The engine: the one thread on which models are loaded and compute.

The models take turns: a step of a language model, a batch of texts, a window of a recording. So no request waits for
the whole of another one, and many requests for one model do not slow another one down more than one does.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol, TypeVar

log = logging.getLogger("pyapp.serve")
T = TypeVar("T")
IDLE_SECONDS = 1.0  # without work, until free memory goes back to the system
BUSY_SECONDS = 30.0  # the same where there is always work
KEPT_BYTES = 64 << 20  # in free blocks between two turns; one turn may need more


class Worker(Protocol):
    """Work in turns."""

    def turn(self) -> bool:
        """One turn, as short as possible. Whether there is more to do."""
        ...

    def fail(self, error: Exception) -> None:
        """Ends everything that waits for this worker with an error."""
        ...


class Blocks(Protocol):
    """Free blocks of memory, kept by size: a block serves tensors of its own size alone."""

    cached: int  # bytes

    def trim_large(self) -> None:
        """Frees them."""
        ...


class Engine:
    """The thread, its workers, and functions that other threads post to it. `tidy` runs on it once after work has
    ended, and from time to time while it goes on. `blocks`: those that the turns leave; as batches have many sizes,
    those that one turn left are of no use to the next, and are freed where they become many.
    """

    def __init__(self, tidy: Callable[[], Any] = lambda: None, blocks: Blocks | None = None) -> None:
        self._posted: queue.SimpleQueue[Callable[[], Any] | None] = queue.SimpleQueue()
        self._active: dict[object, list[Worker]] = {}  # by model
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._died: BaseException | None = None
        self._stopping = False
        self._tidy, self._blocks = tidy, blocks
        self._left = 0  # bytes that one turn left in new blocks, at most, since it last tidied up
        self._worked_since: float | None = None  # when the first work after the last `tidy` began
        self.on_death: Callable[[], Any] = lambda: None
        self.turn_began: float | None = None  # of the turn that runs now

    def start(self) -> None:
        self._thread.start()

    @property
    def alive(self) -> bool:
        return self._thread.is_alive() and self._died is None

    @property
    def busy_seconds(self) -> float:
        """How long the turn that runs now has taken."""
        began = self.turn_began
        return 0.0 if began is None else time.monotonic() - began

    def post(self, function: Callable[[], Any]) -> None:
        """Runs a function between two turns."""
        self._posted.put(function)

    def call(self, function: Callable[[], T]) -> Future[T]:
        """As `post`; the future has the result."""
        future: Future[T] = Future()

        def run() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(function())
            except Exception as error:
                future.set_exception(error)

        self.post(run)
        return future

    def activate(self, worker: Worker, model: object) -> None:
        """A worker has something to do for a model, whose workers share its turns. On the engine's thread."""
        workers = self._active.setdefault(model, [])
        if worker not in workers:
            workers.append(worker)

    def stop(self, seconds: float = 5.0) -> None:
        """Ends the thread after the turn that runs now."""
        self._stopping = True
        self.post(lambda: None)
        if self._thread.is_alive() and threading.current_thread() is not self._thread:
            self._thread.join(seconds)

    def _run(self) -> None:
        try:
            while not self._stopping:
                self._take_posted()
                if self._worked_since is not None and time.monotonic() - self._worked_since > BUSY_SECONDS:
                    self._tidy_up()
                for model in list(self._active):
                    self._turn_of(model)
                    self._take_posted(wait=False)
        except BaseException as error:  # a defect: the server says so and ends
            self._died = error
            log.critical("the engine died", exc_info=True)
            self.on_death()

    def _take_posted(self, wait: bool = True) -> None:
        """Runs what was posted; waits for it if there is nothing else to do."""
        wait = wait and not self._active
        while True:
            try:
                function = self._wait_for_posted() if wait else self._posted.get_nowait()
            except queue.Empty:
                return
            wait = False
            if self._worked_since is None:
                self._worked_since = time.monotonic()
            if function is not None:
                function()
            if self._stopping:
                return

    def _wait_for_posted(self) -> Callable[[], Any] | None:
        if self._worked_since is not None:
            try:
                return self._posted.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                self._tidy_up()
        return self._posted.get()

    def _tidy_up(self) -> None:
        self._tidy()
        self._left = 0
        self._worked_since = time.monotonic() if self._active else None

    def _turn_of(self, model: object) -> None:
        worker = self._active[model].pop(0)
        before = self._blocks.cached if self._blocks else 0
        self.turn_began = time.monotonic()
        try:
            more = worker.turn()
        except Exception as error:
            log.error("a turn failed", exc_info=True)
            worker.fail(error)
            more = False
        finally:
            self.turn_began = None
        if more:
            self._active[model].append(worker)
        if not self._active[model]:
            del self._active[model]
        if self._blocks:
            self._left = max(self._left, self._blocks.cached - before)
            if self._blocks.cached > max(KEPT_BYTES, 2 * self._left):
                self._blocks.trim_large()  # to the allocator, which joins them: to the system would cost more
