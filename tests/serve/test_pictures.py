"""Pictures and recordings in requests: the answers of tasks.chat, alone and in company, what is shared, and what is
refused.
"""

from __future__ import annotations

import asyncio
import base64
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from pyapp import tasks
from pyapp.audio import read_wav, write_wav
from pyapp.errors import ArgumentError, OptionError
from pyapp.formats.png import encode_png
from tests.models.projector_files import PROJECTOR, write_both
from tests.models.test_sound_texts import recording
from tests.models.test_sound_texts import write as write_hearing
from tests.serve.in_process import serving
from tests.text.chat_model import write_chat_model
from tests.text.picture_chat_model import IDS, SIZES, TEMPLATES, conversation, photo, write_picture_chat_model
from tests.together import collect

pytestmark = pytest.mark.native_only

ANEW = "paligemma", "mllama"  # whose prompts are read anew where their ends or their pictures change
SETTINGS = {"temperature": 0, "max_tokens": 12, "suppress_tokens": list(IDS.values())}


def url(picture: np.ndarray) -> str:
    return "data:image/png;base64," + base64.b64encode(encode_png(picture)).decode()


def messages(seeds: tuple[int, int] = (0, 0)) -> list[dict[str, Any]]:
    """The conversation with pictures as data: URLs."""
    shown = [url(photo(*size, seed)) for size, seed in zip(SIZES, seeds, strict=True)]
    found = conversation(shown)
    for message in found:
        for i, part in enumerate(message["content"]):
            if part["type"] == "image":
                message["content"][i] = {"type": "image_url", "image_url": {"url": part["image"], "detail": "low"}}
    return found


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("models")
    found = {kind: write_picture_chat_model(folder / kind, kind) for kind in (*TEMPLATES, *ANEW)}
    write_chat_model(folder / "text", dim=32)
    write_picture_chat_model(folder / "lacking", "llava")
    (folder / "lacking" / "preprocessor_config.json").unlink()
    return found | {name: folder / name for name in ("text", "lacking")}


@pytest.fixture(scope="module", params=["float32", "q8_0"])
def served(request: pytest.FixtureRequest, folders: dict[str, Path]) -> Iterator[Any]:
    """An application in this process: with the models as they are, and with their weights in q8_0."""
    dtype = "q8_0" if request.param == "q8_0" else None
    models = tuple(f"{name}={folder}" for name, folder in folders.items())
    with serving(*models, dtype=dtype, lookup=3) as found:
        found.dtype = dtype
        yield found


def ask(client: Any, kind: str, said: Any, **more: Any) -> dict[str, Any]:
    answer = client.post("/v1/chat/completions", json={"model": kind, "messages": said, **SETTINGS, **more})
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def text_of(answer: dict[str, Any]) -> str:
    found: str = answer["choices"][0]["message"]["content"]
    return found


def by_task(folder: Path, said: Any, dtype: str | None) -> str:
    """What tasks.chat answers."""

    async def collect() -> Any:
        tasks.unload()
        async for event in tasks.load(folder, dtype=dtype):
            assert event.type != "error", event
        settings = {"temperature": 0, "max_new_tokens": 12, "suppress_tokens": SETTINGS["suppress_tokens"]}
        return [event async for event in tasks.chat(folder, said, settings)][-1]

    done = asyncio.run(collect())
    assert done.type == "done", done
    found: str = done.results["text"]
    return found


@pytest.mark.parametrize("kind", [*TEMPLATES, *ANEW])
def test_answers_alone_and_in_company(served: Any, folders: dict[str, Path], kind: str) -> None:
    if served.dtype is None:
        assert text_of(ask(served, kind, messages())) == by_task(folders[kind], messages(), None)
    several = ((0, 0), (0, 1), (2, 0), (3, 4))
    alone = {seeds: scored(served, kind, seeds) for seeds in several}
    assert len({str(found) for found in alone.values()}) == 4
    runner = served.context.models.by_name[kind].runner
    runner._forget()
    together: dict[Any, Any] = {}
    threads = [
        threading.Thread(target=lambda seeds=seeds: together.update({seeds: scored(served, kind, seeds)}))
        for seeds in several
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert together == alone


def scored(client: Any, kind: str, seeds: tuple[int, int]) -> list[tuple[str, float]]:
    """The tokens of an answer with their log-probabilities, to the last bit."""
    found = ask(client, kind, messages(seeds), logprobs=True)["choices"][0]["logprobs"]["content"]
    return [(entry["token"], entry["logprob"]) for entry in found]


def test_beginnings_are_shared_up_to_another_picture(served: Any) -> None:
    runner = None
    for kind in TEMPLATES:
        ask(served, kind, messages((5, 5)))
        runner = served.context.models.by_name[kind].runner
        again = ask(served, kind, messages((5, 5)))["usage"]
        other = ask(served, kind, messages((6, 5)))["usage"]
        if runner.rows_alike:
            assert again["prompt_tokens_details"]["cached_tokens"] >= again["prompt_tokens"] // 32 * 32 - 32
        assert other["prompt_tokens_details"]["cached_tokens"] < 64  # the first picture is in the first blocks
        assert again["prompt_tokens"] == other["prompt_tokens"]
        assert served.context.bytes_of_pictures == 0
    assert runner is not None
    ask(served, "paligemma", messages((5, 5)))  # whose prompts attend to all of themselves: only the same is shared
    said = messages((5, 5))
    said[-1]["content"][-1]["text"] += " Or not?"
    other, again = (ask(served, "paligemma", one)["usage"] for one in (said, messages((5, 5))))
    assert other.get("prompt_tokens_details", {}).get("cached_tokens", 0) == 0
    if served.context.models.by_name["paligemma"].runner.rows_alike:
        assert again["prompt_tokens_details"]["cached_tokens"] >= again["prompt_tokens"] // 32 * 32 - 32


def test_streams_and_several_answers(served: Any) -> None:
    whole = text_of(ask(served, "gemma3", messages()))
    body = {"model": "gemma3", "messages": messages(), **SETTINGS, "stream": True}
    lines = served.post("/v1/chat/completions", json=body).text
    assert whole and lines.endswith("data: [DONE]\n\n")
    both = ask(served, "llava", messages(), n=2)["choices"]
    assert both[0]["message"] == both[1]["message"]


def test_responses_and_cohere(served: Any) -> None:
    [first, *_] = messages()
    expected = text_of(ask(served, "llava", [first]))
    given = [
        {"type": "input_text", "text": part["text"]} if part["type"] == "text"
        else {"type": "input_image", "image_url": part["image_url"]["url"]}
        for part in first["content"]
    ]  # fmt: skip
    more = {"temperature": 0, "max_output_tokens": 12, "suppress_tokens": SETTINGS["suppress_tokens"]}
    body = {"model": "llava", "input": [{"role": "user", "content": given}], **more}
    answer = served.post("/v1/responses", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.json()["output"][-1]["content"][0]["text"] == expected
    # An answer that goes on from the first one has its pictures.
    further = body | {"input": "And now?", "previous_response_id": answer.json()["id"]}
    second = served.post("/v1/responses", json=further).json()
    assert second["usage"]["input_tokens"] > answer.json()["usage"]["input_tokens"] + 12
    items = served.get(f"/v1/responses/{answer.json()['id']}/input_items").json()["data"]
    assert [part["type"] for part in items[0]["content"]] == ["input_image", "input_text"] * 2
    cohere = {"model": "llava", "messages": [first], "temperature": 0, "max_tokens": 12}
    found = served.post("/v2/chat", json=cohere)
    assert found.status_code == 200, found.text


def test_tasks_ask_a_server(served: Any, folders: dict[str, Path], tmp_path: Path) -> None:
    """The client of another process sends pictures as data: URLs."""
    from pyapp.serve.client import with_addresses

    path = tmp_path / "photo.png"
    path.write_bytes(encode_png(photo(*SIZES[0])))
    sent = with_addresses(conversation([path, photo_tensor()])[0])
    assert text_of(ask(served, "llava", [sent])) == text_of(ask(served, "llava", messages()[:1]))
    assert with_addresses({"role": "user", "content": "Hi"}) == {"role": "user", "content": "Hi"}


def test_recordings(tmp_path: Path) -> None:
    """A model that hears answers about a recording as without a server; so do samples that the client sends."""
    for name in ("starlette", "multipart", "httpx2"):
        pytest.importorskip(name)

    from pyapp.serve.client import with_addresses

    folder, file = write_hearing(tmp_path / "hearing", "voxtral"), tmp_path / "sound.wav"
    write_wav(file, recording(8000), 16000)
    asked = [{"type": "audio", "audio": str(file)}, {"type": "text", "text": "es?"}]
    said = [{"role": "user", "content": asked}]
    options = {"temperature": 0.0, "max_new_tokens": 6}
    wanted = collect(tasks.chat(str(folder), said, options))[-1].results["text"]
    with serving(f"hears=generate:{folder}") as client:
        samples = read_wav(file)[0][:, 0]
        for source in (str(file), file.read_bytes(), samples):
            sent = with_addresses({"role": "user", "content": [{"type": "audio", "audio": source}, asked[1]]})
            assert sent["content"][0]["type"] == "input_audio"
            answer = client.post(
                "/v1/chat/completions", json={"model": "hears", "messages": [sent], "temperature": 0, "max_tokens": 6}
            )
            assert answer.status_code == 200 and text_of(answer.json()) == wanted, answer.text
        sent["content"][0]["input_audio"]["data"] = base64.b64encode(b"no sound at all").decode()
        answer = client.post("/v1/chat/completions", json={"model": "hears", "messages": [sent]})
        assert answer.status_code == 400 and answer.json()["error"]["param"] == "messages", answer.text


def photo_tensor() -> Any:
    import pyapp

    return pyapp.from_numpy(photo(*SIZES[1]))


def test_what_is_refused(served: Any, folders: dict[str, Path]) -> None:
    def refusal(kind: str, content: Any, role: str = "user", status: int = 400) -> tuple[str, str | None]:
        said = [{"role": role, "content": content}]
        answer = served.post("/v1/chat/completions", json={"model": kind, "messages": said, **SETTINGS})
        assert answer.status_code == status, answer.text
        error = answer.json()["error"]
        assert str(folders["llava"].parent) not in error["message"]
        return error["message"], error["code"]

    def picture(address: Any) -> dict[str, Any]:
        return {"type": "image_url", "image_url": address}

    good = picture({"url": url(photo(*SIZES[0]))})
    message, code = refusal("text", [good])
    assert "messages: this model reads no pictures (the model 'text')" in message and code == "unsupported_content"
    assert "preprocessor_config.json is missing" in refusal("lacking", [good])[0]
    for address in ("https://example.org/a.png", "file:///etc/passwd", "/etc/passwd", "DATA:image/png,abc"):
        message, _ = refusal("llava", [picture({"url": address})])
        assert message.startswith("messages[0].content[0]: "), message
    assert "a data: URL in image_url" in refusal("llava", [picture({})])[0]
    assert "not base64" in refusal("llava", [picture({"url": "data:image/png;base64,%%"})])[0]
    message, _ = refusal("llava", [picture({"url": "data:image/png;base64,AAAA"})])
    assert message.startswith("messages: this is not a picture that can be read")
    head = encode_png(np.zeros((1, 1, 3), np.uint8))
    part = b"IHDR" + (7_000).to_bytes(4, "big") * 2 + head[24:29]
    large = head[:12] + part + crc32(part).to_bytes(4, "big") + head[33:]
    message, _ = refusal("llava", [picture({"url": "data:image/png;base64," + base64.b64encode(large).decode()})])
    assert message.startswith("messages: the picture has 7,000 x 7,000 pixels, at most 33,554,432 are read")
    message, code = refusal("llava", [good] * 70)
    assert "70 pictures take 1,120 tokens or more" in message and code == "context_length_exceeded"
    assert "not 'image_url'" in refusal("llava", [good], role="system")[0]
    assert "comes as input_audio with data" in refusal("llava", [{"type": "input_audio"}])[0]
    for data, told in (("%%", "data is not base64"), ("AAAA", "this model reads no recordings")):
        assert told in refusal("llava", [{"type": "input_audio", "input_audio": {"data": data}}])[0]
    files = [{"role": "user", "content": [{"type": "input_image", "file_id": "file-1"}]}]
    answer = served.post("/v1/responses", json={"model": "llava", "input": files})
    assert answer.status_code == 400 and "input[0].content[0]: a picture comes as a data: URL" in answer.text


def test_a_picture_that_the_tower_does_not_take_ends_its_text_alone(served: Any, monkeypatch: Any) -> None:
    """Others in the same turn go on, and so does the next request."""
    expected = scored(served, "idefics3", (0, 0))
    model = served.context.models.by_name["idefics3"].loaded.model
    see, calls = model.picture_features, []

    def fails(values: Any) -> Any:
        calls.append(values.shape[0])
        if len(calls) == 2:
            raise ArgumentError("no such picture")
        return see(values)

    monkeypatch.setattr(model, "picture_features", fails)
    found: dict[int, Any] = {}

    def run(seed: int) -> None:
        body = {"model": "idefics3", "messages": messages((seed, seed)), **SETTINGS}
        found[seed] = served.post("/v1/chat/completions", json=body)

    threads = [threading.Thread(target=run, args=(seed,)) for seed in (7, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status_code for answer in found.values()) == [200, 500], [one.text for one in found.values()]
    assert max(calls) == 4 and len(calls) > 4  # tiles in a turn
    assert scored(served, "idefics3", (0, 0)) == expected


def test_pictures_that_wait_are_limited(served: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(served.context, "bytes_of_pictures", (1 << 30) - 1000)
    body = {"model": "llava", "messages": messages(), **SETTINGS}
    answer = served.post("/v1/chat/completions", json=body)
    assert answer.status_code == 429 and "pictures of 1,023 MiB wait or run" in answer.text


def test_a_model_in_two_files(tmp_path: Path) -> None:
    """Found beside the model, or given, for one language model."""

    from pyapp.serve.context import Context
    from pyapp.serve.settings import Settings

    folder, both = write_both(tmp_path, "gemma3")
    expected = by_task(folder, messages(), None)
    away = shutil.copy(both / PROJECTOR, tmp_path / "away.gguf")
    for model, projector in ((both, None), (both / "model.gguf", away)):
        if projector is not None:
            (both / PROJECTOR).unlink()
        with serving(f"m={model}", projector=projector and str(projector)) as client:
            assert text_of(ask(client, "m", messages())) == expected
    with pytest.raises(OptionError, match="belongs to one language model, and 2 are served"):
        Context(Settings(models=(f"m={both}", f"n={folder}"), preload=False, projector=str(away)))
