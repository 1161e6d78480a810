"""Shared by all tasks: errors become events, the event loop gets time to run, blocking work runs in a thread."""

from __future__ import annotations

import asyncio
import functools
import logging
import sys
import time
import traceback
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from contextvars import ContextVar
from pathlib import Path
from typing import Any, Generic, ParamSpec, TypeVar

from pyapp.dataclass import dataclass
from pyapp.errors import NO_ROOM, Cancelled, InputError, OperationError, OptionError, PyappError
from pyapp.events import Cancel, Done, Error, Event

Events = AsyncGenerator[Event, None]
P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger("pyapp")

# Seconds of work between two turns of the event loop: the longest delay of a Stop, plus one kernel call. In the page
# each turn takes a quarter of a millisecond.
BREATH = 0.02
REPORT = "This is a defect in pyapp: please report it with this line"


def task(function: Callable[P, Events]) -> Callable[P, Events]:
    """A decorator that turns an exception of an async generator, or of a function that returns one, into the last
    event.
    """

    @functools.wraps(function)
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> Events:
        try:
            started = function(*args, **kwargs)
        except TypeError as error:  # the arguments do not fit: nothing of the task has run
            yield Error(str(error), hint=f"help(pyapp.tasks.{function.__name__}) says what it takes")
            return
        try:
            async with aclosing(started) as events:
                async for event in events:
                    yield event
        except Cancelled:
            yield Done("cancelled")
        except Exception as error:  # the user gets a message, the log the traceback
            log.debug("task %s failed", function.__name__, exc_info=True)
            yield error_event(error)

    return guarded


INSTALL_AGAIN = "Install pyapp again with its packages, or run it with the Python in which they are"


def error_event(error: Exception) -> Error:
    """The Error event of an exception."""
    if isinstance(error, PyappError) and (not isinstance(error, OperationError) or isinstance(error, InputError)):
        # Other OperationErrors are defects of pyapp.
        return Error(error.what, error.where, error.hint)
    if isinstance(error, MemoryError):
        return Error("there is not enough memory", hint="Close other programs or tabs, or take a smaller model")
    if isinstance(error, RuntimeError) and str(error) == "can't start new thread":  # Python's own, by no other type
        return Error(
            "the system starts no more threads", hint="Close other programs, or raise the limits: ulimit -v, -u"
        )
    if isinstance(error, OSError) and error.strerror:
        name = None if error.filename is None else str(error.filename) or '""'
        full = error.errno in NO_ROOM
        hint = "Free some space, or take another place" if full else "Check the name and your access rights"
        return Error(error.strerror.lower(), name, hint if name else None)
    if isinstance(error, ModuleNotFoundError) and error.name and error.name.partition(".")[0] != "pyapp":
        return Error(f"the Python package {error.name.partition('.')[0]!r} is missing", hint=INSTALL_AGAIN)
    if isinstance(error, ImportError) and not (error.name or "").startswith("pyapp"):
        reason = (str(error).strip().splitlines() or ["no reason is given"])[-1].removeprefix("Original error was: ")
        if "failed to map segment" in reason or "cannot allocate memory" in reason.lower():
            return error_event(MemoryError())
        return Error(f"a Python package cannot be loaded: {reason}", hint=INSTALL_AGAIN)
    frames = reversed(traceback.extract_tb(error.__traceback__))
    ours = (entry for entry in frames if "pyapp" in Path(entry.filename).parts)
    where = next((f"{Path(entry.filename).name}:{entry.lineno}" for entry in ours), None)
    return Error(f"unexpected {type(error).__name__}: {error}", where, hint=REPORT)


@dataclass(frozen=True)
class Result(Generic[T]):
    """The result of a stream of events; its last item."""

    value: T


class Step(Generic[T]):
    """A part of a task: its events without the Result, whose `value` is there at the end. The context closes it."""

    value: T

    def __init__(self, events: AsyncGenerator[Event | Result[T], None]) -> None:
        self._events = events

    async def __aenter__(self) -> Step[T]:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._events.aclose()

    def __aiter__(self) -> Step[T]:
        return self

    async def __anext__(self) -> Event:
        event = await anext(self._events)
        while isinstance(event, Result):
            self.value = event.value
            event = await anext(self._events)
        return event


def given(**settings: Any) -> dict[str, Any]:
    """The settings that are not None."""
    return {name: value for name, value in settings.items() if value is not None}


class Remote:
    """A model in another process, instead of a loaded one: the tasks give it their arguments and forward its events
    (pyapp.serve.client.Server).
    """

    def load(self, cancel: Cancel) -> Events:
        raise NotImplementedError

    def generate(self, prompt: str, options: Any, cancel: Cancel, given: Any = None) -> Events:
        raise NotImplementedError

    def chat(
        self, messages: Any, options: Any, tools: Any, variables: Any, cancel: Cancel, given: Any = None
    ) -> Events:  # fmt: skip
        raise NotImplementedError

    def of_texts(self, name: str, arguments: Any, options: Any, cancel: Cancel) -> Events:
        raise NotImplementedError

    def transcribe(self, audio: Any, options: Any, cancel: Cancel) -> Events:
        raise NotImplementedError

    def speak(self, text: str, options: Any, cancel: Cancel) -> Events:
        raise NotImplementedError


def only_here(**settings: Any) -> None:
    """OptionError for a setting that is given, of a task whose model is Remote."""
    if names := list(given(**settings)):
        raise OptionError("is not a setting of a server's model", where=names[0])


class Breath:
    """Gives the event loop time to run at intervals."""

    def __init__(self) -> None:
        self._last = 0.0

    async def take(self) -> None:
        if time.perf_counter() - self._last >= BREATH:
            await asyncio.sleep(0)
            self._last = time.perf_counter()


# Where the page sends events of blocking work while that runs.
at_once: ContextVar[Callable[[Event], None] | None] = ContextVar("at_once", default=None)


async def reported(
    work: Callable[[Callable[[Event], None]], T], cancel: Cancel
) -> AsyncGenerator[Event | Result[T], None]:
    """Runs blocking `work(report)` in a thread; yields the reported events, then its Result. Closing the stream sets
    `cancel`: the thread would go on.

    The page has no threads; there the events go to `at_once`, or come when the work is over.
    """
    if sys.platform == "emscripten":
        events: list[Event] = []
        result = work(at_once.get() or events.append)
        for event in events:
            yield event
        yield Result(result)
        return
    loop = asyncio.get_running_loop()
    queue: asyncio.Queue[Event | None] = asyncio.Queue()

    def report(event: Event) -> None:
        loop.call_soon_threadsafe(queue.put_nowait, event)

    running = asyncio.ensure_future(asyncio.to_thread(work, report))
    running.add_done_callback(lambda _: queue.put_nowait(None))
    try:
        while (event := await queue.get()) is not None:
            yield event
        result = await running
    except (GeneratorExit, asyncio.CancelledError):
        cancel.set()
        raise
    yield Result(result)


async def done_with(work: Callable[[Callable[[Event], None]], Any], cancel: Cancel) -> Events:
    """As `reported`, with the result as the values of Done."""
    async with aclosing(reported(work, cancel)) as events:
        async for event in events:
            yield Done("complete", event.value) if isinstance(event, Result) else event
