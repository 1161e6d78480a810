"""Automatic names: dense, dense_1, dense_2, …"""

from __future__ import annotations

import re

from ..engine.thread_local import ThreadLocal

__all__ = ["clear_names", "snake_case", "unique_name"]


class _Thread(ThreadLocal):
    counts: dict[str, int] | None = None  # how often each name was given


_thread = _Thread()


def snake_case(name: str) -> str:
    """glorot_uniform of GlorotUniform, conv2d of Conv2D."""
    return re.sub(r"(?<=.)(?=[A-Z][a-z])|(?<=[a-z])(?=[A-Z])", "_", name).lower()


def clear_names() -> None:
    """Starts the numbers of automatic names again."""
    _thread.counts = {}


def unique_name(kind: str) -> str:
    """dense, dense_1, dense_2, … for the class name Dense."""
    base = snake_case(kind)
    if _thread.counts is None:
        _thread.counts = {}
    number = _thread.counts[base] = _thread.counts.get(base, -1) + 1
    return f"{base}_{number}" if number else base
