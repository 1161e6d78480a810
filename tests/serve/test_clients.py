"""A real server and the clients that people use: the package openai, huggingface_hub, curl, and a websocket.

docs/serving.md has the table of the routes and the clients that are tested here; `python -m tests.serve.test_clients`
writes it.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp.audio import read_wav
from pyapp.formats.png import encode_png
from pyapp.vision.reading import read_image
from tests.models.diffusion_cases import start_picture
from tests.serve.conftest import ROOT, Process

pytestmark = pytest.mark.native_only

SOUND = ROOT / "web/models/speech/samples/weather.wav"
PICTURE = ROOT / "web/models/reader/samples/bill.png"
RECORDED = Path(__file__).with_name("golden_anthropic.json")  # what Anthropic's clients have sent
DOCS = ROOT / "docs/serving.md"
HELLO: list[dict[str, str]] = [{"role": "user", "content": "hello"}]


@pytest.fixture(scope="module")
def server(keyed_server: Process) -> Process:
    pytest.importorskip("websockets")
    return keyed_server


# -- the package openai


def openai_models(client: Any) -> None:
    assert [model.id for model in client.models.list()] == ["chat", "embedder", "voice", "painter", "speech"]


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
    spoken_chat(client, ask | {"max_tokens": 60})
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


def spoken_chat(client: Any, ask: dict[str, Any]) -> None:
    """An answer as a file, and as samples while it is written; and a request that refers to it."""
    import openai

    more: Any = {**ask, "modalities": ["text", "audio"]}
    message = client.chat.completions.create(**more, audio={"voice": "alloy", "format": "wav"}).choices[0].message
    samples, rate = read_wav(base64.b64decode(message.audio.data))
    assert message.content is None and rate == 16000 and len(samples) and message.audio.expires_at
    raw = client.chat.completions.create(**more, audio={"voice": "alloy", "format": "pcm16"}).choices[0].message
    said, pcm, reasons = "", b"", []
    for part in client.chat.completions.create(**more, audio={"voice": "alloy", "format": "pcm16"}, stream=True):
        sound = part.choices[0].delta.model_dump().get("audio") or {}
        said += sound.get("transcript") or ""
        pcm += base64.b64decode(sound.get("data") or "")
        reasons.append(part.choices[0].finish_reason)
    assert said == message.audio.transcript == raw.audio.transcript and reasons[-1] == "length"
    assert len(pcm) == len(base64.b64decode(raw.audio.data)) > 0 and len(pcm) / 48000 >= len(samples) / rate
    counts = {
        client.chat.completions.create(
            **ask | {"max_tokens": 1, "messages": [*HELLO, {"role": "assistant", **told}, *HELLO]}
        ).usage.prompt_tokens
        for told in ({"audio": {"id": message.audio.id}}, {"content": said})
    }
    assert len(counts) == 1
    for wrong, told in (
        ({"modalities": ["text", "audio"]}, "audio"), ({"audio": {"voice": "a", "format": "wav"}}, "audio"),
        ({"modalities": ["audio"]}, "modalities"), (more | {"n": 2, "audio": {"voice": "a", "format": "wav"}}, "n"),
        (more | {"stream": True, "audio": {"voice": "a", "format": "wav"}}, "audio.format"),
    ):  # fmt: skip
        with pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(**ask | wrong)
        assert caught.value.param == told
    with pytest.raises(openai.NotFoundError):
        client.chat.completions.create(**ask | {"messages": [{"role": "assistant", "audio": {"id": "x"}}, *HELLO]})


FORM: Any = {"type": "object", "properties": {"age": {"enum": [3, 4]}}, "required": ["age"],
             "additionalProperties": False}  # fmt: skip
LOOK: Any = {"type": "function", "name": "look", "parameters": FORM, "strict": True}


def openai_responses(client: Any) -> None:
    import openai
    from pydantic import BaseModel

    ask: Any = {"model": "chat", "input": "hello", "max_output_tokens": 5, "temperature": 0}
    whole = client.responses.create(**ask)
    assert len(whole.output_text) == 5 and whole.incomplete_details.reason == "max_output_tokens"
    parts = client.responses.create(**ask, stream=True)
    assert "".join(part.delta for part in parts if part.type == "response.output_text.delta") == whole.output_text
    second = client.responses.create(**ask | {"input": "more"}, previous_response_id=whole.id)
    assert second.usage.input_tokens > whole.usage.input_tokens + 5
    long = ask | {"max_output_tokens": 80}
    called = client.responses.create(**long, tools=[LOOK], tool_choice="required").output[0]
    assert called.name == "look" and json.loads(called.arguments)["age"] in (3, 4)
    result: Any = {"type": "function_call_output", "call_id": called.call_id, "output": "four"}
    assert client.responses.create(
        **ask | {"input": [{"role": "user", "content": "hello"}, called, result]}
    ).output_text

    class Child(BaseModel):
        age: int

    with client.responses.stream(**long, text_format=Child, extra_body={"regex": None}) as stream:
        kinds = [event.type for event in stream]
        found = stream.get_final_response()
    assert kinds[:2] == ["response.created", "response.in_progress"] and kinds[-1] == "response.completed"
    assert isinstance(found.output_parsed, Child) and found.output_parsed == Child(age=found.output_parsed.age)
    with pytest.raises(openai.NotFoundError) as caught:
        client.responses.create(**ask, previous_response_id="resp_of_another_replica")
    assert caught.value.param == "previous_response_id" and caught.value.code == "previous_response_not_found"
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(**ask, background=True)
    assert refused.value.param == "background"


def openai_response(client: Any) -> None:
    import openai

    made = client.responses.create(model="chat", input="hello", max_output_tokens=2)
    assert client.responses.retrieve(made.id).output_text == made.output_text
    client.responses.delete(made.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(made.id)


def openai_input_items(client: Any) -> None:
    made = client.responses.create(model="chat", max_output_tokens=2, input=[
        {"role": "user", "content": str(number)} for number in range(5)])  # fmt: skip
    pages = client.responses.input_items.list(made.id, limit=2, order="asc")  # which asks for the pages after
    assert [item.content[0].text for item in pages] == list("01234")


def openai_input_tokens(client: Any) -> None:
    made = client.responses.create(model="chat", input="hello", max_output_tokens=2)
    assert client.responses.input_tokens.count(model="chat", input="hello").input_tokens == made.usage.input_tokens


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


def openai_speech(client: Any) -> None:
    ask: dict[str, Any] = {"model": "voice", "voice": "alloy", "input": "It is so. That is it."}
    found = client.audio.speech.create(**ask, response_format="wav", speed=2.0)
    assert found.content.startswith(b"RIFF")
    with client.audio.speech.with_streaming_response.create(**ask, response_format="pcm") as answer:
        assert len(b"".join(answer.iter_bytes())) > 1000


def openai_generations(client: Any) -> None:
    ask: dict[str, Any] = {"model": "painter", "prompt": "a red cat", "size": "16x24", "extra_body": {"steps": 2}}
    found = client.images.generate(**ask, n=2)
    assert [read_image(base64.b64decode(picture.b64_json)).shape for picture in found.data] == [(24, 16, 3)] * 2
    [event] = client.images.generate(**ask, stream=True)
    assert event.type == "image_generation.completed" and event.size == "16x24"


def openai_edits(client: Any) -> None:
    picture, mask = start_picture()
    files = [encode_png(pixels) for pixels in (picture, np.concatenate([picture, 255 - mask[..., None]], 2))]
    ask: dict[str, Any] = {"model": "painter", "prompt": "a red cat", "extra_body": {"steps": 2, "seed": 5}}
    found = [
        client.images.edit(image=image, **ask, **more).data[0].b64_json
        for image, more in ((files[0], {}), ([files[0]], {}), (files[1], {}), (files[1], {"mask": files[1]}))
    ]
    assert read_image(base64.b64decode(found[0])).shape == (20, 18, 3)
    assert found[0] == found[1] != found[2] and found[2] == found[3]


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
    "/v1/completions": openai_completions, "/v1/responses": openai_responses, "/v1/responses/{id}": openai_response,
    "/v1/responses/{id}/input_items": openai_input_items, "/v1/responses/input_tokens": openai_input_tokens,
    "/v1/embeddings": openai_embeddings,
    "/v1/audio/transcriptions": openai_transcriptions, "/v1/audio/speech": openai_speech,
    "/v1/realtime": openai_realtime, "/v1/images/generations": openai_generations,
    "/v1/images/edits": openai_edits,
}  # fmt: skip


@pytest.mark.parametrize("route", OPENAI)
def test_openai(server: Process, route: str) -> None:
    openai = pytest.importorskip("openai")
    OPENAI[route](openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="secret", max_retries=0))


def test_the_asynchronous_client(server: Process) -> None:
    openai = pytest.importorskip("openai")
    ask: Any = {"model": "chat", "input": "hello", "max_output_tokens": 5, "temperature": 0}

    async def talk() -> None:
        url = f"http://127.0.0.1:{server.port}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="secret", max_retries=0) as client:
            whole, other = await asyncio.gather(*[client.responses.create(**ask) for _ in range(2)])
            assert whole.output_text == other.output_text and whole.id != other.id
            parts = [event async for event in await client.responses.create(**ask, stream=True)]
            assert (
                "".join(part.delta for part in parts if part.type == "response.output_text.delta") == whole.output_text
            )
            assert parts[-1].type == "response.incomplete" and parts[-1].response.output_text == whole.output_text
            long = ask | {"max_output_tokens": 80}
            async with client.responses.stream(**long, tools=[LOOK], tool_choice="required") as stream:
                deltas = [
                    event.delta async for event in stream if event.type == "response.function_call_arguments.delta"
                ]
                found = await stream.get_final_response()
            assert "".join(deltas) == found.output[0].arguments and found.output[0].parsed_arguments["age"] in (3, 4)

    asyncio.run(talk())


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
    more = {"return_timestamps": "word", "generation_parameters": {"temperature": 0, "num_beams": 1}}
    heard = client.automatic_speech_recognition(str(SOUND), extra_body=more)
    assert "".join(chunk.text for chunk in heard.chunks).strip() == heard.text and heard.chunks[0].timestamp[0] >= 0
    assert client.feature_extraction("the cat").shape == (1, 64)
    near, far = client.sentence_similarity("a cat slept", other_sentences=["the cat", "bread"])
    assert near > far


def hub_model(client: Any, url: str) -> None:
    assert len(client.text_generation("hello", max_new_tokens=5, model=f"{url}/models/chat")) == 5
    heard = client.automatic_speech_recognition(str(SOUND), model=f"{url}/models/speech")
    assert heard.text.startswith("There will be snow")
    assert client.feature_extraction("the cat", model=f"{url}/models/embedder").shape == (1, 64)


def hub_chat(client: Any, url: str) -> None:
    found = client.chat_completion(HELLO, max_tokens=5, temperature=0)
    assert found.usage.completion_tokens == 5 == len(found.choices[0].message.content)


def hub_embed(client: Any, url: str) -> None:
    assert client.feature_extraction("the cat", model=f"{url}/embed").shape == (1, 64)


def hub_similarity(client: Any, url: str) -> None:
    found = client.sentence_similarity("a cat slept", other_sentences=["the cat", "bread"], model=f"{url}/similarity")
    assert found[0] > found[1]


HUB: dict[str, Callable[[Any, str], None]] = {
    "/generate": hub_generate, "/generate_stream": hub_stream, "/": hub_root, "/models/{name}": hub_model,
    "/v1/chat/completions": hub_chat, "/embed": hub_embed, "/similarity": hub_similarity,
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
    made = json.loads(server.post("/v1/responses", {"input": "a"}, Authorization="Bearer secret").read())["id"]
    kept = [*routes().items()]
    kept.sort(key=lambda entry: entry[0][0] == "DELETE")  # what the others ask for
    for (method, path), route in kept:
        command = ["curl", "-sS", "-X", method, "-H", "Authorization: Bearer secret", "-w", "\n%{http_code}"]
        if path == "/v1/images/edits":
            command += ["-F", f"image=@{PICTURE}", "-F", "prompt=a cat", "-F", "size=16x16", "-F", "steps=2"]
        elif route.form:
            command += ["-F", f"file=@{SOUND}"]
        elif route.example is not None:
            command += ["-H", "Content-Type: application/json", "-d", json.dumps(dict(route.example))]
        command.append(f"http://127.0.0.1:{server.port}" + path.replace("{name}", "chat").replace("{id}", made))
        done = subprocess.run(command, capture_output=True, timeout=60, check=True)
        text, _, status = done.stdout.decode("utf-8", "replace").rpartition("\n")
        lacking = path in ("/predict", "/classify", "/v1/forecast")
        refused = lacking or path in ("/v1/audio/translations", "/infill")  # no model here does that: refused by name
        assert status == ("404" if lacking else "400" if refused else "200"), (path, done.stdout)
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
    sent = {request["path"].replace("/chat", "/{name}") for request in json.loads(RECORDED.read_text(encoding="utf-8"))}
    found = ["| route | clients in the tests |", "| --- | --- |"]
    for method, path in [*routes(), ("WEBSOCKET", "/v1/realtime")]:
        curl = ["curl"] if method != "WEBSOCKET" else ["websockets"]
        hub = ["huggingface_hub"] if path in HUB else []
        own = [*(["openai"] if path in OPENAI else []), *(["anthropic"] if path in sent else []), *hub, *curl]
        found.append(f"| {method} `{path}` | {', '.join(own)} |")
    return "\n".join(found)


TABLE = re.compile(r"\| route \| clients in the tests \|\n(?:\|.*\n)+")


def test_the_table_of_routes_is_that_of_the_documentation() -> None:
    pytest.importorskip("starlette")
    [found] = TABLE.findall(DOCS.read_text(encoding="utf-8"))
    assert found.strip() == table(), "run python -m tests.serve.test_clients"


if __name__ == "__main__":
    DOCS.write_text(TABLE.sub(table() + "\n", DOCS.read_text(encoding="utf-8")), encoding="utf-8")
