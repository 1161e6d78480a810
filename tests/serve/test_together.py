"""A real server and several of OpenAI's clients at once: each gets what it gets alone."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.serve.conftest import ROOT, Process

pytestmark = pytest.mark.native_only

SAMPLES = ROOT / "web/models/speech/samples"


@pytest.fixture(scope="module")
def server(model_folders: dict[str, Path]) -> Iterator[Process]:
    with Process(f"chat={model_folders['chat']}", "speech", "--lookup", "4") as found:
        yield found


@pytest.fixture(scope="module")
def client(server: Process) -> Any:
    openai = pytest.importorskip("openai")
    return openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="unused", max_retries=0)


def at_once(asks: list[Callable[[], Any]]) -> list[Any]:
    with ThreadPoolExecutor(len(asks)) as threads:
        return [future.result(120) for future in [threads.submit(ask) for ask in asks]]


def transcript(client: Any, sound: bytes) -> Any:
    found = client.audio.transcriptions.create(
        model="speech", file=("a.wav", sound), response_format="verbose_json", timestamp_granularities=["word"]
    )
    return found.to_dict()


def test_windows_of_several_recordings_are_encoded_together(server: Process, client: Any) -> None:
    names = sorted(path.name for path in SAMPLES.glob("*.wav"))
    recordings = [(SAMPLES / name).read_bytes() for name in names]
    alone = [transcript(client, sound) for sound in recordings]
    windows, passes = server.metric("pyapp_sound_windows_total"), server.metric("pyapp_sound_passes_total")
    assert windows == passes >= len(names)
    for turn in range(1, 7):  # on a machine that others use, requests may come one after the other
        found = at_once([lambda sound=sound: transcript(client, sound) for sound in 2 * recordings])  # type: ignore[misc]
        assert found == 2 * alone
        assert server.metric("pyapp_sound_windows_total") == (1 + 2 * turn) * windows
        if server.metric("pyapp_sound_passes_total") < server.metric("pyapp_sound_windows_total"):
            return
    raise AssertionError("no windows were encoded together")


SCHEMA = {
    "type": "object", "properties": {"name": {"type": "string", "maxLength": 8}, "age": {"enum": [3, 4]}},
    "required": ["name", "age"], "additionalProperties": False,
}  # fmt: skip
FORM = {"type": "json_schema", "json_schema": {"name": "child", "schema": SCHEMA, "strict": True}}
TOOL = {"type": "function", "function": {"name": "look", "parameters": SCHEMA}}
TEXTS: list[dict[str, Any]] = [
    {"max_tokens": 80}, {"response_format": FORM, "max_tokens": 90}, {"tools": [TOOL], "tool_choice": "required"},
    {"extra_body": {"regex": "(ab|cd){3}"}}, {"extra_body": {"choice": ["yes", "no"]}},
    {"temperature": 0.8, "seed": 4, "max_tokens": 60}, {"response_format": {"type": "json_object"}, "max_tokens": 60},
    {"frequency_penalty": 0.5, "max_tokens": 60, "logprobs": True},
]  # fmt: skip


def test_forms_and_guesses_in_a_batch(server: Process, client: Any) -> None:
    """Eight requests at once, of several forms, with guesses: each answer is that of the request alone without them."""

    def ask(options: dict[str, Any]) -> Any:
        asked = {"model": "chat", "temperature": 0, "messages": [{"role": "user", "content": "hello " * 9}]} | options
        choice = client.chat.completions.create(**asked).choices[0].to_dict()
        for call in choice["message"].get("tool_calls") or ():
            del call["id"]
        return choice

    alone = [ask(options) for options in TEXTS]
    steps, new = server.metric("pyapp_steps_total"), server.metric("pyapp_new_tokens_total")
    assert 0 < server.metric("pyapp_tokens_guessed_right_total") < server.metric("pyapp_tokens_guessed_total")
    for turn in range(2, 8):  # on a machine that others use, requests may come one after the other
        before = server.metric("pyapp_steps_total")
        assert at_once([lambda options=options: ask(options) for options in TEXTS]) == alone  # type: ignore[misc]
        assert server.metric("pyapp_new_tokens_total") == turn * new
        if server.metric("pyapp_steps_total") - before < 0.8 * steps:  # the texts shared their steps
            break
    else:
        raise AssertionError("the texts shared no steps")
    contents = [choice["message"].get("content") for choice in alone]
    child = json.loads(contents[1])
    assert child["age"] in (3, 4) and len(child["name"]) <= 8
    called = json.loads(alone[2]["message"]["tool_calls"][0]["function"]["arguments"])
    assert called["age"] in (3, 4)
    assert re.fullmatch("(ab|cd){3}", contents[3]) and contents[4] in ("yes", "no")
