"""The adapter between the Lab's worker (web/lab-worker.js) and the cells. Outputs cross as JSON."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Protocol

from pyapp.errors import DownloadError, OptionError
from pyapp.hub import registry

from . import completion, packages
from .cells import Session
from .drawing import field_of

HOME = "/lab"  # the folder of the notebook's files

_session: Session | None = None
_send: Callable[[str], None] | None = None


class Host(packages.Host, Protocol):
    """The worker: `read(path)` gives a file of the site as JavaScript's bytes. Where the page is isolated, `ask()`
    waits for a line of the reader, and `sleep(seconds)` until then, or until Stop.
    """

    def read(self, path: str) -> Any: ...
    def ask(self) -> str | None: ...
    def sleep(self, seconds: float) -> None: ...


_host: Host | None = None


def connect(host: Host) -> None:
    global _host
    _host = host
    packages.connect(host)
    registry.fetch_embedded_by(_read)
    if getattr(host, "sleep", None) is not None:
        time.sleep = _sleep  # Python's own does not see Stop here


def _read(path: str) -> bytes:
    """A file of the site, for models that the page embeds. DownloadError if it does not come."""
    assert _host is not None
    data = _host.read(path)
    if data is None:
        raise DownloadError("the page does not have this file", where=path, hint="Check your connection")
    found: bytes = data.to_bytes()
    return found


def _sleep(seconds: Any, /) -> None:
    """time.sleep, which Stop ends."""
    assert _host is not None
    if seconds < 0:
        raise ValueError("sleep length must be non-negative")
    end = time.monotonic() + seconds
    while (left := end - time.monotonic()) > 0:
        _host.sleep(left)  # returns early after Stop: Python raises KeyboardInterrupt in this loop


def _ask() -> str | None:
    ask = getattr(_host, "ask", None)
    if ask is None:
        raise OptionError(
            "input() needs a page that is cross-origin isolated, which this host or browser does not allow",
            where="input", hint="Write the value into the cell",
        )  # fmt: skip
    answer: str | None = ask()
    return answer


def start() -> None:
    """Makes an empty namespace, and the folder of the notebook's files the current one."""
    global _session
    os.makedirs(HOME, exist_ok=True)
    os.chdir(HOME)
    if HOME not in sys.path:
        sys.path.insert(0, HOME)  # cells import scripts among the files
    for name, module in list(sys.modules.items()):
        if (getattr(module, "__file__", None) or "").startswith(f"{HOME}/"):
            del sys.modules[name]  # of the notebook before
    _session = Session(lambda output: _send(json.dumps(output)) if _send else None, _ask)


def session() -> Session:
    if _session is None:
        raise RuntimeError("the Lab's worker was not started")
    return _session


def files_changed() -> None:
    """The page has put files into the folder: imports look for modules again."""
    importlib.invalidate_caches()


async def run(source: str, name: str, send: Callable[[str], None]) -> str:
    """Runs a cell; see Session.run."""
    global _send
    _send = send
    try:
        return await session().run(source, name)
    finally:
        _send = None


async def drawn(identity: str, pixels: Any, send: Callable[[str], None]) -> str:
    """Gives the pixels of a field to its Drawing, and shows what that answers. "gone": Python was restarted since."""
    global _send
    field = field_of(identity)
    if field is None:
        return "gone"
    _send = send
    try:
        return await session().call(field.draw, pixels.to_py())
    finally:
        _send = None


def stop() -> None:
    session().stop()


def complete(text: str) -> str:
    return json.dumps(completion.completions(text, session().namespace))


def signature(text: str) -> str:
    return json.dumps(completion.signature(text, session().namespace))
