"""The engine's thread: workers take turns, one that fails fails alone, and a dead engine says so."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from pyapp.errors import ModelNotFoundError, OptionError
from pyapp.serve.engine import KEPT_BYTES, Engine
from tests.serve.in_process import serving

pytestmark = pytest.mark.native_only


class Counting:
    """A worker of so many turns; fails at the turn `broken`."""

    def __init__(self, name: str, turns: int, order: list[str], broken: int = -1) -> None:
        self.name, self.left, self.order, self.broken = name, turns, order, broken
        self.error: Exception | None = None
        self.ended = threading.Event()

    def turn(self) -> bool:
        self.order.append(self.name)
        if self.left == self.broken:
            raise ValueError(self.name)
        self.left -= 1
        if not self.left:
            self.ended.set()
        return self.left > 0

    def fail(self, error: Exception) -> None:
        self.error = error
        self.ended.set()


def test_workers_take_turns_and_fail_alone() -> None:
    engine, order = Engine(), []  # type: ignore[var-annotated]
    workers = [Counting("a", 4, order), Counting("b", 4, order, broken=3), Counting("c", 3, order)]
    engine.post(lambda: [engine.activate(worker, worker.name) for worker in workers])
    engine.start()
    for worker in workers:
        assert worker.ended.wait(10)
    assert "".join(order) == "abcabcaca"
    assert [type(worker.error) for worker in workers] == [type(None), ValueError, type(None)]
    assert engine.call(lambda: threading.current_thread().name).result(10) == "engine"
    with pytest.raises(ZeroDivisionError):
        engine.call(lambda: 1 / 0).result(10)
    assert engine.alive
    engine.stop()
    assert not engine.alive


def test_models_take_turns_and_the_workers_of_each_in_them() -> None:
    """Many requests for one model (a, b, c) leave another one (x) half of the turns."""
    engine, order = Engine(), []  # type: ignore[var-annotated]
    workers = [Counting(name, 3, order) for name in "abcx"]
    engine.post(lambda: [engine.activate(worker, worker.name == "x") for worker in workers])
    engine.start()
    for worker in workers:
        assert worker.ended.wait(10)
    engine.stop()
    assert "".join(order) == "axbxcxabcabc"


def test_tidies_up_after_work_and_in_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pyapp.serve.engine.IDLE_SECONDS", 0.01)
    monkeypatch.setattr("pyapp.serve.engine.BUSY_SECONDS", 0.0)
    order: list[str] = []
    tidied = threading.Event()

    def tidy() -> None:
        order.append("tidy")
        tidied.set()

    engine = Engine(tidy)
    worker = Counting("a", 3, order)
    engine.post(lambda: engine.activate(worker, "model"))
    engine.start()
    assert worker.ended.wait(10)
    engine.call(tidied.clear).result(10)
    assert tidied.wait(10)
    time.sleep(0.1)
    engine.stop()
    assert "".join(order[:6]).startswith("tidyatidyatidya")
    assert order.count("tidy") <= 6  # not again and again while nothing is done


def test_a_dead_engine_is_told(caplog: pytest.LogCaptureFixture) -> None:
    told = threading.Event()
    with serving(idle=0.05) as client:
        client.context.engine.on_death = told.set
        assert client.get("/health").status_code == 200
        body = {"prompt": "Once", "max_tokens": 2}
        assert client.post("/v1/completions", json=body).status_code == 200
        end = time.monotonic() + 10
        while client.get("/v1/models").json()["data"][0]["loaded"]:  # unloaded when nobody uses it
            assert time.monotonic() < end
            time.sleep(0.02)
        assert client.post("/v1/completions", json=body).status_code == 200  # and loaded again

        def die() -> Any:
            raise SystemExit

        client.context.engine.post(die)
        assert told.wait(10)
        assert client.get("/health").status_code == client.get("/ready").status_code == 503
        assert client.post("/v1/completions", json=body).json()["error"]["code"] == "engine_dead"


def test_names_of_models(model_folders: Any) -> None:
    pytest.importorskip("starlette")
    from pyapp.serve.served import parse_model

    chat, embedder = str(model_folders["chat"]), str(model_folders["embedder"])
    found = [
        parse_model(spec) for spec in (
            chat, f"x={embedder}", f"y=classify:{chat}", "embed:a/b", "speech", "a/b:c", f"own/er=embed:{embedder}",
            "no/where=a",
        )
    ]  # fmt: skip
    assert [(model.name, model.task) for model in found] == [
        ("chat", "generate"), ("x", "embed"), ("y", "classify"), ("a/b", "embed"), ("speech", "transcribe"),
        ("a/b:c", "generate"), ("own/er", "embed"), ("no/where=a", "generate"),
    ]  # fmt: skip
    with pytest.raises((OptionError, ModelNotFoundError)):
        parse_model("embed:")
    with pytest.raises(OptionError, match="'trascribe' is not a task"):
        parse_model("x=trascribe:speech")


class Kept:
    """Free blocks of the engine: each turn of `work` leaves some bytes more."""

    def __init__(self) -> None:
        self.cached, self.freed = 0, list[int]()

    def trim_large(self) -> None:
        self.freed.append(self.cached)
        self.cached = 0


@pytest.mark.parametrize(("left", "at_most"), [(KEPT_BYTES // 4, KEPT_BYTES), (KEPT_BYTES, 2 * KEPT_BYTES)])
def test_free_blocks_are_limited(left: int, at_most: int) -> None:
    """Turns that each leave blocks of another size: they are freed above a limit, which is no less than two turns."""
    blocks = Kept()
    engine = Engine(blocks=blocks)

    class Work(Counting):
        def turn(self) -> bool:
            assert blocks.cached <= at_most
            blocks.cached += left
            return super().turn()

    worker = Work("a", 20, [])
    engine.post(lambda: engine.activate(worker, worker.name))
    engine.start()
    assert worker.ended.wait(10) and worker.error is None
    engine.stop()
    assert blocks.cached <= at_most
    assert len(blocks.freed) >= 4 and set(blocks.freed) == {at_most + left}
