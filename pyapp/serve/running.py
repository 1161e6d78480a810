"""The work of one request on the engine's thread, as a stream of events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any

from pyapp.events import Cancel, Done, Error, Event

from .answers import Answer
from .batching import Job
from .context import Context
from .problems import Problem, of_event
from .served import ServedModel


class Running:
    """A task that a model does for a request; `close` stops it and gives its place free. `names`: those of settings, in
    the request.
    """

    names: Mapping[str, str] = {}

    def __init__(
        self, context: Context, model: ServedModel, task: Callable[[Cancel], AsyncGenerator[Event, None]]
    ) -> None:
        self._context, self._model = context, model
        self._answer = answer = Answer(context.deliveries)
        self._open = True
        context.in_flight += 1

        def begin() -> None:
            context.engine.activate(Job(task(answer.cancel), answer.emit, answer.cancel), model)

        context.engine.post(begin)

    def close(self) -> None:
        if self._open:
            self._open = False
            self._context.in_flight -= 1
            self._answer.cancel.set()

    def count(self, results: Mapping[str, Any]) -> None:
        """Adds what was done to the figures."""

    async def events(self) -> AsyncGenerator[Event, None]:
        """The events. Problem for an Error."""
        async with aclosing(self._answer.events()) as events:
            async for event in events:
                if isinstance(event, Error):
                    raise of_event(event, names=self.names)
                if isinstance(event, Done):
                    if event.reason == "cancelled":
                        raise Problem("the client has left", status=499)
                    self.count(event.results)
                yield event
