"""`pyapp speak`: texts, files and stdin to WAVE files, streams and JSON; wrong usage; Ctrl-C."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from pyapp import cli
from pyapp.audio.speaking import speak
from pyapp.audio.wav import as_pcm, read_wav
from pyapp.models.loading.voice import load_voice
from tests.cli.conftest import Here
from tests.models.test_voices import make, write

pytestmark = pytest.mark.native_only

ROOT = Path(__file__).resolve().parents[2]
TEXT = "It is so. That is it."


@pytest.fixture(scope="module")
def voice(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("voices") / "voice", "vits-speakers", dict(make("vits-speakers").state_dict()))


@pytest.fixture
def here(here: Here, voice: Path) -> Here:
    """Runs `pyapp speak -m VOICE` in this process: exit code, stdout, stderr."""
    return partial(here, "speak", "-m", voice)


def spoken(path: Path) -> tuple[bytes, int]:
    samples, rate = read_wav(path)
    return as_pcm(samples[:, 0]), rate


def wanted(voice: Path, text: str, **options: object) -> tuple[bytes, int]:
    samples, rate = speak(load_voice(voice), text, options)
    return as_pcm(samples), rate


def test_a_text(here: Here, voice: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, error = here(TEXT)
    assert (code, out) == (0, "speech.wav\n") and "s of speech in" in error
    assert spoken(tmp_path / "speech.wav") == wanted(voice, TEXT)
    options = ("--speaker", 3, "--rate", 0.5, "--seed", 9, "--noise", 0.1, "--noise-duration", 0.2, "--pause", 1)
    code, out, _ = here(TEXT, "-o", tmp_path / "own.wav", *options)
    assert (code, out) == (0, f"{tmp_path / 'own.wav'}\n")
    assert spoken(tmp_path / "own.wav") == wanted(
        voice, TEXT, speaker=3, rate=0.5, seed=9, noise=0.1, noise_duration=0.2, pause=1.0
    )


def test_files_and_folders(here: Here, voice: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / f"{name}.txt").write_text(f"{name} is it.\n")
    code, out, _ = here("-f", tmp_path / "one.txt", "-f", tmp_path / "two.txt", "-o", tmp_path)
    assert (code, out.split()) == (0, [str(tmp_path / "one.wav"), str(tmp_path / "two.wav")])
    assert spoken(tmp_path / "two.wav") == wanted(voice, "two is it.")


def test_flac(here: Here, voice: Path, tmp_path: Path) -> None:
    soundfile = pytest.importorskip("soundfile")
    assert here(TEXT, "-o", tmp_path / "a.flac")[0] == 0
    samples, rate = soundfile.read(tmp_path / "a.flac", dtype="int16")
    assert (samples.tobytes(), rate) == wanted(voice, TEXT)


def test_json(here: Here, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TEXT)
    code, out, error = here("-f", tmp_path / "a.txt", "-o", tmp_path / "a.wav", "--json")
    events = [json.loads(line) for line in out.splitlines()]
    sounds = [event for event in events if event["type"] == "sound"]
    assert code == 0 and [sound["text"] for sound in sounds] == ["It is so.", "That is it."]
    assert all(event["file"] == str(tmp_path / "a.txt") for event in events)
    assert events[-1]["type"] == "done" and events[-1]["duration"] == sounds[-1]["end"]
    assert error == f"{tmp_path / 'a.wav'}\n" and not any(sound["pcm"] for sound in sounds)


def test_wrong_usage(here: Here, tmp_path: Path) -> None:
    text = tmp_path / "a.txt"
    text.write_text("it")
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "a.txt").write_text("it")
    for arguments, told in (
        ([], "Give a text, or files"), (["it", "-f", text], "not both"), (["it", "-o", tmp_path / "a.aac"], "a.wav"),
        (["it", "-o", tmp_path / "no" / "a.wav"], "no folder"), (["-f", tmp_path / "b.txt"], "no such file"),
        (["-f", text, "-f", text, "-o", tmp_path / "a.wav"], "several texts need a folder"),
        (["-f", text, "-f", tmp_path / "folder" / "a.txt", "-o", tmp_path], "same file"),
        (["-", "-f", "-"], "stdin holds one text"), (["it", "-o", "-", "--json"], "takes one text, and no --json"),
        (["it", "--rate", 0], "0.1"), (["it", "--speaker", -1], "at least 0"), (["it", "--rate", "x"], "not a number"),
    ):  # fmt: skip
        code, out, error = here(*arguments)
        assert (code, out) == (2, "") and told.lower() in error.lower(), arguments
    assert cli.run(["speak", "it"]) == 2  # no model
    assert not list(tmp_path.glob("*.wav"))


def test_errors(here: Here, voice: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "a.wav"
    for arguments, told in (
        (["—", "-o", target], "nothing to say that the model knows"), ([" ", "-o", target], "nothing to say"),
        (["it", "--speaker", 8, "-o", target], "the model has the voices 0 to 4"),
        (["it", "--phonemes", "-o", target], "the model reads letters"),
    ):  # fmt: skip
        code, out, error = here(*arguments)
        assert (code, out) == (1, "") and told in error, error
    assert "left out: 1 5" in here("at 15", "-o", tmp_path / "b.wav")[2]
    assert cli.run(["speak", "it", "-m", str(tmp_path / "none"), "-o", str(target)]) == 1
    assert "no such file or folder" in capsys.readouterr().err
    settings = json.loads((voice / "tokenizer_config.json").read_text())
    other = tmp_path / "phonemes"
    other.mkdir()
    for file in voice.iterdir():
        os.link(file, other / file.name)
    (other / "tokenizer_config.json").unlink()
    (other / "tokenizer_config.json").write_text(json.dumps(settings | {"phonemize": True, "language": "deu"}))
    assert cli.run(["speak", "it", "-m", str(other), "-o", str(target)]) == 1
    assert "espeak-ng" in capsys.readouterr().err
    assert cli.run(["speak", "it", "--phonemes", "-m", str(other), "-o", str(target)]) == 0
    assert spoken(target) == wanted(voice, "it")


def test_pipes(here: Here, voice: Path, tmp_path: Path) -> None:
    """From stdin to stdout: a WAVE file whose header does not know the length yet."""
    command = [sys.executable, "-m", "pyapp", "speak", "-m", str(voice), "-", "-o", "-"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    result = subprocess.run(command, input=TEXT.encode(), capture_output=True, timeout=60, env=environment)
    assert result.returncode == 0
    path = tmp_path / "a.wav"
    path.write_bytes(result.stdout)
    assert spoken(path) == wanted(voice, TEXT)
    code, _, error = here("-", stdin=b"\xff")
    assert code == 2 and "not UTF-8" in error


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_keeps_what_was_spoken(voice: Path, tmp_path: Path) -> None:
    target, text = tmp_path / "a.wav", "It is so. " * 20000
    command = [sys.executable, "-m", "pyapp", "speak", "-m", str(voice), "-", "-o", str(target), "--json"]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, **pipes) as process:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(text.encode())
        process.stdin.close()
        while json.loads(process.stdout.readline())["type"] != "sound":
            pass
        process.send_signal(signal.SIGINT)
        rest = process.stdout.read().splitlines()
        assert process.wait(60) == 130 and json.loads(rest[-1])["reason"] == "cancelled"
    assert not target.exists()
    pcm, _ = spoken(tmp_path / "a.partial.wav")
    start, _ = wanted(voice, "It is so.")
    assert pcm.startswith(start)
