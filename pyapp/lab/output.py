"""Where the outputs of a cell go: to the page if the Lab runs, else as text to the standard output.

An output is a dict of JSON values with a `kind`. One with the `id` of an earlier output of its cell replaces that one.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping
from typing import Any

Send = Callable[[Mapping[str, Any]], None]

_send: Send | None = None
_numbers = itertools.count(1)
_later: dict[str, Callable[[], None]] = {}


def send_to(send: Send | None) -> None:
    """Sends outputs to the page from now on; None: prints them."""
    global _send
    _send = send


def in_page() -> bool:
    """Whether outputs are shown by the page."""
    return _send is not None


def new_id() -> str:
    """The name of an output that will be replaced by newer ones."""
    return f"output-{next(_numbers)}"


def show_later(name: str, draw: Callable[[], None] | None) -> None:
    """Calls `draw` when the cell ends, if it is still the newest of that name; None: there is nothing left to draw."""
    if draw is None:
        _later.pop(name, None)
    else:
        _later[name] = draw


def show_rest() -> None:
    """What `show_later` has kept: at the end of a cell, whether it is complete, failed or was stopped."""
    while _later:
        _later.popitem()[1]()


def show(output: Mapping[str, Any], text: str) -> None:
    """Shows `output` in the page, or prints `text`. What was printed before comes first."""
    if _send is None:
        print(text)
        return
    sys.stdout.flush()
    _send({**output, "text": text})
