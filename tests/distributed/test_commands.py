"""`pyapp generate` and `pyapp serve` with --tensor-parallel 2: the answers of one process, errors, signals, a process
that is killed.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.distributed.test_two_processes import ROOT
from tests.serve.conftest import Process
from tests.text.chat_model import write_chat_model

pytestmark = pytest.mark.native_only
pytest.importorskip("mpi4py", reason="pip install 'pyapp[distributed]'")
TWO = ("--tensor-parallel", "2")


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("model") / "chat"
    write_chat_model(folder, dim=32)
    return folder


def generate(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pyapp", "generate", *arguments, "-n", "12", "--json", "--seed", "4"]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, input="hello\n")


def test_two_processes_write_what_one_writes(model: Path) -> None:
    texts = []
    for more in ((), TWO):
        ended = generate(str(model), "-p", "-", *more)
        assert ended.returncode == 0, ended.stderr
        events = [json.loads(line) for line in ended.stdout.splitlines()]
        texts.append([event["text"] for event in events if event["type"] == "token"])
    assert texts[0] == texts[1] and len(texts[0]) == 12
    ended = generate(str(model / "nothing"), "-p", "x", *TWO)
    assert ended.returncode == 1 and "no such file" in ended.stderr + ended.stdout
    assert "MPI_ABORT" not in ended.stderr


def test_the_first_process_serves_and_the_others_follow(model: Path) -> None:
    for name in ("starlette", "uvicorn", "multipart", "prometheus_client"):
        pytest.importorskip(name)
    body = {"prompt": "hello", "max_tokens": 8, "temperature": 0, "n": 2}
    answers = []
    for more in ((), TWO):
        server = Process(f"chat={model}", *more)
        try:
            answer = server.post("/v1/completions", body)
            assert answer.status == 200
            answers.append([choice["text"] for choice in json.loads(answer.read())["choices"]])
            server.process.send_signal(signal.SIGTERM)
            assert server.process.wait(120) == 0, server.log
            assert any(line["event"] == "ending" for line in server.log)
        finally:
            server.process.kill()
    assert answers[0] == answers[1]


def test_a_killed_process_ends_the_server_by_its_name(model: Path) -> None:
    server = Process(f"chat={model}", *TWO)
    try:
        rank = next(int(pid) for pid in os.listdir("/proc") if pid.isdecimal() and _is_rank(int(pid), model, "1"))
        os.kill(rank, signal.SIGKILL)
        assert server.process.wait(120) == 137
        assert any("rank 1" in line.get("event", "") for line in server.log), server.log[-3:]
    finally:
        server.process.kill()


def _is_rank(process: int, model: Path, rank: str) -> bool:
    """Whether a process is this rank of the server's run."""
    try:
        environment = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        command = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    here = f"chat={model}".encode() in command and b"pyapp.distributed.process" in command
    return here and f"OMPI_COMM_WORLD_RANK={rank}".encode() in environment
