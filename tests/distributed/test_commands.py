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

import pyapp
from pyapp.formats import open_checkpoint
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


def test_two_processes_train_what_one_trains(model: Path, tmp_path: Path) -> None:
    data = tmp_path / "texts.jsonl"
    lines = [
        {"prompt": f"where is {word}?", "completion": "here " * (i % 3 + 1)} for i, word in enumerate("abcdefghijkl")
    ]
    data.write_text("".join(json.dumps(line) + "\n" for line in lines))
    losses, states = [], []
    for i, more in enumerate(((), ("--hosts", "localhost:2", "--processes", "2"))):
        command = [
            *(sys.executable, "-m", "pyapp", "finetune", str(model), str(data), "-o", str(tmp_path / str(i)), "--json"),
            *("--batch", "2", "--accumulate", "3", "--steps", "4", "--rate", "0.01", "--held-out", "0.2"),
            *("--evaluate-every", "2", "--patience", "9", *more),
        ]
        ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
        assert ended.returncode == 0, ended.stderr
        events = [json.loads(line) for line in ended.stdout.splitlines()]
        assert sum(event["type"] == "done" for event in events) == 1
        losses.append([event["value"] for event in events if event.get("name") in ("loss", "held_out_loss")])
        with open_checkpoint(tmp_path / str(i) / "adapter_model.safetensors") as file:
            states.append({name: file.read(name).clone() for name in file.tensors})
    assert len(losses[0]) == 4 + 3 and losses[1] == pytest.approx(losses[0], abs=1e-4)
    assert all(pyapp.allclose(value, states[0][name], atol=1e-4) for name, value in states[1].items())
    command[-1:] = ["2", "--accumulate", "1"]
    ended = subprocess.run([*command, "--no-resume"], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert ended.returncode == 1 and "divided among 2 processes" in ended.stdout, ended.stderr
    assert "MPI_ABORT" not in ended.stderr


def test_ctrl_c_stops_a_training_by_two_processes_and_keeps_its_state(model: Path, tmp_path: Path) -> None:
    data = tmp_path / "texts.txt"
    data.write_text("the cat is here and there\n" * 30)
    command = [sys.executable, "-m", "pyapp", "finetune", str(model), str(data), "-o", str(tmp_path / "out"), "--steps",
               "2000", "--accumulate", "2", "--json", "--processes", "2", "--shard"]  # fmt: skip
    started = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert started.stdout is not None
    for line in started.stdout:
        if json.loads(line).get("name") == "loss":
            started.send_signal(signal.SIGINT)
            break
    rest, told = started.communicate(timeout=120)
    last = json.loads(rest.splitlines()[-1])
    assert started.returncode == 130 and last["reason"] == "cancelled", told
    assert last["step"] >= 1 and (tmp_path / "out" / "checkpoint.safetensors").is_file()


def _is_rank(process: int, model: Path, rank: str) -> bool:
    """Whether a process is this rank of the server's run."""
    try:
        environment = Path(f"/proc/{process}/environ").read_bytes().split(b"\0")
        command = Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    here = f"chat={model}".encode() in command and b"pyapp.distributed.process" in command
    return here and f"OMPI_COMM_WORLD_RANK={rank}".encode() in environment
