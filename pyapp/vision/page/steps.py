"""Work that can be stopped: generators that yield which share of it is done, 0 to 1, every few hundredths of a second
(longer in a browser), and return its result.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[float, None, T]

BAND = 1 << 21  # pixels of a page that are worked on at a time
SOME = 1 << 17  # runs of pixels, or pairs of them, that are


def finished(steps: Steps[T]) -> T:
    """The result of steps that nobody stops."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: T = end.value
            return result


def within(steps: Steps[T], first: float, last: float) -> Steps[T]:
    """Steps as a part of others, from one share of these to another."""
    while True:
        try:
            share = next(steps)
        except StopIteration as end:
            result: T = end.value
            return result
        yield first + (last - first) * share


def bands(height: int, width: int, multiple: int = 1) -> Iterator[tuple[int, int]]:
    """The first row and the row after the last of parts of a page; their heights are multiples, but for the last."""
    rows = max(1, BAND // max(1, width) // multiple) * multiple
    for first in range(0, height, rows):
        yield first, min(height, first + rows)


def parts(count: int) -> Iterator[slice]:
    """Parts of `count` items that are worked on at a time."""
    for first in range(0, count, SOME):
        yield slice(first, min(count, first + SOME))
