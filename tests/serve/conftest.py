"""Servers for the tests: one in this process, one in a process of its own."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import pytest

from tests.models.test_diffusion import write_model as write_painter
from tests.models.test_voices import make as make_voice
from tests.models.test_voices import write as write_voice
from tests.serve.in_process import serving
from tests.text.chat_model import write_chat_model
from tests.text.embedder import write_embedder

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def model_folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("served")
    write_chat_model(folder / "chat", dim=32)
    write_embedder(folder / "embedder")
    write_voice(folder / "voice", "vits", dict(make_voice("vits").state_dict()))
    write_painter(folder / "painter", "one")
    return {name: folder / name for name in ("chat", "embedder", "voice", "painter")}


@pytest.fixture(scope="session")
def client(model_folders: dict[str, Path]) -> Iterator[Any]:
    """A client of an application in this process: a chat model, an embedder, a voice, a model that draws and the
    embedded speech model."""
    models = [f"{name}={folder}" for name, folder in model_folders.items()]
    with serving(*models, "speech", body_bytes=1 << 20, prompt_characters=20_000) as found:
        yield found


class Process:
    """A server in a process; `log` are its lines so far. Tests skip where its packages are missing."""

    def __init__(self, *arguments: str, ready: bool = True) -> None:
        for name in ("starlette", "uvicorn", "multipart", "prometheus_client"):
            pytest.importorskip(name)
        environment = os.environ | {"PYAPP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "pyapp", "serve", "--port", "0", *arguments]
        self.process = subprocess.Popen(command, cwd=ROOT, env=environment, stderr=subprocess.PIPE, text=True)
        self.log: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.port = int(self.wait_for("listening")["url"].rpartition(":")[2])
        if ready:
            self.wait_for("ready")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            self.log.append(json.loads(line) if line.startswith("{") else {"event": line})  # other programs' lines

    def wait_for(self, event: str, seconds: float = 120, **fields: Any) -> dict[str, Any]:
        """The first line of the log with an event and fields."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for line in list(self.log):
                if line["event"] == event and all(line.get(name) == value for name, value in fields.items()):
                    return line
            if self.process.poll() is not None and not self._reader.is_alive():
                break
            time.sleep(0.01)
        raise AssertionError(f"no {event} {fields} in {self.log[-5:]}")

    def connect(self) -> http.client.HTTPConnection:
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def post(self, path: str, body: Any, **headers: str) -> http.client.HTTPResponse:
        """The answer, whose body is not yet read."""
        connection = self.connect()
        connection.request("POST", path, json.dumps(body), {"Content-Type": "application/json", **headers})
        return connection.getresponse()

    def metric(self, name: str) -> float:
        connection = self.connect()
        connection.request("GET", "/metrics", headers={"Authorization": "Bearer secret"})
        lines = connection.getresponse().read().decode().splitlines()
        return sum(float(line.rpartition(" ")[2]) for line in lines if line.partition("{")[0].partition(" ")[0] == name)


@pytest.fixture(scope="session")
def keyed_server(model_folders: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Process]:
    """A server of all models in a process of its own, with the key "secret"."""
    keys = tmp_path_factory.mktemp("keys") / "keys.txt"
    keys.write_text("secret\n")
    models = [f"{name}={folder}" for name, folder in model_folders.items()]
    with Process(*models, "speech", "--api-key-file", str(keys)) as found:
        yield found
