"""Tasks that a server computes: the same results as in this process, and its errors."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pyapp import tasks
from pyapp.cli import cli
from pyapp.errors import OptionError
from pyapp.events import Cancel, Done, Error, Item, Metric, Segment, Token
from pyapp.serve.client import Server
from tests.serve.conftest import ROOT, Process
from tests.together import collect

pytestmark = pytest.mark.native_only

GREEDY = {"temperature": 0.0, "max_new_tokens": 12}
TEXTS = ["the cat sat on the mat", "a blue boat sailed", "we ate bread"]
ASK = [{"role": "user", "content": "hello"}]


def server(process: Process, **more: Any) -> Server:
    return Server(f"http://127.0.0.1:{process.port}", **{"key": "secret", **more})


def end_of(stream: Any) -> Any:
    return collect(stream)[-1]


def test_texts_are_those_of_this_process(keyed_server: Process, model_folders: dict[str, Path]) -> None:
    here, there = str(model_folders["chat"]), server(keyed_server, model="chat")
    for seed, options in enumerate(
        (
            GREEDY,
            {"max_new_tokens": 9, "seed": 7, "top_k": 20, "temperature": 0.9, "top_p": 1.0},
            {**GREEDY, "choice": ["hello", "goodbye"]},
        )
    ):
        one, other = (collect(tasks.generate(model, "hello", options)) for model in (here, there))
        assert isinstance(other[-1], Done), (seed, other[-1])
        ours = "".join(event.text for event in one if isinstance(event, Token))
        assert other[-1].results["text"] == ours and other[-1].results["new_tokens"] == one[-1].results["new_tokens"]
        assert "".join(event.text for event in other if isinstance(event, Token)) == ours
    one, other = (end_of(tasks.chat(model, ASK, GREEDY)).results for model in (here, there))
    assert (one["text"], one["prompt_tokens"]) == (other["text"], other["prompt_tokens"])
    several = end_of(tasks.generate(there, "hello", {"max_new_tokens": 5, "samples": 3, "seed": 1}))
    assert len(several.results["texts"]) == 3


def test_scores_and_figures(keyed_server: Process, model_folders: dict[str, Path]) -> None:
    options = {**GREEDY, "logprobs": 2}
    for stream in (
        tasks.chat(server(keyed_server), ASK, options),
        tasks.generate(server(keyed_server), "hello", options),
    ):
        found = collect(stream)
        tokens = [event for event in found if isinstance(event, Token)]
        assert len(tokens) == 12 and all(token.logprob <= 0 and len(token.top_logprobs) == 2 for token in tokens)
        assert {"time_to_first_token", "decode_speed"} <= {e.name for e in found if isinstance(e, Metric)}


def test_vectors_labels_and_speech(keyed_server: Process, model_folders: dict[str, Path]) -> None:
    here, there = str(model_folders["embedder"]), server(keyed_server, model="embedder")
    one, other = (collect(tasks.embed(TEXTS, model=model)) for model in (here, there))
    for a, b in zip(items(one), items(other), strict=True):
        assert a["embedding"] == pytest.approx(b["embedding"], abs=1e-6)
    assert other[-1].results["dimensions"] == len(items(other)[0]["embedding"])
    ranked = end_of(tasks.rerank("the cat sat", TEXTS, model=there, top=2)).results["order"]
    assert ranked[0] == 0 and len(ranked) == 2
    sound = ROOT / "web" / "models" / "speech" / "sample.wav"
    sound = sound if sound.exists() else next((ROOT / "web" / "models").rglob("*.wav"))
    heard = collect(tasks.transcribe(str(sound), {"word_timestamps": True}, model=server(keyed_server, model="speech")))
    local = collect(tasks.transcribe(str(sound), {"word_timestamps": True}, model="speech"))
    texts = [[event.text.strip() for event in found if isinstance(event, Segment)] for found in (heard, local)]
    assert texts[0] == texts[1] and texts[0]
    words = [word["word"] for event in heard if isinstance(event, Segment) for word in event.words]
    assert " ".join(word.strip() for word in words).split() == " ".join(texts[0]).split()


def test_speech_is_that_of_this_process(keyed_server: Process, model_folders: dict[str, Path]) -> None:
    here, there = str(model_folders["voice"]), server(keyed_server, model="voice")
    options = {"seed": 5, "rate": 1.5, "pause": 0.5}
    found = [collect(tasks.speak("It is so. That is it!\nA hen.", options, model=model)) for model in (here, there)]
    sounds = [[event for event in events if event.type in ("sound", "done")] for events in found]
    assert len(sounds[0]) == 4 and sounds[0] == sounds[1]
    assert end_of(tasks.speak("it", {"noise": 0}, model=there)).where == "noise"
    assert "reads letters" in end_of(tasks.speak("it", {"phonemes": True}, model=there)).what
    assert "nothing to say" in end_of(tasks.speak("—", model=there)).what
    assert "its own" in end_of(tasks.speak("it", {"description": "fast"}, model=here)).what
    assert "follows none" in end_of(tasks.speak("it", {"description": "fast"}, model=there)).what


def items(events: list[Any]) -> list[Any]:
    return [event.values for event in sorted((e for e in events if isinstance(e, Item)), key=lambda e: e.index)]


def test_cancel_ends_the_text_there_too(keyed_server: Process) -> None:
    async def run() -> tuple[float, Any]:
        cancel, last = Cancel(), None
        async for event in tasks.generate(
            server(keyed_server), "hello", {**GREEDY, "max_new_tokens": 400}, cancel=cancel
        ):
            if isinstance(event, Token) and not cancel.is_set():
                cancel.set()
                start = time.perf_counter()
            last = event
        return time.perf_counter() - start, last

    seconds, last = asyncio.run(run())
    assert isinstance(last, Done) and last.reason == "cancelled" and seconds < 5, last
    end = time.monotonic() + 20
    while keyed_server.metric("pyapp_requests_in_flight"):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_errors_name_what_and_where(keyed_server: Process, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYAPP_API_KEY", raising=False)
    for url in ("localhost:8000", "ftp://x", "", "http://"):
        with pytest.raises(OptionError, match="address"):
            Server(url)
    wrong = end_of(tasks.chat(server(keyed_server, key="other"), ASK))
    assert isinstance(wrong, Error) and "key" in wrong.what and "PYAPP_API_KEY" in wrong.hint
    missing = end_of(tasks.load(server(keyed_server, model="nobody")))
    assert "no model 'nobody'" in missing.what and "chat" in missing.hint
    assert "must be at most" in end_of(tasks.generate(server(keyed_server), "x", {"max_new_tokens": 10**6})).what
    cases = {"rolling": {"rolling": True}, "context": {"context": 9}, "cache_type": {"cache_type": "f16"}}
    for name, options in cases.items():
        refused = end_of(tasks.generate(server(keyed_server), "x", options))
        assert isinstance(refused, Error) and refused.where == name
        assert ("Start pyapp serve with --" in refused.hint) == (name != "rolling")
    assert end_of(tasks.embed(TEXTS, model=server(keyed_server), prompt="query: ")).where == "prompt"
    assert end_of(tasks.fill_mask(["a [MASK]"], model=server(keyed_server))).where == "model"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = end_of(tasks.chat(Server(f"http://127.0.0.1:{free.getsockname()[1]}"), ASK))
    assert isinstance(nobody, Error) and "no server answers" in nobody.what and "pyapp serve" in nobody.hint


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\n<html>", "not JSON"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n[1, 2]\n\n", "no data"),
        (b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n", "502"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{", "no server answers"),
        (b"\x16\x03\x01garbage\r\n\r\n", "no server answers"),
    ],
)
def test_foreign_servers(answer: bytes, says: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def reply() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=reply, daemon=True)
        thread.start()
        found = end_of(tasks.embed(["x"], model=Server(f"http://127.0.0.1:{listener.getsockname()[1]}", seconds=5)))
        thread.join(10)
    assert isinstance(found, Error) and says in found.what, found


def test_the_commands(
    keyed_server: Process, model_folders: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYAPP_API_KEY", "secret")
    url = f"http://127.0.0.1:{keyed_server.port}"

    def run(*arguments: str, text: str | None = None) -> Any:
        return CliRunner().invoke(cli, [*arguments, "--server", url], input=text, standalone_mode=False)

    talked = run("chat", "chat", "--temperature", "0", "-n", "6", text="hello\n/regenerate\n")
    assert talked.return_value == 0, talked.stderr
    first, second = talked.stdout.splitlines()
    assert first == second and "6 tokens" in talked.stderr
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    vectors = run("embed", str(tmp_path / "texts.txt"), "-m", "embedder")
    assert [len(json.loads(line)) for line in vectors.stdout.splitlines()] == [64, 64, 64], vectors.stderr
    assert run("rerank", "the cat sat", str(tmp_path / "texts.txt"), "-m", "embedder").stdout.count("\n") == 3
    wrong = run("chat", "--tokenizer", "x", text="hello\n")
    assert wrong.return_value == 1 and "tokenizer" in wrong.stderr and "server" in wrong.stderr
