"""A real server and several of OpenAI's clients at once: each gets what it gets alone."""

from __future__ import annotations

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
    for name in ("starlette", "uvicorn", "multipart", "prometheus_client"):
        pytest.importorskip(name)
    found = Process(f"chat={model_folders['chat']}", "speech")
    try:
        yield found
    finally:
        found.process.kill()
        found.process.wait()


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
    found = at_once([lambda sound=sound: transcript(client, sound) for sound in 2 * recordings])  # type: ignore[misc]
    assert found == 2 * alone
    more = server.metric("pyapp_sound_windows_total") - windows
    assert more == 2 * windows
    assert server.metric("pyapp_sound_passes_total") - passes < more
