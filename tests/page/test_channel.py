"""What the page's channel sends, and when (pyapp/browser.py)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import aclosing
from types import SimpleNamespace
from typing import Any

import pytest

import pyapp.browser
from pyapp.events import Done, Event, Partial, Progress, Token
from pyapp.tasks import Events
from pyapp.tasks.core import Result, reported


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> tuple[Any, list[list[dict[str, Any]]], list[float]]:
    """`put`, the messages sent, and a clock to set."""
    clock = [0.0]
    monkeypatch.setattr(pyapp.browser.time, "perf_counter", lambda: clock[0])
    messages: list[list[dict[str, Any]]] = []
    channel = pyapp.browser.Channel(lambda text: messages.append(json.loads(text)))
    return channel.put, messages, clock


def steps(messages: list[list[dict[str, Any]]]) -> list[list[Any]]:
    return [[event.get("done", event["type"]) for event in message] for message in messages]


def test_work_reports_its_begin_its_end_and_once_in_a_frame(sent: Any) -> None:
    put, messages, clock = sent
    for done in range(1, 11):
        clock[0] += 0.004
        put(Progress("reading the model", done, 10, "bytes"))
    assert steps(messages) == [[1], [6], [10]]


def test_other_work_is_reported_at_once(sent: Any) -> None:
    put, messages, _ = sent
    put(Progress("reading", 1, 9))
    put(Progress("reading", 2, 9))
    put(Progress("transcribing", 0, 9))
    assert steps(messages) == [[1], [2, 0]]


def test_progress_that_waits_goes_with_the_next_event(sent: Any) -> None:
    put, messages, _ = sent
    events: list[Event] = [Progress("prompt", 1, 9), Progress("prompt", 2, 9), Token("a", index=0, id=1), Done()]
    for event in events:
        put(event)
    assert steps(messages) == [[1], [2, "token", "done"]]


def test_a_partial_text_replaces_one_that_waits(sent: Any) -> None:
    put, messages, clock = sent
    clock[0] = 1.0
    for text in ("a", "a b", "a b c"):
        put(Partial(text, 0.0))
    put(Done())
    assert [[event.get("text") for event in message] for message in messages] == [["a"], ["a b c", None]]


def test_blocking_work_is_reported_while_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyapp.tasks.core.sys", SimpleNamespace(platform="emscripten"))
    messages: list[list[dict[str, Any]]] = []

    def work(report: Callable[[Event], None]) -> int:
        report(Progress("reading the model", 1, 9))
        return len(messages)  # sent so far

    async def load(params: Any, cancel: Any) -> Events:
        async with aclosing(reported(work, cancel)) as events:
            async for event in events:
                yield Done("complete", {"sent": event.value}) if isinstance(event, Result) else event

    monkeypatch.setitem(pyapp.browser.TASKS, "load", load)
    asyncio.run(pyapp.browser.run(1, "load", None, lambda text: messages.append(json.loads(text))))
    assert steps(messages) == [[1], ["done"]] and messages[1][0]["sent"] == 1


def test_work_that_is_cancelled_before_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    """As by Stop, between the call and the event loop's next turn."""
    seen: list[bool] = []

    async def load(params: Any, cancel: Any) -> Events:
        seen.append(cancel.is_set())
        yield Done("complete")

    monkeypatch.setitem(pyapp.browser.TASKS, "load", load)
    monkeypatch.setattr(pyapp.browser, "_host", SimpleNamespace(isStopped=lambda number: False))
    work = pyapp.browser.run(1, "load", None, lambda text: None)
    pyapp.browser.cancel(1)
    asyncio.run(work)
    assert seen == [True]
