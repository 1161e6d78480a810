"""/v1/audio/speech: whole files and parts, voices, what is refused, and clients that leave."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import time
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp.audio.resampling import resample
from pyapp.audio.speaking import speak
from pyapp.audio.wav import as_pcm, read_wav
from pyapp.models.loading.voice import TASK, load_voice
from tests.models import styled_voice_configs, test_styled_voices
from tests.models.small_models import seeded_model
from tests.models.test_voices import make, write
from tests.serve.in_process import serving

pytestmark = pytest.mark.native_only

TEXT = "It is so. That is it. A hen."
PATH = "/v1/audio/speech"


def ask(client: Any, text: str = TEXT, **fields: Any) -> Any:
    return client.post(
        PATH, json={"model": "voice", "voice": "alloy", "input": text, "response_format": "wav"} | fields
    )


def spoken(answer: Any) -> tuple[bytes, int]:
    """The samples of a WAVE file, and their rate."""
    assert answer.status_code == 200, answer.text
    samples, rate = read_wav(answer.content)
    return as_pcm(samples[:, 0]), rate


@pytest.fixture(scope="module")
def wanted(model_folders: dict[str, Path]) -> Any:
    loaded = load_voice(model_folders["voice"])

    def of(text: str, **options: Any) -> tuple[bytes, int]:
        samples, rate = speak(loaded, text, options)
        return as_pcm(samples), rate

    return of


def test_wave_files(client: Any, wanted: Any) -> None:
    """One sentence is a whole file with a length; several come one by one."""
    answer = ask(client, "It is so.")
    assert spoken(answer) == wanted("It is so.") and answer.headers["content-type"] == "audio/wav"
    assert int(answer.headers["content-length"]) == len(answer.content)
    answer = ask(client)
    assert spoken(answer) == wanted(TEXT) and "content-length" not in answer.headers
    assert spoken(ask(client, speed=0.5, seed=7)) == wanted(TEXT, rate=0.5, seed=7)
    assert spoken(client.post(PATH, json={"input": "it", "response_format": "wav"})) == wanted("it")
    assert "pyapp_spoken_seconds_total" in client.get("/metrics").text


def test_voices_with_names(tmp_path: Path) -> None:
    """Kokoro's, whose config.json names no architecture; phonemes are read."""

    model = seeded_model(styled_voice_configs.CONFIGS["kokoro"], TASK, styled_voice_configs.weights)
    folder = test_styled_voices.write(tmp_path / "styled", dict(model.state_dict()))
    loaded, text = load_voice(folder), styled_voice_configs.PHONEMES
    with serving(str(folder)) as client:
        for voice in ("0", "ef_dora", "af_heart,ef_dora"):
            samples, rate = speak(loaded, text, {"phonemes": True} | ({} if voice == "0" else {"voice": voice}))
            answer = ask(client, text, model="styled", voice=voice, phonemes=True)
            assert spoken(answer) == (as_pcm(samples), rate), voice
        wrong = ask(client, text, model="styled", voice="alloy", phonemes=True)
        assert wrong.status_code == 400 and "such as af_heart" in wrong.text


def test_raw_samples_have_openais_rate(client: Any, wanted: Any) -> None:
    pcm, rate = wanted(TEXT)
    samples = np.frombuffer(pcm, "<i2").astype(np.float32) / np.float32(32768)
    answer = ask(client, response_format="pcm")
    assert answer.headers["content-type"] == "audio/pcm"
    found = np.frombuffer(answer.content, "<i2").astype(np.int32)
    expected = np.frombuffer(as_pcm(resample(samples, rate, 24000)), "<i2")
    assert rate == 16000 and len(found) == len(expected) and np.abs(found - expected).max() <= 1


@pytest.mark.parametrize(("form", "media"), [("mp3", "audio/mpeg"), ("flac", "audio/flac"), ("opus", "audio/ogg")])
def test_compressed_files(client: Any, wanted: Any, form: str, media: str) -> None:
    soundfile = pytest.importorskip("soundfile")
    answer = ask(client, response_format=form)
    assert answer.status_code == 200 and answer.headers["content-type"] == media
    samples, rate = soundfile.read(io.BytesIO(answer.content), dtype="int16")
    pcm, own = wanted(TEXT)
    assert rate == own and abs(len(samples) - len(pcm) // 2) < 0.2 * rate
    if form == "flac":
        assert samples.tobytes() == pcm
    assert client.post(PATH, json={"input": "it"}).headers["content-type"] == "audio/mpeg"  # OpenAI's usual form


def test_server_sent_events(client: Any, wanted: Any) -> None:
    def events(**fields: Any) -> list[Any]:
        answer = ask(client, stream_format="sse", **fields)
        assert answer.headers["content-type"].startswith("text/event-stream")
        return [
            json.loads(line.removeprefix("data: ")) for line in answer.text.split("\n\n") if line.startswith("data")
        ]

    found = events()
    kinds = [event["type"] for event in found]
    assert kinds == [*["speech.audio.delta"] * 3, "speech.audio.done"]
    data = b"".join(base64.b64decode(event["audio"]) for event in found[:-1])
    samples, _ = read_wav(data)
    assert as_pcm(samples[:, 0]) == wanted(TEXT)[0]
    if ask(client, response_format="flac").status_code == 200:
        assert [event["type"] for event in events(response_format="flac")] == kinds[2:]
    refused = ask(client, stream_format="sse", input="—")
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "input")  # before the stream began


def test_what_is_refused(client: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for fields, param, told in (
        ({"input": None}, "input", "missing"), ({"input": ""}, "input", "nothing to say"),
        ({"input": "—"}, "input", "nothing to say"), ({"input": 5}, "input", "a string"),
        ({"input": "x" * 30_000}, "input", "too long"), ({"input": "\ud800"}, "input", "surrogate"),
        ({"response_format": "aac"}, "response_format", "wav, pcm"), ({"speed": 5}, "speed", "from 0.25 to 4"),
        ({"speed": "fast"}, "speed", "a number"), ({"voice": 3}, "voice", "a string"),
        ({"voice": {"name": "x"}}, "voice", "a string"), ({"stream_format": "x"}, "stream_format", "audio, sse"),
        ({"instructions": "cheerfully"}, "instructions", "follows none"), ({"phonemes": True}, "phonemes", "letters"),
        ({"seed": -1}, "seed", "from 0 to"), ({"tempo": 1}, "tempo", "no such field"),
        ({"model": "chat"}, "model", "cannot do this"), ({"model": "gpt"}, "model", "does not exist"),
    ):  # fmt: skip
        body = json.dumps({"model": "voice", "input": "it", "voice": "x", "response_format": "wav"} | fields)
        answer = client.post(PATH, content=body, headers={"Content-Type": "application/json"})
        error = answer.json()["error"]
        assert answer.status_code in (400, 404) and error["param"] == param and told in error["message"], (
            fields,
            error,
        )
    monkeypatch.setattr("pyapp.audio.sound_files.find_spec", lambda name: None)
    answer = ask(client, response_format="mp3")
    assert answer.status_code == 400 and "soundfile" in answer.json()["error"]["message"]
    assert client.post(PATH, json={"input": "it"}).headers["content-type"] == "audio/wav"
    assert not client.context.in_flight


def test_voices(tmp_path: Path) -> None:
    """A model with several voices has them by number; a server with nothing else speaks what / is asked for."""
    folder = write(tmp_path / "several", "vits-speakers", dict(make("vits-speakers").state_dict()))
    loaded = load_voice(folder)
    with serving(f"several={folder}") as client:
        for voice, number in (("3", 3), ({"id": "3"}, 3), (None, 0)):
            samples, rate = speak(loaded, "it", {"speaker": number})
            assert spoken(ask(client, "it", model="several", voice=voice)) == (as_pcm(samples), rate)
        for voice in ("5", "alloy", "-1", "¹", "9" * 20):
            answer = ask(client, "it", model="several", voice=voice)
            assert answer.status_code == 400 and "from 0 to 4" in answer.json()["error"]["message"]
        [entry] = client.get("/v1/models").json()["data"]
        assert entry["task"] == "speak" and entry["voices"] == 5
        answer = client.post("/", json={"inputs": "it", "parameters": {}})
        assert spoken(answer) == (as_pcm(speak(loaded, "it")[0]), rate)
        assert client.post("/", json={"inputs": "it", "parameters": {"do_sample": True}}).status_code == 400


def test_a_client_that_leaves_stops_the_work(tmp_path: Path, model_folders: dict[str, Path]) -> None:
    pytest.importorskip("uvicorn")
    from tests.serve.conftest import Process

    with Process(f"voice={model_folders['voice']}", "--prompt-limit", "1000000") as server:
        answer = server.post(PATH, {"input": "It is so. " * 20000, "response_format": "wav"})
        assert answer.status == 200 and answer.read(4000)[:4] == b"RIFF"
        assert server.metric("pyapp_requests_in_flight") == 1
        answer.close()
        end = time.monotonic() + 20
        while server.metric("pyapp_requests_in_flight") and time.monotonic() < end:
            time.sleep(0.05)
        assert not server.metric("pyapp_requests_in_flight")


@pytest.mark.parametrize("late", [False, True])
def test_an_answer_that_breaks_is_cut(late: bool) -> None:
    """It ends without a last part, so that nobody takes the file for whole."""
    from pyapp.serve.problems import Problem
    from pyapp.serve.speaking import SoundStream

    sent: list[Any] = []
    ended: list[bool] = []

    async def source() -> AsyncGenerator[bytes, None]:
        yield b"RIFF"
        if late:
            await asyncio.sleep(20)
        raise Problem("it broke")

    async def receive() -> Any:
        await asyncio.sleep(20)

    async def send(message: Any) -> None:
        sent.append(message)

    asyncio.run(SoundStream(source(), lambda: ended.append(True), 0.2, "audio/wav")({}, receive, send))
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert sent[1] == {"type": "http.response.body", "body": b"RIFF", "more_body": True} and ended == [True]
    assert (b"content-type", b"audio/wav") in sent[0]["headers"]
