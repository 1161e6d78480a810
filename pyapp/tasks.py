"""What pyapp does for people, as async streams of events: the page, the command line and a server only forward them.

A task ends with exactly one `Done` or `Error`; nothing that goes wrong leaves it as an exception. Closing the generator
or setting its `Cancel` ends it within milliseconds.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
import sys
import time
import traceback
from collections.abc import AsyncGenerator, Callable, Iterator, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar

from pyapp.errors import Cancelled, PyappError
from pyapp.events import Cancel, Done, Error, Event, Metric, Progress, Segment, Token
from pyapp.text.options import SamplingOptions, check_number

if TYPE_CHECKING:
    from pyapp.models import LoadedModel

__all__ = [
    "Cancel", "Done", "Error", "Event", "Events", "Metric", "Progress", "Segment", "Token",
    "generate", "inspect", "load", "models", "set_threads", "train_speech", "train_story", "unload",
]  # fmt: skip

Events = AsyncGenerator[Event, None]
P = ParamSpec("P")
T = TypeVar("T")
log = logging.getLogger("pyapp")

# Seconds of work between two looks at the event loop: what a Stop waits for at most, beside one kernel call. In the
# page each look costs a quarter of a millisecond.
BREATH = 0.02
REPORT = "This is a defect in pyapp: please report it with this line"


def task(function: Callable[P, Events]) -> Callable[P, Events]:
    """Makes every exception of an async generator its last event."""

    @functools.wraps(function)
    async def guarded(*args: P.args, **kwargs: P.kwargs) -> Events:
        try:
            async with aclosing(function(*args, **kwargs)) as events:
                async for event in events:
                    yield event
        except Cancelled:
            yield Done("cancelled")
        except Exception as error:  # the user gets a message, the log the traceback
            log.debug("task %s failed", function.__name__, exc_info=True)
            yield error_event(error)

    return guarded


def error_event(error: Exception) -> Error:
    """What to tell a person about an exception."""
    if isinstance(error, PyappError):
        return Error(error.what, error.where, error.hint)
    if isinstance(error, MemoryError):
        return Error("there is not enough memory", hint="Close other programs or tabs, or take a smaller model")
    if isinstance(error, OSError) and error.strerror:
        name = None if error.filename is None else str(error.filename)
        return Error(error.strerror.lower(), name, "Check the name and your access rights" if name else None)
    frames = reversed(traceback.extract_tb(error.__traceback__))
    ours = (entry for entry in frames if "pyapp" in Path(entry.filename).parts)
    where = next((f"{Path(entry.filename).name}:{entry.lineno}" for entry in ours), None)
    return Error(f"unexpected {type(error).__name__}: {error}", where, hint=REPORT)


@dataclass(frozen=True)
class Result(Generic[T]):
    """What a stream of events was for; its last item."""

    value: T


class Breath:
    """Lets the event loop run now and then."""

    def __init__(self) -> None:
        self._last = 0.0

    async def take(self) -> None:
        if time.perf_counter() - self._last >= BREATH:
            await asyncio.sleep(0)
            self._last = time.perf_counter()


async def reported(work: Callable[[Callable[[Event], None]], T]) -> AsyncGenerator[Event | Result[T], None]:
    """Runs blocking `work(report)` in a thread; yields what it reports, and its Result at last.

    In the page, which has no threads, the reports come when the work is over.
    """
    if sys.platform == "emscripten":
        events: list[Event] = []
        result = work(events.append)
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
    while (event := await queue.get()) is not None:
        yield event
    yield Result(await running)


class Keeper:
    """Keeps the model that was used last, so that the next text starts at once."""

    def __init__(self) -> None:
        self._key: object = None
        self._model: LoadedModel | None = None

    def drop(self) -> None:
        self._key = self._model = None

    async def get(
        self, source: Any, tokenizer: Any, key: object, cancel: Cancel
    ) -> AsyncGenerator[Event | Result[LoadedModel], None]:
        """The events of loading, where it is needed, and the model; without source, the first of hub.models()."""
        if source is None:
            from pyapp import hub

            source = hub.models()[0].id
        key = identity(source, tokenizer) if key is None else key
        if self._model is None or key is None or key != self._key:
            self.drop()  # before the new one needs the memory
            from pyapp.models import load_model

            start = time.perf_counter()

            def work(report: Callable[[Event], None]) -> LoadedModel:
                return load_model(source, tokenizer, report=report, cancel=cancel)

            try:
                async with aclosing(reported(work)) as events:
                    async for event in events:
                        if isinstance(event, Result):
                            self._key, self._model = key, event.value
                        else:
                            yield event
            except (GeneratorExit, asyncio.CancelledError):
                cancel.set()  # the thread would go on
                raise
            yield Metric("load_time", time.perf_counter() - start, "s")
        assert self._model is not None
        yield Result(self._model)


def identity(source: Any, tokenizer: Any) -> object:
    """What tells whether a model is the one that was loaded before; None where that cannot be told."""
    marks: list[object] = []
    for part in (source, tokenizer):
        if part is None:
            marks.append(None)
        elif isinstance(part, (str, os.PathLike)):
            path = Path(part)
            status = path.stat() if path.exists() else None
            marks.append((os.fspath(part), status and (status.st_mtime_ns, status.st_size)))
        else:
            return None
    return tuple(marks)


_keeper = Keeper()


def unload() -> None:
    """Forgets the model that was used last and gives its memory back."""
    _keeper.drop()


@task
async def load(model: Any = None, *, tokenizer: Any = None, key: object = None, cancel: Cancel | None = None) -> Events:
    """Loads a model (as for `generate`) ahead of its first use. Done carries `name` and `config`."""
    async with aclosing(_keeper.get(model, tokenizer, key, cancel or Cancel())) as events:
        async for event in events:
            if isinstance(event, Result):
                yield Done("complete", {"name": event.value.name, "config": event.value.config})
            else:
                yield event


@task
async def generate(
    model: Any = None,
    prompt: str = "",
    options: SamplingOptions | Mapping[str, Any] | None = None,
    *,
    tokenizer: Any = None,
    key: object = None,
    eager: bool = False,
    cancel: Cancel | None = None,
) -> Events:
    """Continues `prompt`: Progress and the Metric load_time while the model is loaded, then the events of
    pyapp.text.generate.generate.

    `model` is a name, a path, bytes, a ByteSource or a LoadedModel; None: the embedded one. `tokenizer` likewise, if it
    does not lie beside the model. `key` tells models apart that have no name; the model used last is kept. `options`
    may be a dict of JSON values. `eager` runs without Graph, for reference.
    """
    from pyapp.text.generate import Session
    from pyapp.text.generate import generate as generate_events

    cancel = cancel or Cancel()
    if not isinstance(options, SamplingOptions):
        options = SamplingOptions.from_dict(options or {})
    loaded = model
    if not hasattr(model, "tokenizer"):
        async with aclosing(_keeper.get(model, tokenizer, key, cancel)) as events:
            async for event in events:
                if isinstance(event, Result):
                    loaded = event.value
                else:
                    yield event
    breath = Breath()
    await breath.take()
    session = Session(loaded.model, eager=eager)
    for event in generate_events(session, loaded.tokenizer, prompt, options, cancel):
        yield event
        await breath.take()


@task
async def inspect(source: Any) -> Events:
    """What a model file holds, from its header: Done carries `file format size config metadata tensors totals`."""
    from pyapp import formats

    yield Done("complete", formats.inspect(source))


@task
async def models() -> Events:
    """The models that have a name: Done carries `models`, a list of dicts."""
    from pyapp import hub

    yield Done("complete", {"models": [entry.to_dict() for entry in hub.models()]})


@task
async def train_story(
    out: str | os.PathLike[str], *, resume: bool = True, cancel: Cancel | None = None, **settings: Any
) -> Events:
    """Trains the story model in the folder `out`: the events of pyapp.train.train_story, whose settings these are.

    Without `resume`, a run that was begun in `out` is put aside and another one begins.
    """
    from pyapp.train import train_story as train

    async with aclosing(_trained(train, out, resume, cancel, settings)) as events:
        async for event in events:
            yield event


@task
async def train_speech(
    out: str | os.PathLike[str], *, resume: bool = True, cancel: Cancel | None = None, **settings: Any
) -> Events:
    """Trains the speech model in the folder `out`, as train_story does: the events of pyapp.train.train_speech."""
    from pyapp.train import train_speech as train

    async with aclosing(_trained(train, out, resume, cancel, settings)) as events:
        async for event in events:
            yield event


async def _trained(
    train: Callable[..., Iterator[Event]], out: str | os.PathLike[str], resume: bool, cancel: Cancel | None,
    settings: Mapping[str, Any],
) -> Events:  # fmt: skip
    from pyapp.train.loop import CHECKPOINT

    checkpoint = Path(out) / CHECKPOINT
    if not resume and checkpoint.exists():
        checkpoint.replace(checkpoint.with_suffix(".previous"))
    breath = Breath()
    for event in train(out, cancel=cancel or Cancel(), **settings):
        yield event
        await breath.take()


def set_threads(threads: int) -> None:
    """How many threads the kernels use, 1 to 64. Raises OptionError."""
    check_number("threads", threads, 1, 64, whole=True)
    from pyapp.engine import set_num_threads

    set_num_threads(threads)
