"""A real server and the clients that people use: the package openai, huggingface_hub, curl, and a websocket.

docs/serving.md has the table of the routes and the clients that are tested here; `python -m tests.serve.test_clients`
writes it.
"""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.serve.conftest import ROOT, Process

pytestmark = pytest.mark.native_only

SOUND = ROOT / "web/models/speech/samples/weather.wav"
DOCS = ROOT / "docs/serving.md"
HELLO: list[dict[str, str]] = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def server(model_folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    pytest.importorskip("websockets")
    keys = tmp_path_factory.mktemp("keys") / "keys.txt"
    keys.write_text("secret\n")
    models = [f"{name}={folder}" for name, folder in model_folders.items()]
    with Process(*models, "speech", "--api-key-file", str(keys)) as found:
        yield found


# -- the package openai


def openai_models(client: Any) -> None:
    assert [model.id for model in client.models.list()] == ["chat", "embedder", "speech"]


def openai_model(client: Any) -> None:
    assert client.models.retrieve("chat").id == "chat"


def openai_chat(client: Any) -> None:
    import openai

    ask = {"model": "chat", "messages": HELLO, "max_tokens": 5, "temperature": 0}
    whole = client.chat.completions.create(**ask, logprobs=True).choices[0]
    parts = client.chat.completions.create(**ask, stream=True)
    assert "".join(part.choices[0].delta.content or "" for part in parts) == whole.message.content
    assert len(whole.logprobs.content) == 5
    schema = {"type": "object", "properties": {"age": {"enum": [3, 4]}}, "required": ["age"]}
    form = {"type": "json_schema", "json_schema": {"name": "age", "schema": schema, "strict": True}}
    shaped = client.chat.completions.create(**ask | {"max_tokens": 40}, response_format=form).choices[0]
    assert json.loads(shaped.message.content)["age"] in (3, 4)
    tool = {"type": "function", "function": {"name": "look", "parameters": schema}}
    called = client.chat.completions.create(**ask | {"max_tokens": 80}, tools=[tool], tool_choice="required").choices[0]
    assert called.message.tool_calls[0].function.name == "look"
    with pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(**ask | {"model": "none"})
    assert caught.value.param == "model" and caught.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError):
        client.chat.completions.create(**ask, extra_body={"surprise": 1})
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="wrong").chat.completions.create(**ask)


def openai_completions(client: Any) -> None:
    ask: dict[str, Any] = {"model": "chat", "prompt": "ab", "max_tokens": 4, "temperature": 0}  # writes no end
    found = client.completions.create(**ask, n=2, extra_body={"priority": -1})
    assert len(found.choices) == 2 and found.usage.completion_tokens == 8


def openai_embeddings(client: Any) -> None:
    found = client.embeddings.create(model="embedder", input=["the cat", "a boat"])  # asks for base64 by itself
    assert [len(entry.embedding) for entry in found.data] == [64, 64]


def openai_transcriptions(client: Any) -> None:
    with SOUND.open("rb") as file:
        found = client.audio.transcriptions.create(
            model="speech", file=file, response_format="verbose_json", timestamp_granularities=["word"]
        )
    assert "snow" in found.text and found.words[0].word


def openai_realtime(client: Any) -> None:
    from pyapp.audio import open_audio
    from pyapp.audio.resampling import resample

    with open_audio(str(SOUND)) as reader:
        sound = b"".join((resample(block, 16_000, 24_000) * 32767).astype("<i2").tobytes() for block in reader)
    with client.realtime.connect(model="speech", extra_query={"intent": "transcription"}) as connection:
        assert connection.recv().type == "session.created"
        detection: dict[str, Any] = {"audio": {"input": {"turn_detection": None}}}
        connection.session.update(session={"type": "transcription", **detection})
        connection.input_audio_buffer.append(audio=base64.b64encode(sound).decode())
        connection.input_audio_buffer.commit()
        for event in connection:
            assert event.type != "error", event
            if event.type == "conversation.item.input_audio_transcription.completed":
                assert "snow" in event.transcript
                return


OPENAI: dict[str, Callable[[Any], None]] = {
    "/v1/models": openai_models, "/v1/models/{name}": openai_model, "/v1/chat/completions": openai_chat,
    "/v1/completions": openai_completions, "/v1/embeddings": openai_embeddings,
    "/v1/audio/transcriptions": openai_transcriptions, "/v1/realtime": openai_realtime,
}  # fmt: skip


@pytest.mark.parametrize("route", OPENAI)
def test_openai(server: Process, route: str) -> None:
    openai = pytest.importorskip("openai")
    OPENAI[route](openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="secret", max_retries=0))


# -- huggingface_hub's InferenceClient


def hub_generate(client: Any, url: str) -> None:
    text = client.text_generation("hello", max_new_tokens=5, model=f"{url}/generate")
    assert len(text) == 5
    details = client.text_generation("hello", max_new_tokens=5, details=True, model=f"{url}/generate").details
    assert details.generated_tokens == len(details.tokens) == 5


def hub_stream(client: Any, url: str) -> None:
    assert (
        len("".join(client.text_generation("hello", max_new_tokens=5, stream=True, model=f"{url}/generate_stream")))
        == 5
    )


def hub_root(client: Any, url: str) -> None:
    text = client.text_generation("hello", max_new_tokens=5)
    assert "".join(client.text_generation("hello", max_new_tokens=5, stream=True)) == text
    assert client.automatic_speech_recognition(str(SOUND)).text.startswith("There will be snow")
    assert client.feature_extraction("the cat").shape == (1, 64)
    near, far = client.sentence_similarity("a cat slept", other_sentences=["the cat", "bread"])
    assert near > far


def hub_chat(client: Any, url: str) -> None:
    found = client.chat_completion(HELLO, max_tokens=5)
    assert found.usage.completion_tokens == 5  # drawn: it may be half a character


def hub_embed(client: Any, url: str) -> None:
    assert client.feature_extraction("the cat", model=f"{url}/embed").shape == (1, 64)


def hub_similarity(client: Any, url: str) -> None:
    found = client.sentence_similarity("a cat slept", other_sentences=["the cat", "bread"], model=f"{url}/similarity")
    assert found[0] > found[1]


HUB: dict[str, Callable[[Any, str], None]] = {
    "/generate": hub_generate, "/generate_stream": hub_stream, "/": hub_root, "/v1/chat/completions": hub_chat,
    "/embed": hub_embed, "/similarity": hub_similarity,
}  # fmt: skip


@pytest.mark.parametrize("route", HUB)
def test_hugging_faces_client(server: Process, route: str) -> None:
    hub = pytest.importorskip("huggingface_hub")
    url = f"http://127.0.0.1:{server.port}"
    HUB[route](hub.InferenceClient(url, token="secret"), url)


# -- curl: the examples of the description


def routes() -> dict[tuple[str, str], Any]:
    from pyapp.serve.openapi import ROUTES

    return {(method, path.replace("{name:path}", "{name}")): route for (method, path), route in ROUTES.items()}


def test_curl(server: Process) -> None:
    if shutil.which("curl") is None:
        pytest.skip("needs curl")
    for (method, path), route in routes().items():
        command = ["curl", "-sS", "-X", method, "-H", "Authorization: Bearer secret", "-w", "\n%{http_code}"]
        if route.form:
            command += ["-F", f"file=@{SOUND}"]
        elif route.example is not None:
            command += ["-H", "Content-Type: application/json", "-d", json.dumps(dict(route.example))]
        command.append(f"http://127.0.0.1:{server.port}" + path.replace("{name}", "chat"))
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
        text, _, status = done.stdout.rpartition("\n")
        refused = path in ("/predict", "/v1/audio/translations")  # no model here does that: refused by name
        assert status == ("404" if path == "/predict" else "400" if refused else "200"), (path, done.stdout)
        assert ("error" in json.loads(text)) if refused else text, path


def test_websockets(server: Process) -> None:
    """The key in a header, and as browsers give it; none is refused with a status."""
    client = pytest.importorskip("websockets.sync.client")
    from websockets.exceptions import InvalidStatus

    url = f"ws://127.0.0.1:{server.port}/v1/realtime"
    key: Any = "openai-insecure-api-key.secret"
    for more in ({"additional_headers": {"Authorization": "Bearer secret"}}, {"subprotocols": ["realtime", key]}):
        with client.connect(url, **more) as socket:
            assert json.loads(socket.recv())["type"] == "session.created"
            assert socket.subprotocol == ("realtime" if "subprotocols" in more else None)
    with pytest.raises(InvalidStatus) as caught:
        client.connect(url)
    assert caught.value.response.status_code == 401
    assert json.loads(caught.value.response.body)["error"]["code"] == "invalid_api_key"


# -- the table of the documentation


def table() -> str:
    found = ["| route | clients in the tests |", "| --- | --- |"]
    for method, path in [*routes(), ("WEBSOCKET", "/v1/realtime")]:
        curl = ["curl"] if method != "WEBSOCKET" else ["websockets"]
        hub = ["huggingface_hub"] if path in HUB else []
        found.append(f"| {method} `{path}` | {', '.join([*(['openai'] if path in OPENAI else []), *hub, *curl])} |")
    return "\n".join(found)


TABLE = re.compile(r"\| route \| clients in the tests \|\n(?:\|.*\n)+")


def test_the_table_of_routes_is_that_of_the_documentation() -> None:
    pytest.importorskip("starlette")
    [found] = TABLE.findall(DOCS.read_text(encoding="utf-8"))
    assert found.strip() == table(), "run python -m tests.serve.test_clients"


if __name__ == "__main__":
    DOCS.write_text(TABLE.sub(table() + "\n", DOCS.read_text(encoding="utf-8")), encoding="utf-8")
