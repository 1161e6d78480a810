"""Live speech over /v1/realtime: the events of OpenAI's interface, and what is refused."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from tests.serve.conftest import ROOT

pytestmark = pytest.mark.native_only

SOUND = ROOT / "web/models/speech/samples/weather.wav"
APPEND, COMMIT = "input_audio_buffer.append", {"type": "input_audio_buffer.commit"}
HEARD = "conversation.item.input_audio_transcription."


@pytest.fixture(scope="module")
def parts() -> list[bytes]:
    """The recording as clients send it, in parts of half a second and an odd number of bytes; then silence."""
    from pyapp.audio import open_audio
    from pyapp.audio.resampling import resample

    with open_audio(str(SOUND)) as reader:
        sound = np.concatenate([*reader, np.zeros(24_000, np.float32)])
    data = (np.clip(resample(sound, 16_000, 24_000), -1, 1) * 32767).astype("<i2").tobytes()
    return [data[start : start + 24_001] for start in range(0, len(data), 24_001)]


@pytest.fixture
def socket(client: Any) -> Iterator[Any]:
    with client.websocket_connect("/v1/realtime?intent=transcription", subprotocols=["realtime"]) as found:
        created = found.receive_json()
        assert created["type"] == "session.created" and created["session"]["type"] == "transcription"
        yield found


def speak(socket: Any, parts: list[bytes]) -> None:
    for part in parts:
        socket.send_json({"type": APPEND, "audio": base64.b64encode(part).decode()})


def until(socket: Any, kind: str) -> list[Any]:
    """The events up to the first of a kind."""
    found: list[Any] = []
    while not found or found[-1]["type"] != kind:
        found.append(socket.receive_json())
        assert len(found) < 100
    return found


def test_an_item_ends_with_a_pause(socket: Any, parts: list[bytes]) -> None:
    speak(socket, parts)
    events = until(socket, HEARD + "completed")
    kinds = [event["type"] for event in events]
    assert kinds[0] == "input_audio_buffer.speech_started" and "input_audio_buffer.speech_stopped" in kinds
    assert kinds.index("input_audio_buffer.committed") < len(kinds) - 1
    deltas = "".join(event["delta"] for event in events if event["type"] == HEARD + "delta")
    assert deltas == events[-1]["transcript"] and "snow" in deltas and not deltas.startswith(" ")
    assert len({event["item_id"] for event in events if "item_id" in event}) == 1
    assert 7.2 < events[-1]["usage"]["seconds"] < 9.2  # the pause is found where a passage of sound ends


def test_items_of_sound_that_is_sent_at_once(socket: Any, parts: list[bytes]) -> None:
    """Pauses end items also where the whole recording comes before it is heard."""
    speak(socket, [b"".join([*parts, *parts])])
    for _ in range(2):
        assert until(socket, HEARD + "completed")[-1]["transcript"].count("snow in the west") == 1


def test_an_item_ends_where_the_client_says(socket: Any, parts: list[bytes]) -> None:
    sound = {"input": {"turn_detection": None, "transcription": {"model": "speech", "language": "en"}}}
    socket.send_json({"type": "session.update", "session": {"type": "transcription", "audio": sound}})
    updated = socket.receive_json()
    assert updated["type"] == "session.updated" and updated["session"]["audio"]["input"]["turn_detection"] is None
    before = None
    for _ in range(2):
        speak(socket, parts)
        socket.send_json(COMMIT)
        events = until(socket, HEARD + "completed")
        assert "snow" in events[-1]["transcript"]
        committed = next(event for event in events if event["type"] == "input_audio_buffer.committed")
        assert committed["previous_item_id"] == before
        before = committed["item_id"]
    socket.send_json({"type": "input_audio_buffer.clear"})
    assert socket.receive_json()["type"] == "input_audio_buffer.cleared"


def test_the_older_form_of_sessions(socket: Any) -> None:
    session = {
        "input_audio_format": "pcm16", "input_audio_transcription": {"model": "speech", "prompt": "weather"},
        "turn_detection": {"type": "server_vad", "threshold": 0.5, "silence_duration_ms": 800},
    }  # fmt: skip
    socket.send_json({"type": "transcription_session.update", "session": session})
    found = socket.receive_json()
    assert found["type"] == "transcription_session.updated"
    assert found["session"]["audio"]["input"]["turn_detection"]["silence_duration_ms"] == 800


def test_wrong_messages_are_answered_and_the_connection_stands(socket: Any) -> None:
    update = {"type": "session.update", "session": {"type": "transcription"}}
    rows: list[tuple[Any, str | None]] = [
        ("{", None),
        ("[]", None),
        ({}, "type"),
        ({"type": "response.create"}, "type"),
        ({"type": APPEND}, "audio"),
        ({"type": APPEND, "audio": "?"}, "audio"),
        ({"type": APPEND, "audio": "AAAA", "more": 1}, "more"),
        (COMMIT, "type"),
        ({"type": "session.update"}, "session"),
        (update | {"session": {"type": "realtime"}}, "session.type"),
        (update | {"session": {"audio": {"input": {"format": {"type": "audio/pcmu"}}}}},
         "session.audio.input.format.type"),
        (update | {"session": {"audio": {"input": {"transcription": {"language": "xx"}}}}}, "language"),
        (update | {"session": {"audio": {"input": {"transcription": {"model": "none"}}}}}, "model"),
        (update | {"session": {"instructions": "sing"}}, "session.instructions"),
    ]  # fmt: skip
    for number, (message, param) in enumerate(rows):
        if isinstance(message, dict):
            message = {**message, "event_id": f"mine-{number}"}
        socket.send_text(message if isinstance(message, str) else json.dumps(message))
        error = socket.receive_json()
        assert error["type"] == "error" and error["error"]["param"] == param, (message, error)
        assert error["error"]["event_id"] == (f"mine-{number}" if isinstance(message, dict) and message else None)
    socket.send_bytes(b"sound")
    assert socket.receive_json()["error"]["code"] == "invalid_type"
    speak(socket, [bytes(4800)])  # it goes on
    socket.send_json(COMMIT)
    assert until(socket, HEARD + "completed")[-1]["transcript"] == ""


def test_what_is_refused_before_the_connection_stands(client: Any) -> None:
    from starlette.testclient import WebSocketDenialResponse

    rows: list[tuple[str, dict[str, str], int]] = [
        ("/v1/realtime?intent=chat", {}, 400),
        ("/v1/realtime?model=none", {}, 404),
        ("/v1/realtime?model=chat", {}, 400),
        ("/v1/realtime", {"origin": "https://elsewhere.example"}, 403),
    ]
    for path, headers, status in rows:
        with pytest.raises(WebSocketDenialResponse) as caught, client.websocket_connect(path, headers=headers):
            pass
        assert caught.value.status_code == status, path
        assert caught.value.json()["error"]["message"], path
    assert client.get("/v1/realtime").status_code == 426
    with client.websocket_connect("/v1/realtime", headers={"origin": "http://testserver"}) as socket:
        assert socket.receive_json()["type"] == "session.created"
    assert client.context.in_flight == 0
