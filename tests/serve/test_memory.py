"""Several models in a limited memory: which are unloaded, and what is refused."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.serve.in_process import serving

pytestmark = pytest.mark.native_only


@contextmanager
def served(model_folders: dict[str, Path], memory: int, **settings: Any) -> Iterator[Any]:
    """A client of a server with the models "chat" and "embedder", which have so many bytes together."""
    models = tuple(f"{name}={model_folders[name]}" for name in ("chat", "embedder"))
    with serving(*models, memory_bytes=memory, context=64, **settings) as client:
        yield client


def chat(client: Any) -> Any:
    return client.post("/v1/completions", json={"model": "chat", "prompt": "a", "max_tokens": 2})


def embed(client: Any) -> Any:
    return client.post("/v1/embeddings", json={"model": "embedder", "input": "a"})


def loaded(client: Any) -> list[str]:
    return [model["id"] for model in client.get("/v1/models").json()["data"] if model["loaded"]]


@pytest.fixture(scope="module")
def sizes(model_folders: dict[str, Path]) -> dict[str, int]:
    """Bytes of each model, as without a limit."""
    with served(model_folders, 0) as client:
        assert chat(client).status_code == embed(client).status_code == 200
        assert loaded(client) == ["chat", "embedder"]
        found = {name: model.nbytes for name, model in client.context.models.by_name.items()}
    assert min(found.values()) > 10_000
    return found


def test_models_make_place_for_one_another(model_folders: dict[str, Path], sizes: dict[str, int]) -> None:
    with served(model_folders, max(sizes.values()) + 1000) as client:
        for ask, name in ((chat, "chat"), (embed, "embedder"), (chat, "chat")):
            assert ask(client).status_code == 200
            assert loaded(client) == [name]
    with served(model_folders, sum(sizes.values())) as client:
        assert chat(client).status_code == embed(client).status_code == chat(client).status_code == 200
        assert loaded(client) == ["chat", "embedder"]


def test_a_model_that_is_used_stays(model_folders: dict[str, Path], sizes: dict[str, int]) -> None:
    with served(model_folders, max(sizes.values()) + 1000) as client:
        assert chat(client).status_code == 200
        client.context.models.by_name["chat"].requests += 1
        client.context.models.by_name["chat"].lasting += 1  # live speech, whose end nobody knows
        answer = embed(client)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "server_busy")
        assert answer.headers["retry-after"] == "5" and "chat" in answer.json()["error"]["message"]
        assert loaded(client) == ["chat"]
        client.context.models.by_name["chat"].requests -= 1
        client.context.models.by_name["chat"].lasting -= 1
        assert embed(client).status_code == 200


def test_a_model_that_is_too_large_is_refused(model_folders: dict[str, Path], sizes: dict[str, int]) -> None:
    with served(model_folders, sizes["chat"] - 1) as client:
        assert embed(client).status_code == (200 if sizes["embedder"] < sizes["chat"] else 503)
        answer = chat(client)
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "model_too_large")
        assert "MiB" in answer.json()["error"]["message"] and "chat" not in loaded(client)


def test_the_start_loads_what_there_is_memory_for(model_folders: dict[str, Path], sizes: dict[str, int]) -> None:
    with served(model_folders, max(sizes.values()) + 1000, preload=True) as client:
        end = time.monotonic() + 30
        while client.get("/ready").status_code != 200:
            assert time.monotonic() < end
            time.sleep(0.02)
        assert len(loaded(client)) == 1
        assert chat(client).status_code == embed(client).status_code == 200
        assert client.get("/ready").status_code == 200  # a model that was unloaded is loaded again when it is needed


def test_a_model_without_room_is_nobodys_while_it_is_given_back(
    model_folders: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """That it is too large shows when it has been loaded: a request that comes then must not find it."""
    pytest.importorskip("starlette")
    from pyapp.serve.engine import Engine
    from pyapp.serve.problems import Problem
    from pyapp.serve.served import Models
    from pyapp.serve.settings import Settings

    engine = Engine()
    engine.start()
    models = Models(Settings(models=(f"chat={model_folders['chat']}",), memory_bytes=1 << 30, preload=False), engine)
    models.ready = True
    chat, seen = models.by_name["chat"], []

    async def no_room(model: Any, needed: int, wait: bool = True) -> None:
        seen.append((needed, model.loaded))
        await asyncio.sleep(0.05)
        if needed == model.nbytes:
            raise Problem("no room", status=503)

    async def asks(seconds: float) -> Any:
        await asyncio.sleep(seconds)
        with models.holding():
            return await models.get("chat", "generate")

    async def several() -> list[Any]:
        late = [asks(0.001 * ms) for ms in (0, 60, 120, 180)]
        return await asyncio.gather(*late, return_exceptions=True)

    monkeypatch.setattr(models, "_make_room", no_room)
    try:
        found = asyncio.run(several())
    finally:
        engine.stop()
    assert all(isinstance(one, Problem) for one in found), found
    assert chat.loaded is None and chat.nbytes > 0 and len(seen) >= 2
    assert all(given is None for _, given in seen)  # nobody could find it while it was not sure to stay


class Asking:
    """A request for a model: it uses the model from `granted` until `end`."""

    def __init__(self, models: Any, name: str, **how: Any) -> None:
        self.granted, self._end = asyncio.Event(), asyncio.Event()
        self.task = asyncio.ensure_future(self._ask(models, name, how))

    async def _ask(self, models: Any, name: str, how: dict[str, Any]) -> None:
        with models.holding():
            model = await models.get(name, "generate", "embed", **how)
            assert model.loaded is not None
            self.granted.set()
            await self._end.wait()

    async def begun(self) -> None:
        """Waits until the request uses its model, or has failed."""
        waiting = asyncio.ensure_future(self.granted.wait())
        await asyncio.wait([waiting, self.task], timeout=60, return_when=asyncio.FIRST_COMPLETED)
        waiting.cancel()
        if self.task.done():
            self.task.result()
        assert self.granted.is_set()

    async def end(self) -> None:
        self._end.set()
        await self.task


@pytest.fixture
def in_turns(
    model_folders: dict[str, Path], sizes: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> Iterator[Callable[[Callable[[Any], Awaitable[None]]], None]]:
    """Runs a function with the models "chat" and "embedder", of which one is in memory; at most the larger one is."""
    from pyapp.serve.engine import Engine
    from pyapp.serve.served import Models
    from pyapp.serve.settings import Settings

    monkeypatch.setattr("pyapp.serve.served.TURN_SECONDS", 0.0)
    engine = Engine()
    engine.start()
    given = tuple(f"{name}={folder}" for name, folder in model_folders.items())
    limit = max(sizes.values()) + 1000
    models = Models(Settings(models=given, memory_bytes=limit, context=64, preload=False), engine)
    models.ready = True

    def run(story: Callable[[Any], Awaitable[None]]) -> None:
        async def told() -> None:
            await story(models)
            assert all(not model.requests and not model.lasting for model in models.by_name.values())

        asyncio.run(told())

    yield run
    engine.stop()


async def closed(models: Any) -> None:
    """Waits until a model's turn has come, so that the others take no new requests."""
    async with asyncio.timeout(60):
        while models._next is None:
            await asyncio.sleep(0.001)


def test_constant_requests_for_one_model_stop_no_other(in_turns: Any) -> None:
    async def story(models: Any) -> None:
        chat, embedder = models.by_name["chat"], models.by_name["embedder"]
        first = Asking(models, "chat")
        await first.begun()
        second = Asking(models, "embedder")
        await closed(models)
        third, fourth = Asking(models, "chat"), Asking(models, "chat")  # they come later, and wait for their turn
        await asyncio.sleep(0.02)
        assert not any(one.granted.is_set() for one in (second, third, fourth))
        await first.end()
        await second.begun()
        assert chat.loaded is None and embedder.loaded is not None and not third.granted.is_set()
        await closed(models)
        fifth = Asking(models, "embedder")
        await asyncio.sleep(0.02)
        assert not fifth.granted.is_set()
        await second.end()
        await third.begun()
        await fourth.begun()  # together
        assert chat.loaded is not None and embedder.loaded is None and not fifth.granted.is_set()
        await third.end()
        await fourth.end()
        await fifth.begun()
        await fifth.end()

    in_turns(story)


def test_a_model_keeps_its_turn_for_a_while(in_turns: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else models would be loaded for every request."""
    monkeypatch.setattr("pyapp.serve.served.TURN_SECONDS", 1e6)

    async def story(models: Any) -> None:
        first = Asking(models, "chat")
        await first.begun()
        other = Asking(models, "embedder")
        await asyncio.sleep(0.02)
        second = Asking(models, "chat")
        await second.begun()
        await first.end()
        assert not other.granted.is_set()
        await second.end()
        await other.begun()  # nobody uses the first one
        await other.end()

    in_turns(story)


def test_requests_that_wait_in_vain_stop_nobody(in_turns: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pyapp.serve.problems import Problem

    async def story(models: Any) -> None:
        first = Asking(models, "chat")
        await first.begun()
        left = Asking(models, "embedder")
        await closed(models)
        second = Asking(models, "chat")
        left.task.cancel()  # its client has left
        await second.begun()
        monkeypatch.setattr("pyapp.serve.served.ROOM_SECONDS", 0.05)
        late, third = Asking(models, "embedder"), Asking(models, "chat")
        with pytest.raises(Problem, match="requests that run now use the memory: chat"):
            await late.begun()
        await third.begun()
        await second.end()
        await third.end()
        lasting = Asking(models, "chat", lasting=True)
        await lasting.begun()
        await first.end()
        monkeypatch.setattr("pyapp.serve.served.ROOM_SECONDS", 1e6)
        with pytest.raises(Problem, match="requests that run now use the memory: chat"):
            await Asking(models, "embedder").begun()
        await lasting.end()

    in_turns(story)


def test_no_more_requests_wait_for_models_than_the_queue_takes(in_turns: Any) -> None:
    from pyapp.serve.problems import Problem

    async def story(models: Any) -> None:
        first = Asking(models, "chat")
        await first.begun()
        waiting = [Asking(models, "embedder") for _ in range(models._settings.queue)]
        await closed(models)
        with pytest.raises(Problem, match="wait for models to be loaded"):
            await Asking(models, "embedder").begun()
        await first.end()
        for one in waiting:
            await one.begun()
            await one.end()

    in_turns(story)


def test_a_model_for_which_nobody_waits_is_not_loaded(in_turns: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clients leave while it is loaded: the loading stops, and begins anew for one who comes then."""
    from pyapp.serve.problems import Problem
    from pyapp.serve.served import LOADERS

    begun, checked = threading.Event(), threading.Event()
    stopped = list[bool]()

    def slowly(source: Any, tokenizer: Any, report: Any, cancel: Any, **more: Any) -> Any:
        if len(stopped) < 2:
            begun.set()
            assert checked.wait(60)
            checked.clear()
            stopped.append(cancel.is_set())
            cancel.check()
        return LOADERS["generate"](source, tokenizer, report, cancel, **more)

    monkeypatch.setattr("pyapp.serve.served.LOADERS", {**LOADERS, "generate": slowly})

    async def story(models: Any) -> None:
        chat = models.by_name["chat"]

        async def left_after_the_beginning() -> None:
            leaving = asyncio.Event()

            async def receive() -> dict[str, str]:
                await leaving.wait()
                return {"type": "http.disconnect"}

            one, other = Asking(models, "chat", receive=receive), Asking(models, "chat", receive=receive)
            assert await asyncio.to_thread(begun.wait, 60)
            begun.clear()
            leaving.set()
            for asking in (one, other):
                with pytest.raises(Problem, match="the client has left"):
                    await asking.begun()

        await left_after_the_beginning()
        checked.set()
        async with asyncio.timeout(60):
            while models._line:
                await asyncio.sleep(0.001)
        assert stopped == [True] and chat.loaded is None
        await left_after_the_beginning()
        late = Asking(models, "chat")  # before the loading has stopped
        await asyncio.sleep(0)
        checked.set()
        await late.begun()
        assert stopped == [True, True] and chat.loaded is not None
        await late.end()

    in_turns(story)
