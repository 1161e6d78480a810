"""Work on the engine's thread besides the texts of language models: batches of several requests, and single jobs."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from dataclasses import field
from typing import Any, TypeVar

from pyapp.dataclass import dataclass
from pyapp.events import Cancel, Done, Error, Event, Item
from pyapp.tasks import error_event

T = TypeVar("T")
TOGETHER = 256  # texts of several requests


@dataclass(eq=False)
class Batch:
    """The texts of one request, as the model's work takes them. `emit` gets an Item for each, with its index, and a
    Done or an Error.
    """

    texts: list[Any]
    emit: Callable[[Event], None]
    cancel: Cancel = field(default_factory=Cancel)
    begun: int = 0  # texts that were taken
    done: int = 0


class Batcher:
    """Texts of several requests computed together: in each round every request gives its share, so that a small one
    does not wait for a large one. `work` is a step-by-step task over texts (pyapp/tasks/texts.py), which sorts them by
    length and limits batches by tokens.
    """

    def __init__(self, work: Callable[[list[Any]], Generator[Event | None, None, None]]) -> None:
        self._work = work
        self._requests: deque[Batch] = deque()
        self._round: Iterator[Event | None] | None = None
        self._owners: list[tuple[Batch, int]] = []

    def add(self, batch: Batch) -> None:
        self._requests.append(batch)

    @property
    def waiting(self) -> int:
        return len(self._requests)

    def turn(self) -> bool:
        """One batch of texts."""
        if self._round is None:
            self._begin()
        if self._round is None:
            return False
        for event in self._round:
            if isinstance(event, Item):
                self._deliver(event)
            elif not isinstance(event, Done):
                return True  # a batch is done
        self._round = None
        return bool(self._requests)

    def fail(self, error: Exception) -> None:
        event = error_event(error)
        for batch in self._requests:
            batch.emit(event)
        self._requests.clear()
        self._round = None

    def _begin(self) -> None:
        for batch in [batch for batch in self._requests if batch.cancel.is_set()]:
            batch.emit(Done("cancelled"))
            self._requests.remove(batch)
        if not self._requests:
            return
        share = max(TOGETHER // len(self._requests), 1)
        self._owners = []
        for batch in self._requests:
            taken = range(batch.begun, min(batch.begun + share, len(batch.texts)))
            self._owners += [(batch, index) for index in taken]
            batch.begun = taken.stop
        self._round = iter(self._work([batch.texts[index] for batch, index in self._owners]))

    def _deliver(self, item: Item) -> None:
        batch, index = self._owners[item.index]
        batch.emit(Item(index, item.values))
        batch.done += 1
        if batch.done == len(batch.texts):
            batch.emit(Done("complete", {"count": batch.done}))
            self._requests.remove(batch)


class Job:
    """A task of one request: a stream of pyapp.tasks over a loaded model, one event in a turn."""

    def __init__(self, events: AsyncGenerator[Event, None], emit: Callable[[Event], None], cancel: Cancel) -> None:
        self._steps, self._emit, self._cancel = steps(events), emit, cancel

    def turn(self) -> bool:
        for event in self._steps:
            if event is not None:
                self._emit(event)
                return not isinstance(event, Done | Error)
            return True
        return False

    def fail(self, error: Exception) -> None:
        self._cancel.set()
        self._emit(error_event(error))


def result_of(work: Generator[Any, None, T]) -> T:
    """What a generator returns, without its events."""
    while True:
        try:
            next(work)
        except StopIteration as found:
            result: T = found.value
            return result


def steps(events: AsyncGenerator[Event, None]) -> Iterator[Event | None]:
    """The events of a stream that waits for nothing but its turn (asyncio.sleep(0)), without an event loop; None where
    it gave up its turn.
    """
    while True:
        coroutine = anext(events).__await__()
        while True:
            try:
                next(coroutine)
            except StopIteration as found:
                yield found.value
                break
            except StopAsyncIteration:
                return
            yield None
