"""Runs the application with uvicorn: the log in JSON, signals, the end."""

from __future__ import annotations

import asyncio
import errno
import faulthandler
import json
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from math import ceil
from typing import Any

import uvicorn

from pyapp.distributed.leading import Leader
from pyapp.engine.storage import share_heap
from pyapp.errors import PyappError

from .app import make_app
from .connections import KEEP_ALIVE, timely
from .context import Context
from .settings import Settings
from .tls import check_tls

try:
    import resource
except ImportError:  # Windows has no limit of open files that a process could raise
    resource = None  # type: ignore[assignment]

log = logging.getLogger("pyapp.serve")
WS_MESSAGE = 16 << 20  # bytes of a message of a websocket: OpenAI's limit of a buffer of sound
SIGNALS = (signal.SIGINT, signal.SIGTERM)
MORE_FILES = 1024  # open ones besides the connections: models, uploads, and connections that are refused
NO_FILES = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)  # why a connection cannot be opened
TOLD_SECONDS = 10.0  # between two lines of the log that say so


class JsonLines(logging.Formatter):
    """One JSON object a line: time, level, event, the logger of another library, and the fields of the record."""

    def format(self, record: logging.LogRecord) -> str:
        found: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(), "event": record.getMessage(), **getattr(record, "fields", {}),
        }  # fmt: skip
        if record.name.partition(".")[0] != "pyapp":
            found["logger"] = record.name
        if record.exc_info:
            found["traceback"] = self.formatException(record.exc_info)
        return json.dumps(found, ensure_ascii=False)


def log_as_json(verbose: bool = False) -> None:
    """Sends the log of the server to stderr, and what other libraries warn of, but for asyncio: its warnings say only
    that a client has left, at each further write.
    """
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    handler.addFilter(_is_no_end)
    own = logging.DEBUG if verbose else logging.INFO
    uvicorns = logging.DEBUG if verbose else logging.WARNING
    for name, level in (
        ("", logging.WARNING), ("pyapp.serve", own), ("uvicorn", uvicorns), ("asyncio", logging.ERROR)
    ):  # fmt: skip
        logger = logging.getLogger(name)
        logger.handlers, logger.propagate = [handler], False
        logger.setLevel(level)


def _is_no_end(record: logging.LogRecord) -> bool:
    """False for the traceback that starlette reports when a second signal cancels its waiting for the end."""
    return not record.getMessage().rstrip().endswith("asyncio.exceptions.CancelledError")


class Server(uvicorn.Server):
    """A server whose first signal lets running requests end, and whose second one ends it at once."""

    def __init__(self, config: uvicorn.Config, context: Context) -> None:
        super().__init__(config)
        self._context = context
        self.code = 0

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """As uvicorn's, but the signal is not raised again at the end: a server that was told to end has not failed."""
        loop = asyncio.get_running_loop()
        if os.name == "nt":  # its event loops take no handlers
            before = [signal.signal(number, lambda *_: self._on_signal()) for number in SIGNALS]
        else:
            for number in SIGNALS:
                loop.add_signal_handler(number, self._on_signal)
        try:
            yield
        finally:
            if os.name == "nt":
                for number, handler in zip(SIGNALS, before, strict=True):
                    signal.signal(number, handler)
            else:
                for number in SIGNALS:
                    loop.remove_signal_handler(number)

    def _on_signal(self) -> None:
        if self.should_exit:
            self.force_exit = True
        else:
            log.info("ending", extra={"fields": {"in_flight": self._context.in_flight}})
        self._context.draining = True
        self.should_exit = True

    async def startup(self, sockets: Any = None) -> None:
        await super().startup(sockets)
        scheme = "https" if self.config.is_ssl else "http"
        for server in getattr(self, "servers", []):
            for listening in server.sockets:
                host, port = listening.getsockname()[:2]
                host = f"[{host}]" if ":" in host else host
                log.info("listening", extra={"fields": {"url": f"{scheme}://{host}:{port}"}})


class ListenError(Exception):
    """The port is taken, or not for this user: the system's reason."""


def both_families(settings: Settings) -> list[socket.socket] | None:
    """The socket of the host "::", on which IPv4's connections come too: asyncio's own takes those of IPv6 alone. None
    for other hosts, and where a socket cannot do so.
    """
    if settings.host != "::" or not socket.has_dualstack_ipv6():
        return None
    try:
        return [socket.create_server(("::", settings.port), family=socket.AF_INET6, dualstack_ipv6=True)]
    except OSError as error:
        raise ListenError(f": {error.strerror}" if error.strerror else "") from error


def allow_files(number: int) -> None:
    """Raises the process's limit of open files to so many, as far as the system lets it."""
    if resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = number if hard == resource.RLIM_INFINITY else min(number, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):  # macOS has a limit that it does not tell
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


class LoopErrors:
    """Takes the errors of the event loop. Where no more files may be open, asyncio reports each connection that waits,
    thousands of times a second: the log has one line for them in ten seconds.
    """

    def __init__(self) -> None:
        self._told = -TOLD_SECONDS

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in NO_FILES:
            now = time.monotonic()
            if now - self._told >= TOLD_SECONDS:
                self._told = now
                hint = "raise the limit of open files (ulimit -n) or lower --connections"
                log.error("connections wait", extra={"fields": {"why": error.strerror, "hint": hint}})
        elif "_start_serving" not in context["message"]:  # of a socket that was closed while connections waited
            loop.default_exception_handler(context)


def run(
    settings: Settings, *, certificate: str | None = None, private_key: str | None = None, verbose: bool = False,
    leader: Leader | None = None,
) -> int:  # fmt: skip
    """Serves until a signal; returns the exit code. PyappError for a model that cannot be loaded. `leader`: of the
    processes that compute language models together.
    """
    check_tls(certificate, private_key)
    log_as_json(verbose)
    with suppress(RuntimeError, ValueError, OSError):  # stderr may be no file
        faulthandler.enable()  # says why the process dies, as when the file of a model is cut short while it is read
    allow_files(settings.connections + MORE_FILES)
    share_heap()  # uploads and texts pass through many threads
    context = Context(settings, leader)
    failed: list[Exception] = []

    def end(error: Exception | None = None) -> None:
        server.should_exit, server.code = True, 1
        if error is not None:
            failed.append(error)

    loop: list[asyncio.AbstractEventLoop] = []
    context.engine.on_death = lambda: loop[0].call_soon_threadsafe(end)
    config = uvicorn.Config(
        make_app(context, end), host=settings.host, port=settings.port, log_config=None, access_log=False,
        http=timely(settings.read_seconds), ws="websockets-sansio", ws_max_size=WS_MESSAGE, server_header=False,
        timeout_keep_alive=KEEP_ALIVE, timeout_graceful_shutdown=max(ceil(settings.grace), 0),
        ssl_certfile=certificate, ssl_keyfile=private_key,
    )  # fmt: skip
    server = Server(config, context)
    context.connections = lambda: len(server.server_state.connections)

    async def serve() -> None:
        loop.append(asyncio.get_running_loop())
        loop[0].set_exception_handler(LoopErrors())
        await server.serve(both_families(settings))

    try:
        asyncio.run(serve())
    except (SystemExit, ListenError) as error:  # uvicorn, which cannot listen, has said why in the log
        reason = error if isinstance(error, ListenError) else ""
        raise PyappError(
            f"cannot listen on port {settings.port}{reason}", where=settings.host,
            hint="Choose another --port or --host",
        ) from None  # fmt: skip
    if failed:
        raise failed[0]
    return server.code
