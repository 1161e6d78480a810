"""The work of one request on the engine's thread, as a stream of events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Protocol, TypeVar

from starlette.requests import Request

from pyapp.events import Done, Error, Event

from .answers import Answer, EventStream, cancelled_by_leaving, data_line
from .batching import Job
from .context import Context
from .problems import Problem, of_event, of_exception
from .sampling import NAMES
from .served import ServedModel

E = TypeVar("E", bound=Event)
Stream = Callable[..., AsyncGenerator[Event, None]]  # of pyapp.tasks: it takes `model` and `cancel`


def start_task(context: Context, model: ServedModel, stream: Stream, answer: Answer) -> None:
    """Gives a stream of pyapp.tasks to the engine."""

    def begin() -> None:
        job = Job(stream(model=model.loaded, cancel=answer.cancel), answer.emit, answer.cancel)
        context.engine.activate(job, model)

    context.engine.post(begin)


async def checked(answer: Answer, names: Mapping[str, str]) -> AsyncGenerator[Event, None]:
    """The events of an answer. Problem for an Error, and when the client has left. `names`: those of settings, in the
    request.
    """
    async with aclosing(answer.events()) as events:
        async for event in events:
            if isinstance(event, Error):
                raise of_event(event, names=names)
            if isinstance(event, Done) and event.reason == "cancelled":
                raise Problem("the client has left", status=499)
            yield event


class RunningTask:
    """A task that a model does for a request; `close` stops it and frees its place. `names`: those of settings, in the
    request.
    """

    names: Mapping[str, str] = {}

    def __init__(self, context: Context, model: ServedModel, stream: Stream) -> None:
        self._context, self._model = context, model
        self._answer = Answer(context.deliveries)
        self._open = True
        context.in_flight += 1
        start_task(context, model, stream, self._answer)

    def close(self) -> None:
        if self._open:
            self._open = False
            self._context.in_flight -= 1
            self._answer.cancel.set()

    def count(self, results: Mapping[str, Any]) -> None:
        """Adds what was done to the metrics."""

    async def events(self) -> AsyncGenerator[Event, None]:
        """The events. Problem for an Error."""
        async with aclosing(checked(self._answer, self.names)) as events:
            async for event in events:
                if isinstance(event, Done):
                    self.count(event.results)
                yield event

    async def all_of(self, request: Request, kind: type[E]) -> list[E]:
        """All events of a kind. A client that leaves stops the task."""
        async with cancelled_by_leaving(request, self.close, self._context.settings.seconds):
            async with aclosing(self.events()) as events:
                return [event async for event in events if isinstance(event, kind)]


class Closable(Protocol):
    """What runs for a request."""

    def close(self) -> None: ...


def broken(error: Exception) -> str:
    """The last event of a stream that breaks off, in OpenAI's form."""
    return data_line(of_exception(error, NAMES).body())


def stream_of(
    context: Context, running: Closable, source: AsyncGenerator[str, None], broken: Callable[[Exception], str] = broken
) -> EventStream:
    """An answer of server-sent events."""
    return EventStream(source, broken, running.close, context.settings.seconds, context.settings.ping_seconds)
