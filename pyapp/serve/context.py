"""What the routes share: settings, engine, models, metrics, and the reading of bodies."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from tempfile import gettempdir
from typing import Any, TypeVar
from urllib.parse import urlsplit

from starlette.datastructures import FormData, Headers, UploadFile
from starlette.formparsers import MultiPartException, MultiPartParser
from starlette.requests import Request
from starlette.responses import Response

from pyapp.distributed.leading import Leader
from pyapp.engine.storage import default_pool, release_memory

from .answers import Deliveries
from .engine import Engine
from .fields import parse_object
from .metrics import Metrics
from .problems import Problem
from .response_store import ResponseStore
from .served import Models, ServedModel
from .settings import Settings
from .spoken_texts import SpokenTexts

log = logging.getLogger("pyapp.serve")
T = TypeVar("T")
PICTURE_BYTES = 1 << 30  # of the pictures, as models read them, of all requests that wait or run
Handler = Callable[[Request, "Context"], Coroutine[Any, Any, Response]]
ASIDE = 4  # threads
JSON_TYPES = ("application/json", "")


class Context:
    """The server's state. Threads `aside` split texts into tokens and compile forms, so that the event loop and the
    engine go on, and a long text does not stop a short one.
    """

    def __init__(self, settings: Settings, leader: Leader | None = None) -> None:
        self.settings = settings
        self.engine = Engine(tidy=release_memory, blocks=default_pool)
        self.models = Models(settings, self.engine, leader)
        self.responses = ResponseStore(settings.response_bytes)
        self.spoken_texts = SpokenTexts()
        self.metrics = Metrics(self.engine, self.models, lambda: self.in_flight, lambda: self.responses.nbytes)
        self.connections: Callable[[], int] = lambda: 0  # that are open; the server knows
        self.draining = False
        self.in_flight = self.bytes_of_pictures = 0
        self.answering = 0  # requests of any kind, until the last byte of the answer is sent
        self.tokens_in_flight = 0
        self._aside = ThreadPoolExecutor(ASIDE, thread_name_prefix="aside")
        self._deliveries: Deliveries | None = None

    @property
    def deliveries(self) -> Deliveries:
        """Those to the event loop that runs."""
        loop = asyncio.get_running_loop()
        if self._deliveries is None or self._deliveries.loop is not loop:
            self._deliveries = Deliveries(loop)
        return self._deliveries

    async def aside(self, function: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._aside, function)

    def admit(self, count: int = 1, tokens: int = 0, pictures: int = 0) -> None:
        """Problem 429 for more requests, or more tokens of prompts, or more bytes of pictures than may wait."""
        settings = self.settings
        busy = None
        if self.in_flight + count > settings.queue:
            busy = f"{self.in_flight} requests wait or run; at most {settings.queue} may"
        elif self.tokens_in_flight and self.tokens_in_flight + tokens > settings.queue_tokens:
            busy = f"prompts of {self.tokens_in_flight:,} tokens wait or run; at most {settings.queue_tokens:,} may"
        elif self.bytes_of_pictures and self.bytes_of_pictures + pictures > PICTURE_BYTES:
            busy = f"pictures of {self.bytes_of_pictures >> 20:,} MiB wait or run; at most {PICTURE_BYTES >> 20:,} may"
        if busy:
            raise Problem(busy, status=429, code="rate_limit_exceeded", headers={"Retry-After": "1"})

    async def model(self, request: Request, name: str | None, *tasks: str) -> ServedModel:
        """The model that a request names (see Models.get), also in its path, which the log then names, too."""
        name = name or request.path_params.get("name")
        found = await self.models.get(name, *tasks, receive=request.receive)
        request.scope["pyapp.log"]["model"] = found.name
        return found

    def check_length(self, texts: Sequence[str], param: str) -> None:
        """Problem for texts of a field that have too many characters together, or half a surrogate pair."""
        most = self.settings.prompt_characters
        length = sum(map(len, texts))
        if length > most:
            raise Problem(
                f"{param}: {length:,} characters are too long; at most {most:,} are read", param=param,
                code="context_length_exceeded",
            )  # fmt: skip
        for text in texts:
            try:
                text.encode()
            except UnicodeEncodeError as error:
                raise Problem(
                    f"{param}: character {error.start} is half of a surrogate pair", param=param, code="invalid_utf8"
                ) from None

    def close(self) -> None:
        self.engine.stop()
        self._aside.shutdown(wait=False, cancel_futures=True)

    # -- bodies

    async def json(self, request: Request, typed: bool = True) -> dict[str, Any]:
        """The object in a request's body. `typed` False: its type may be any, such as curl's, unless a page of another
        site sends it, which browsers allow for some types without asking.
        """
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind not in JSON_TYPES and (typed or is_foreign(request.headers, self.settings)):
            raise Problem(f"the body must be application/json, not {kind:.60}", status=415)
        return parse_object(await self.body(request))

    async def body(self, request: Request) -> bytes:
        data = bytearray()
        async for part in self._body(request):
            data += part
        return bytes(data)

    async def form(self, request: Request, files: int = 1) -> FormData:
        """The fields and files of a multipart request; at most so many files."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "multipart/form-data":
            raise Problem(f"the body must be multipart/form-data, not {kind or 'untyped':.60}", status=415)
        try:
            parser = MultiPartParser(
                Headers(raw=request.headers.raw), self._body(request), max_files=files, max_fields=64,
                max_part_size=1 << 20,
            )  # fmt: skip
            return await parser.parse()
        except (MultiPartException, KeyError, ValueError) as error:
            message = getattr(error, "message", None) or str(error)
            raise Problem(f"the body is not a valid form: {message:.200}", code="invalid_form") from None
        except OSError as error:  # a file above 1 MiB is written to the folder for temporary files
            log.error("a file cannot be kept", extra={"fields": {"why": str(error), "folder": gettempdir()}})
            raise Problem(
                "there is no room for the file now: try again later, or send a smaller one", status=503, param="file",
                code="no_room", headers={"Retry-After": "5"},
            ) from None  # fmt: skip

    async def _body(self, request: Request) -> AsyncGenerator[bytes, None]:
        """The parts of the body; Problem for too much of it, and for one that comes too slowly."""
        most, seconds = self.settings.body_bytes, self.settings.read_seconds
        too_much = Problem(f"the body has more than {most:,} bytes", status=413, code="body_too_large",
                           headers={"Connection": "close"})  # fmt: skip
        try:
            if int(request.headers.get("content-length", 0)) > most:
                raise too_much
        except ValueError:
            raise Problem("the Content-Length is not a number") from None
        encoding = request.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", ""):
            raise Problem(f"the body is encoded as {encoding:.60}: send it as it is", status=415)
        got = 0
        try:
            async with asyncio.timeout(seconds):
                async for part in request.stream():
                    got += len(part)
                    if got > most:
                        raise too_much
                    yield part
        except TimeoutError:
            raise Problem(
                f"the body did not arrive within {seconds:g} s", status=408, code="timeout",
                headers={"Connection": "close"},
            ) from None  # fmt: skip


def is_foreign(headers: Headers, settings: Settings) -> bool:
    """Whether a page of another site asks, which the settings do not allow."""
    origin = headers.get("origin")
    if origin is None or urlsplit(origin).netloc == headers.get("host"):
        return False
    return not {origin, "*"} & {*settings.origins}


def upload_of(form: FormData, name: str) -> UploadFile:
    """The file of a form's field. Problem if it is none."""
    value = form.get(name)
    if not isinstance(value, UploadFile):
        raise Problem(f"{name}: must be a file", param=name, code="missing_required_parameter")
    return value
