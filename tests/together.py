"""Many small checks as one test: for those, pytest itself takes longer than the check, above all in a browser."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from typing import Any, TypeVar

IN_BROWSER = sys.platform == "emscripten"
Case = TypeVar("Case")


def fewer_in_browser(cases: Iterable[Case], every: int = 3) -> Sequence[Case]:
    """All cases natively. In a browser, where the same Python takes five times the time, one of `every` cases."""
    return list(cases)[:: every if IN_BROWSER else 1]


def spread(cases: Sequence[Case], most: int) -> Sequence[Case]:
    """At most so many cases, from 2 on: the first, the last, and those at even distances between them."""
    if len(cases) <= most:
        return cases
    return [cases[i * (len(cases) - 1) // (most - 1)] for i in range(most)]


def examples(count: int) -> int:
    """As many of Hypothesis' examples natively; in a browser, where the same Python runs, a sixth."""
    return max(count // 6, 8) if IN_BROWSER else count


def check_each(check: Callable[..., object], cases: Iterable[tuple[Any, ...]]) -> None:
    """Calls `check(*case)` for every case. Fails with the errors of all that failed; a note on each names its case."""
    failed: list[Exception] = []
    for case in cases:
        try:
            check(*case)
        except Exception as error:
            error.add_note(f"in the case {case[0]!r}")
            failed.append(error)
    if failed:
        raise ExceptionGroup(f"{len(failed)} cases failed", failed)


def collect(events: AsyncIterator[Any]) -> list[Any]:
    """All events of a task."""

    async def run() -> list[Any]:
        return [event async for event in events]

    return asyncio.run(run())


def collect_and_count(events: AsyncIterator[Any]) -> tuple[list[Any], int]:
    """All events of a task, and how often the event loop ran meanwhile."""
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def run() -> list[Any]:
        counting = asyncio.ensure_future(count())
        found = [event async for event in events]
        counting.cancel()
        return found

    return asyncio.run(run()), turns


def values_of(events: AsyncIterator[Any]) -> list[Any]:
    """The values of a task's Items, in order. Fails where it ends with an error."""
    found = collect(events)
    assert found[-1].type != "error", found[-1]
    items = [event for event in found if event.type == "item"]
    return [item.values for item in sorted(items, key=lambda item: item.index)]
