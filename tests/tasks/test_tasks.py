"""Tasks: their events, the model they keep, and their errors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyapp import tasks
from pyapp.errors import Cancelled, DownloadError, ModelNotFoundError, OptionError
from pyapp.events import Cancel, Done, Error, Event, Metric, Progress, Token
from pyapp.formats import write_tokenizer_bin
from pyapp.tasks.core import Result, Step
from pyapp.text.tokenization.tokenizer import Tokenizer
from tests.text.parrot import STORY, Parrot, make_vocabulary
from tests.together import collect, collect_and_count

pytestmark = pytest.mark.native_only


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return Tokenizer.from_llama2c(*make_vocabulary())


def loaded_model(tokenizer: Tokenizer, name: str = "parrot") -> Any:
    model = Parrot(tokenizer.encode(STORY, eos=True), tokenizer.vocab_size, 100)
    return SimpleNamespace(name=name, model=model, tokenizer=tokenizer, config={"dim": 8})


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch, tokenizer: Tokenizer) -> Iterator[list[Any]]:
    """Installs a loader that records its requests."""
    asked: list[Any] = []

    def load_model(
        source: Any, tokenizer_source: Any = None, *, report: Callable[[Event], None], cancel: Cancel
    ) -> Any:
        cancel.check()
        asked.append(source)
        report(Progress("download", 1, 2, "bytes"))
        report(Progress("download", 2, 2, "bytes"))
        return loaded_model(tokenizer, str(source))

    import pyapp.models

    monkeypatch.setattr(pyapp.models, "load_model", load_model)
    tasks.unload()
    yield asked
    tasks.unload()


def text_of(events: list[Event]) -> str:
    return "".join(event.text for event in events if isinstance(event, Token))


def test_a_text_from_a_loaded_model(tokenizer: Tokenizer) -> None:
    events = collect(tasks.generate(loaded_model(tokenizer), "Once upon", {"temperature": 0}))
    assert "Once upon" + text_of(events) == STORY
    assert [event.type for event in events if not isinstance(event, Token)] == ["progress", *["metric"] * 3, "done"]
    assert events[-1].to_dict()["reason"] == "stop"


def test_the_model_is_loaded_once(loads: list[Any], tmp_path: Path) -> None:
    file = tmp_path / "model.bin"
    file.write_bytes(b"first")
    first = collect(tasks.generate(file, "", {"temperature": 0}))
    assert [event.done for event in first if isinstance(event, Progress)] == [1, 2, 1]
    assert any(isinstance(event, Metric) and event.name == "load_time" for event in first)
    assert text_of(first) == STORY
    again = collect(tasks.generate(file, "", {"temperature": 0}))
    assert len(loads) == 1 and not any(isinstance(event, Metric) and event.name == "load_time" for event in again)
    file.write_bytes(b"other content")
    collect(tasks.generate(file))
    collect(tasks.generate("another name"))
    collect(tasks.load("another name"))
    assert loads == [file, file, "another name"]


def test_keys_tell_nameless_models_apart(loads: list[Any]) -> None:
    for source, key in ((b"a", None), (b"a", None), (b"b", 1), (b"b", 1), (b"b", 2)):
        collect(tasks.generate(source, key=key))
    assert loads == [b"a", b"a", b"b", b"b"]


def test_loading_ahead(loads: list[Any]) -> None:
    assert collect(tasks.load("name"))[-1].to_dict() == {
        "type": "done", "reason": "complete", "name": "name", "config": {"dim": 8},
    }  # fmt: skip


def test_cancel_before_and_during(loads: list[Any], tokenizer: Tokenizer) -> None:
    cancel = Cancel()
    cancel.set()
    assert [event.to_dict() for event in collect(tasks.generate("x", cancel=cancel))] == [
        {"type": "done", "reason": "cancelled"}
    ]

    async def stop_after_two() -> list[Event]:
        cancel, events = Cancel(), []
        async for event in tasks.generate(loaded_model(tokenizer), "", {"temperature": 0}, cancel=cancel):
            events.append(event)
            if isinstance(event, Token) and event.index == 1:
                cancel.set()
        return events

    events = asyncio.run(stop_after_two())
    assert sum(isinstance(event, Token) for event in events) == 2
    assert isinstance(events[-1], Done) and events[-1].reason == "cancelled"


def test_closing_ends_a_task(tokenizer: Tokenizer) -> None:
    async def run() -> None:
        events = tasks.generate(loaded_model(tokenizer))
        await anext(events)
        await events.aclose()
        with pytest.raises(StopAsyncIteration):
            await anext(events)

    asyncio.run(run())


@pytest.mark.parametrize("start", [lambda: tasks.generate("x"), lambda: tasks.merge("x", "adapter", "out")])
def test_closing_ends_the_loading_too(start: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Cancel] = []
    ended: list[bool] = []

    def load_model(*args: Any, report: Callable[[Event], None], cancel: Cancel, **settings: Any) -> Any:
        seen.append(cancel)
        report(Progress("download", 0, 9, "bytes"))
        deadline = time.monotonic() + 10
        while not cancel.is_set() and time.monotonic() < deadline:
            time.sleep(0.005)
        ended.append(cancel.is_set())
        cancel.check()

    import pyapp.models

    monkeypatch.setattr(pyapp.models, "load_model", load_model)
    tasks.unload()

    async def run() -> None:
        events = start()
        assert isinstance(await anext(events), Progress)
        await events.aclose()

    asyncio.run(run())
    assert seen[0].is_set() and ended == [True]


def test_the_event_loop_runs_between_tokens(tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch) -> None:
    model = loaded_model(tokenizer)
    plain = model.model.forward_cached

    def slow(*args: Any, **settings: Any) -> Any:
        time.sleep(tasks.BREATH * 1.5)
        return plain(*args, **settings)

    monkeypatch.setattr(model.model, "forward_cached", slow)

    tokens, turns = collect_and_count(tasks.generate(model, "", {"temperature": 0}, eager=True))
    assert turns > 0.8 * len(tokens)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (
            ModelNotFoundError("no such model", where="x", hint="See pyapp models"),
            ("no such model", "x", "See pyapp models"),
        ),
        (DownloadError("lost"), ("lost", None, None)),
        (
            FileNotFoundError(2, "No such file or directory", "a/b"),
            ("no such file or directory", "a/b", "Check the name"),
        ),
        (MemoryError(), ("there is not enough memory", None, "smaller model")),
        (
            ModuleNotFoundError("No module named 'a'", name="a.b"),
            ("the Python package 'a' is missing", None, "Install pyapp again"),
        ),
        (
            ImportError("advice\n\nOriginal error was: lib.so: failed to map segment from shared object"),
            ("there is not enough memory", None, "smaller model"),
        ),
        (
            ImportError("advice\nOriginal error was: libx.so.1: cannot open shared object file"),
            ("a Python package cannot be loaded: libx.so.1: cannot open", None, "Install pyapp again"),
        ),
        (ImportError("no name x", name="pyapp.a"), ("unexpected ImportError: no name x", ".py:", "please report")),
        (RuntimeError("can't start new thread"), ("the system starts no more threads", None, "ulimit")),
        (ZeroDivisionError("by zero"), ("unexpected ZeroDivisionError: by zero", ".py:", "please report")),
    ],
)
def test_errors_become_events(
    error: Exception, expected: tuple[str, str | None, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    import pyapp.models

    def load_model(*args: Any, **settings: Any) -> Any:
        raise error

    monkeypatch.setattr(pyapp.models, "load_model", load_model)
    tasks.unload()
    events = collect(tasks.generate("x"))
    assert len(events) == 1 and isinstance(events[0], Error)
    for got, wanted in zip((events[0].what, events[0].where, events[0].hint), expected, strict=True):
        assert got == wanted if wanted is None or got is None else wanted in got


def test_arguments_that_do_not_fit_are_no_defect_of_pyapp() -> None:
    (event,) = collect(tasks.inspect())  # type: ignore[call-arg]
    assert "missing 1 required positional argument: 'source'" in event.what and "defect" not in str(event.hint)


def test_options_are_checked_before_the_model_is_loaded(loads: list[Any]) -> None:
    events = collect(tasks.generate("x", "", {"temperature": -1}))
    assert not loads and events[-1].to_dict()["where"] == "temperature"


def test_a_cancelled_exception_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    @tasks.task
    async def stopped() -> tasks.Events:
        yield Progress("download", 0)
        raise Cancelled("stopped")

    assert [event.type for event in collect(stopped())] == ["progress", "done"]


def test_inspect(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.bin"
    write_tokenizer_bin(path, *make_vocabulary())
    (event,) = collect(tasks.inspect(path))
    assert event.to_dict()["type"] == "done" and "tokenizer" in event.to_dict()["format"]
    path.write_bytes(path.read_bytes()[:-1])
    (event,) = collect(tasks.inspect(path))
    assert isinstance(event, Error) and "truncated" in event.what and event.where == str(path)
    (event,) = collect(tasks.inspect(tmp_path / "nothing"))
    assert isinstance(event, Error) and event.what == "there is no such file or folder"


@pytest.mark.parametrize("train", [tasks.train_story, tasks.train_speech])
def test_training_without_recipes(train: Callable[..., tasks.Events], tmp_path: Path) -> None:
    """As from the page's wheel, which leaves them out. A fault in a recipe itself is another matter."""
    import sys

    known = {name: module for name, module in sys.modules.items() if name.startswith("pyapp.recipes")}
    try:
        for name in known:
            del sys.modules[name]
        sys.modules["pyapp.recipes"] = None  # type: ignore[assignment]
        (event,) = collect(train(tmp_path))
        assert isinstance(event, Error) and "no pyapp.recipes" in event.what and "on a computer" in (event.hint or "")
    finally:
        del sys.modules["pyapp.recipes"]
        sys.modules.update(known)
    assert list(tmp_path.iterdir()) == []


def test_threads() -> None:
    from pyapp.engine import get_num_threads

    before = get_num_threads()
    try:
        tasks.set_threads(2)
        assert get_num_threads() == 2
        with pytest.raises(OptionError, match="threads: must be a whole number from 1 to 64"):
            tasks.set_threads(0)
    finally:
        tasks.set_threads(before)


def test_events_as_json() -> None:
    assert Metric("loss", float("nan"), step=3).to_dict() == {
        "type": "metric", "name": "loss", "value": None, "unit": "", "step": 3,
    }  # fmt: skip
    assert Token("a", None, 2).to_dict() == {"type": "token", "text": "a", "index": 2}
    assert Done("length", {"seed": 4}).to_dict() == {"type": "done", "reason": "length", "seed": 4}


def test_a_step_gives_its_events_and_its_value() -> None:
    closed: list[bool] = []

    async def events() -> AsyncGenerator[Event | Result[int], None]:
        try:
            yield Progress("reading", 0, 2)
            yield Progress("reading", 1, 2)
            yield Result(3)
        finally:
            closed.append(True)

    async def run(most: int) -> tuple[list[Event], int | None]:
        found: list[Event] = []
        async with Step(events()) as step:
            async for event in step:
                found.append(event)
                if len(found) == most:
                    break
        return found, getattr(step, "value", None)

    found, value = asyncio.run(run(5))
    assert [event.done for event in found if isinstance(event, Progress)] == [0, 1] and value == 3 and closed == [True]
    found, value = asyncio.run(run(1))  # left early: what the step holds is given free
    assert len(found) == 1 and value is None and closed == [True, True]
