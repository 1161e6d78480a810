"""torch.serialization: saving and loading, and the list of classes that torch's files may hold."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from .formats.torch_files import load, save

DEFAULT_PROTOCOL = 2  # of pickles in torch's files
MAP_LOCATION = Any
_SAFE: list[Any] = []


def add_safe_globals(safe_globals: Sequence[Callable[..., Any] | tuple[Callable[..., Any], str]]) -> None:
    """Adds to the list that get_safe_globals() gives. `load` makes no objects of classes, whether they are in it or
    not: it refuses such files.
    """
    _SAFE.extend(one for one in safe_globals if one not in _SAFE)


def get_safe_globals() -> list[Any]:
    """What was added."""
    return list(_SAFE)


def clear_safe_globals() -> None:
    """Empties the list."""
    _SAFE.clear()


@contextmanager
def safe_globals(safe_globals: Sequence[Any]) -> Iterator[None]:
    """add_safe_globals for a region."""
    before = list(_SAFE)
    add_safe_globals(safe_globals)
    try:
        yield
    finally:
        _SAFE[:] = before


__all__ = [
    "DEFAULT_PROTOCOL", "MAP_LOCATION", "add_safe_globals", "clear_safe_globals", "get_safe_globals", "load",
    "safe_globals", "save",
]  # fmt: skip
