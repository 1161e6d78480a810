"""The adapter between the Lab's worker (web/lab-worker.js) and the cells. Outputs cross as JSON."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from . import completion
from .cells import Session
from .drawing import field_of

HOME = "/lab"  # the folder of the notebook's files

_session: Session | None = None
_send: Callable[[str], None] | None = None


def start() -> None:
    """Makes an empty namespace, and the folder of the notebook's files the current one."""
    global _session
    os.makedirs(HOME, exist_ok=True)
    os.chdir(HOME)
    sys.path.insert(0, HOME)  # cells import scripts among the files
    _session = Session(lambda output: _send(json.dumps(output)) if _send else None)


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
