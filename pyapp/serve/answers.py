"""From the engine's thread to the event loop: the events of a request, its end, and a client that leaves."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager, suppress
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from pyapp.events import Cancel, Done, Error, Event

from .problems import Problem

DONE = "data: [DONE]\n\n"  # the last line of OpenAI's streams
_encode = json.JSONEncoder(ensure_ascii=False).encode  # json.dumps would make an encoder for each token


def data_line(value: dict[str, Any]) -> str:
    """A server-sent event whose data is JSON."""
    return f"data: {_encode(value)}\n\n"


def typed_event(type: str, **values: Any) -> str:
    """As data_line, of an event that is named by its type."""
    return f"event: {type}\n{data_line({'type': type, **values})}"


class Deliveries:
    """Calls of functions on the event loop, posted by other threads. What is posted while the loop is busy is called in
    one go: to wake the loop for each event of each text would cost a system call every time.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._posted: deque[tuple[Callable[[Any], Any], Any]] = deque()
        self._awake = False

    def post(self, function: Callable[[Any], Any], value: Any) -> bool:
        """Whether function(value) will be called: not if the loop is closed, as the server has ended."""
        self._posted.append((function, value))
        if not self._awake:
            self._awake = True
            try:
                self.loop.call_soon_threadsafe(self._deliver)
            except RuntimeError:
                return False
        return True

    def _deliver(self) -> None:
        self._awake = False  # before the last look: what is posted after it wakes the loop again
        while self._posted:
            function, value = self._posted.popleft()
            function(value)


class Answer:
    """The events of one request. `emit` may be called by any thread; closing the stream cancels the work."""

    def __init__(self, deliveries: Deliveries) -> None:
        self._deliveries = deliveries
        self._queue: asyncio.Queue[Event] = asyncio.Queue()
        self.cancel = Cancel()

    def emit(self, event: Event) -> None:
        if not self._deliveries.post(self._queue.put_nowait, event):
            self.cancel.set()

    async def events(self) -> AsyncGenerator[Event, None]:
        """The events up to Done or Error."""
        try:
            while True:
                event = await self._queue.get()
                yield event
                if isinstance(event, Done | Error):
                    return
        finally:
            self.cancel.set()


async def wait_for_leaving(receive: Callable[[], Awaitable[Any]]) -> None:
    """Returns when the client has closed the connection. The body has been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


@asynccontextmanager
async def cancelled_by_leaving(request: Request, leave: Callable[[], None], seconds: float) -> AsyncIterator[None]:
    """A context in which `leave` is called when the client leaves, and at the end. Problem 504 after so many
    seconds.
    """

    async def watch() -> None:
        await wait_for_leaving(request.receive)
        leave()

    watching = asyncio.ensure_future(watch())
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise timed_out(seconds) from None
    finally:
        leave()
        watching.cancel()


def timed_out(seconds: float) -> Problem:
    return Problem(f"the answer took more than {seconds:g} s", status=504, code="timeout")


def server_ends() -> Problem:
    """The problem of a request that runs when the server ends."""
    return Problem("the server ends", status=503, code="server_ends", headers={"Retry-After": "5"})


class EventStream(Response):
    """Server-sent events: the texts that `source` gives, comments while nothing comes, an end when the client leaves.
    The answer begins with the first of them: an error before that has a status (`refused` makes the answer, where it is
    set). `broken` gives the last text after a later one; with None the connection is cut, so that nobody takes the
    answer for a whole one. `ended` is called at the end, whatever it was.
    """

    media_type = "text/event-stream"
    comment: str | None = ": ping\n\n"
    refused: Callable[[Exception], Response] | None = None

    def __init__(
        self, source: AsyncGenerator[str | bytes, None] | AsyncGenerator[str, None] | AsyncGenerator[bytes, None],
        broken: Callable[[Exception], str | None], ended: Callable[[], None], seconds: float, ping: float,
    ) -> None:  # fmt: skip
        super().__init__(headers={"cache-control": "no-cache", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._source, self._broken, self._seconds, self._ping = source, broken, seconds, ping
        self._ended = ended
        self._begun = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        sending = asyncio.ensure_future(self._send(scope, receive, send))
        leaving = asyncio.ensure_future(wait_for_leaving(receive))
        try:
            done, _ = await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED, timeout=self._seconds)
            late = None if done else timed_out(self._seconds)
        except asyncio.CancelledError:  # the server was told to end, and its grace is over
            late = server_ends()
        finally:
            for task in (sending, leaving):
                task.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            self._ended()
        if late is not None:
            with suppress(TimeoutError):  # the client may not read
                async with asyncio.timeout(1):
                    await self._end_with(late, scope, receive, send)

    async def _end_with(self, error: Exception, scope: Any, receive: Any, send: Any) -> None:
        """The end of the answer after an error, or the whole of it. Nothing where the connection is to be cut."""
        if not self._begun and self.refused is not None:
            await self.refused(error)(scope, receive, send)
        elif (text := self._broken(error)) is not None:
            await self._write(text.encode("utf-8", "replace"), False, send)

    async def _write(self, data: bytes, more: bool, send: Any) -> None:
        if not self._begun:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            self._begun = True
        await send({"type": "http.response.body", "body": data, "more_body": more})

    async def _send(self, scope: Any, receive: Any, send: Any) -> None:
        now = asyncio.get_running_loop().time
        written = now()

        async def write(text: str | bytes, more: bool = True) -> None:
            nonlocal written
            await self._write(text if isinstance(text, bytes) else text.encode("utf-8", "replace"), more, send)
            written = now()

        async def ping(comment: str) -> None:
            while True:
                await asyncio.sleep(written + self._ping - now())
                if now() - written >= self._ping:
                    await write(comment)

        async with aclosing(self._source) as source:
            pinging = None if self.comment is None else asyncio.ensure_future(ping(self.comment))
            try:
                async for text in source:
                    await write(text)
            except Exception as error:
                if pinging is not None:
                    pinging.cancel()
                await self._end_with(error, scope, receive, send)
                return
            finally:
                if pinging is not None:
                    pinging.cancel()
            await write("", more=False)


class ArrayStream(EventStream):
    """A JSON array in pieces, with a line break while nothing comes. An array without an end means an error."""

    media_type = "application/json"
    comment = "\n"
