"""Runs the task of a command: its events go to a view, Ctrl-C ends it, its end gives the exit code."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from pyapp.cli.streams import silence
from pyapp.cli.views import ItemsView, JsonView, View
from pyapp.events import Cancel
from pyapp.interrupts import STOPPED

READER_LEFT = 141


def check_folder_of(path: Path, wrong: Callable[[str], Exception]) -> None:
    """Wrong usage before minutes of work whose result could not be written."""
    if not path.parent.is_dir():
        raise wrong(f"there is no folder {str(path.parent)!r} to write to.")
    special = path.exists() and not path.is_file()  # a device or a pipe, which no new file replaces
    if not os.access(path if special else path.parent, os.W_OK):
        raise wrong(f"{str(path)!r} cannot be written to: take another folder, or change its access rights.")


def forward(start: Callable[..., Any], view: View, *, keeps_state: bool = False) -> int:
    """Shows every event of the task start(cancel=…); returns the exit code. keeps_state is set_by_interrupt's."""

    async def show_all() -> None:
        async for event in start(cancel=cancel):
            view.show(event)

    cancel = Cancel()
    try:
        with cancel.set_by_interrupt(keeps_state=keeps_state):
            asyncio.run(show_all())
    except BrokenPipeError:  # click would call this a plain error
        silence(sys.stdout)
        return READER_LEFT
    finally:
        view.close()
    return {"error": 1, "cancelled": STOPPED}.get(view.outcome, 0)


def forward_items(start: Callable[..., Any], as_json: bool, lines: Callable[[int, Any], Sequence[str]]) -> int:
    """As forward, of a task that yields Items: shows the lines of each, by its index and values, or JSON."""
    return forward(start, JsonView() if as_json else ItemsView(lines))


def refuse_a_text(model: str | None, hint: str) -> None:
    """Wrong usage, with a hint, where a text stands in the place of a model's name."""
    if model is not None and len(model.split()) > 1 and not Path(model).exists():
        raise click.UsageError(f"{model!r:.80} is no model's name. {hint}")


def model_or_server(model: str | None, server: str | None) -> Any:
    """What the tasks take as `model`: the name, or the server's model of this name."""
    if server is None:
        return model
    from pyapp.serve.client import Server

    return Server(server, model=model)
