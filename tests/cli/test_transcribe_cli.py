"""pyapp transcribe with a simple model (audio/listening_parrot.py): stdout, stderr and files, option names, exit
codes."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp.models
from pyapp import hub, tasks
from pyapp.audio import write_wav
from pyapp.events import Cancel, Event, Progress
from tests.audio import listening_parrot
from tests.audio.listening_parrot import counting, steady
from tests.audio.networks import speaker_network, speech_network
from tests.audio.sounds import RATE, place
from tests.cli.conftest import Here

pytestmark = pytest.mark.native_only

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import pyapp.models
from tests.audio import listening_parrot
pyapp.models.load_speech_model = lambda source, *, report, cancel: listening_parrot.load(str(source))
from pyapp.cli import main
main()
"""


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The names of the loaded models. Each is replaced by a parrot."""
    sources: list[Any] = []

    def load_speech_model(source: Any, *, report: Callable[[Event], None], cancel: Cancel) -> Any:
        sources.append(source)
        report(Progress("reading the model", 1, 1, "bytes"))
        return listening_parrot.load(str(source))

    monkeypatch.setattr(pyapp.models, "load_speech_model", load_speech_model, raising=False)
    return sources


@pytest.fixture
def here(here: Here, asked: list[Any]) -> Here:
    """Runs `pyapp transcribe` in this process: exit code, stdout, stderr."""
    return partial(here, "transcribe")


@pytest.fixture
def talk(tmp_path: Path) -> Path:
    path = tmp_path / "talk.wav"
    write_wav(path, counting(1, 2, 3), RATE)
    return path


@pytest.fixture
def song(tmp_path: Path) -> Path:
    path = tmp_path / "song.wav"
    write_wav(path, counting(4, 2), RATE)
    return path


@pytest.fixture
def options(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The options of every task that was started."""
    seen: list[Any] = []
    plain = tasks.transcribe

    def transcribe(audio: Any, options: Any, **settings: Any) -> Any:
        seen.append(options)
        return plain(audio, options, **settings)

    monkeypatch.setattr(tasks, "transcribe", transcribe)
    return seen


SRT = "1\n00:00:00,000 --> 00:00:01,520\none\n\n2\n00:00:02,500 --> 00:00:04,520\ntwo\n\n"


# -- stdout


def test_text_on_stdout(here: Here, talk: Path) -> None:
    code, out, error = here(talk)
    assert (code, out) == (0, "one\ntwo\nthree\n")
    assert error.startswith(f"[{talk}: 0:09, English, ") and error.endswith(" × real time]\n")


@pytest.mark.parametrize("format", ["srt", "vtt", "tsv", "json"])
def test_one_format_on_stdout(format: str, here: Here, talk: Path) -> None:
    code, out, _ = here(talk, "-f", format)
    assert code == 0
    beginnings = {
        "srt": SRT,
        "vtt": "WEBVTT\n\n00:00.000 --> 00:01.520\none\n",
        "tsv": "start\tend\ttext\n0\t1520\tone\n",
    }
    assert out.startswith(beginnings.get(format, "{"))
    if format == "json":
        found = json.loads(out)
        assert (found["text"], found["language"], found["duration"]) == (" one two three", "en", 9.5)
        assert [segment["end"] for segment in found["segments"]] == [1.52, 4.52, 8.52]


def test_several_recordings_have_headings(here: Here, talk: Path, song: Path, asked: list[Any]) -> None:
    code, out, _ = here(talk, song, "--model", "x")
    assert code == 0 and asked == ["x"]
    assert out == f"==> {talk} <==\none\ntwo\nthree\n==> {song} <==\nfour\ntwo\n"
    code, out, _ = here(talk, song, "-f", "json")
    assert [json.loads(line)["text"] for line in out.splitlines()] == [" one two three", " four two"]


def test_events_as_json(here: Here, talk: Path, tmp_path: Path) -> None:
    code, out, error = here(talk, "--json", "--beam-size", "None", "-o", tmp_path / "out", "-f", "txt")
    events = [json.loads(line) for line in out.splitlines()]
    assert code == 0 and error == f"{tmp_path / 'out' / 'talk.txt'}\n"
    assert [event["type"] for event in events].count("segment") == 3
    assert {"language", "partial", "progress", "metric"} <= {event["type"] for event in events}
    assert events[-1]["type"] == "done" and [it["text"] for it in events if it["type"] == "done"] == [" one two three"]
    assert all(event["file"] == str(talk) for event in events if event["type"] in ("segment", "done"))
    assert (tmp_path / "out" / "talk.txt").read_text() == "one\ntwo\nthree\n"


# -- files


def test_files(here: Here, talk: Path, song: Path, tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "out"
    code, out, _ = here(talk, song, "-o", folder)
    names = [f"{name}.{format}" for name in ("talk", "song") for format in ("txt", "json", "srt", "vtt", "tsv")]
    assert code == 0 and out.splitlines() == [str(folder / name) for name in names]
    assert sorted(path.name for path in folder.iterdir()) == sorted(names)
    assert (folder / "talk.srt").read_text().startswith(SRT)
    assert (folder / "song.txt").read_text() == "four\ntwo\n"
    again = tmp_path / "again"
    assert here(talk, "--output-dir", again, "-f", "srt", "-f", "json", "-f", "srt")[0] == 0
    assert sorted(path.name for path in again.iterdir()) == ["talk.json", "talk.srt"]


def test_all_formats_go_to_the_present_folder(
    here: Here, talk: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "here"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert here(talk, "-f", "all")[0] == 0
    assert len(list(folder.iterdir())) == 5


def test_a_folder_that_cannot_be_written_to(here: Here, talk: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "talk.srt").mkdir()
    code, out, error = here(talk, "-o", tmp_path / "out", "-f", "txt", "-f", "srt")
    assert code == 1 and out.splitlines() == [str(tmp_path / "out" / "talk.txt")]
    assert "error: " in error and "talk.srt" in error and "unexpected" not in error
    assert here(talk, "-o", talk)[0] == 2
    assert here(talk, "-o", talk / "below")[0] == 1


# -- failures


def test_what_cannot_be_transcribed_does_not_stop_the_rest(here: Here, talk: Path, song: Path, tmp_path: Path) -> None:
    broken, empty = tmp_path / "broken.wav", tmp_path / "empty.wav"
    broken.write_bytes(b"RIFF")
    write_wav(empty, np.zeros(0, np.float32), RATE)
    code, out, error = here(talk, broken, tmp_path / "nothing.wav", empty, tmp_path, song)
    assert code == 1 and out == f"==> {talk} <==\none\ntwo\nthree\n==> {song} <==\nfour\ntwo\n"
    for message in ("truncated", "no such file or directory", "the recording is empty", "is a directory"):
        assert f": {message}" in error.replace("the file is truncated", "truncated"), message
    assert "Traceback" not in error and "unexpected" not in error


def test_damage_on_the_way(here: Here, talk: Path, song: Path, tmp_path: Path) -> None:
    path = tmp_path / "nan.wav"
    samples = counting(1)
    samples[-1] = 0.1
    write_wav(path, samples, RATE)
    data = bytearray(path.read_bytes())
    data[20:22], data[34:36], data[32:34], data[28:32] = b"\3\0", b"\x20\0", b"\4\0", (4 * RATE).to_bytes(4, "little")
    path.write_bytes(data[:44] + np.array([0.1, np.nan] * 4000, "<f4").tobytes())
    code, out, error = here(path, song, "-o", tmp_path / "out", "-f", "txt")
    assert code == 1 and "NaN" in error and out.splitlines() == [str(tmp_path / "out" / "song.txt")]


def test_models_of_a_folder(here: Here, talk: Path, asked: list[Any], tmp_path: Path) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    (folder / "mine.pt").write_bytes(b"")
    code, out, _ = here("--model", "mine", "--model_dir", folder, talk)
    assert code == 0 and out and os.fspath(asked.pop()) == str(folder / "mine.pt")
    assert here("--model", "turbo", "--model-dir", folder, talk)[0] == 0
    assert asked.pop() == hub.NameIn("whisper-large-v3-turbo", folder)  # as the registry calls it
    assert here("--model", talk, "--model-dir", folder, talk)[0] == 0
    assert asked.pop() == str(talk)  # a path stays one
    code, _, error = here("--model", "stories", "--model-dir", folder, talk)
    assert code == 1 and "this model writes text" in error and not asked


def test_nothing_readable_loads_no_model(here: Here, asked: list[Any], tmp_path: Path) -> None:
    code, out, error = here(tmp_path / "a.mp3")
    assert code == 1 and not out and not asked and "a.mp3: no such file" in error
    code, out, error = here(tmp_path / "a.mp3", "--json")
    assert code == 1 and not error and json.loads(out)["file"].endswith("a.mp3")


def test_a_model_that_is_none_is_told_once(here: Here, talk: Path, song: Path) -> None:
    code, out, error = here(talk, song, "--model", "stories15M")
    assert code == 1 and not out and error.count("error: stories15M: this model writes text") == 1


def test_notices(here: Here, tmp_path: Path) -> None:
    path = tmp_path / "quiet.wav"
    write_wav(path, np.zeros(RATE, np.float32), RATE)
    code, out, error = here(path)
    assert code == 0 and not out.strip() and f"note: {path}: the recording is silent\n  Check the microphone" in error


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "Missing argument 'FILE...'"),
        (["{talk}", "--task", "sing"], "'sing' is not one of"),
        (["{talk}", "-f", "doc"], "'doc' is not one of"),
        (["{talk}", "--language", "klingon"], "--language: 'klingon' is not a language"),
        (["{talk}", "--beam-size", "0"], "--beam-size"),
        (["{talk}", "--beam-size", "many"], "--beam-size"),
        (["{talk}", "--temperature", "-1"], "--temperature"),
        (["{talk}", "--hallucination-silence-threshold", "2"], "needs word_timestamps"),
        (["{talk}", "--clip-timestamps", "a,b"], "--clip-timestamps"),
        (["{talk}", "-f", "srt", "-f", "vtt"], "only one format fits stdout"),
        (["{talk}", "{talk}", "-f", "srt"], "srt of several files does not fit stdout"),
        (["{talk}", "sub/talk.mp3", "-o", "out"], "would all be written to out/talk.txt"),
        (["{talk}", "--max-words-per-line", "2"], "--max-words-per-line: needs --word-timestamps"),
        (["{talk}", "--word-timestamps", "--max-line-count", "2"], "--max-line-count: needs max_line_width"),
        (["-", "-"], "stdin"),
        (["{talk}", "--no-such-option"], "No such option"),
    ],
)
def test_wrong_usage(arguments: list[str], message: str, here: Here, talk: Path, asked: list[Any]) -> None:
    code, out, error = here(*(argument.format(talk=talk) for argument in arguments))
    assert code == 2 and not out and "Usage: " in error and message in error and not asked


# -- options


def test_openais_spellings(here: Here, talk: Path, options: list[Any]) -> None:
    ours = ["--word-timestamps", "--no-condition-on-previous-text", "--beam-size", "3", "--best-of", "2", "--patience",
            "2", "--initial-prompt", "--odd_text", "--output-format", "txt", "--compression-ratio-threshold", "None",
            "--temperature", "0.4", "--temperature-increment-on-fallback", "0.3", "--suppress-tokens", "",
            "--carry-initial-prompt", "--length-penalty", "0.5"]  # fmt: skip
    theirs = ["--word_timestamps", "True", "--condition_on_previous_text=False", "--beam_size", "3", "--best_of=2",
              "--patience", "2", "--initial_prompt", "--odd_text", "--output_format", "txt",
              "--compression_ratio_threshold", "None", "--temperature", "0.4", "--temperature_increment_on_fallback",
              "0.3", "--suppress_tokens", "", "--carry_initial_prompt", "True", "--length_penalty", "0.5"]  # fmt: skip
    for arguments in (["--task", "translate", *ours], ["--task", "translate", *theirs]):
        assert here(talk, *arguments)[0] == 0
    assert len(options) == 2 and options[0] == options[1]
    found = options[0]
    assert found.word_timestamps and not found.condition_on_previous_text and found.carry_initial_prompt
    assert (found.beam_size, found.best_of, found.patience, found.length_penalty) == (3, 2, 2.0, 0.5)
    assert found.initial_prompt == "--odd_text" and found.compression_ratio_threshold is None
    assert found.temperature == (0.4, 0.7, 1.0) and found.suppress_tokens == "" and found.task == "translate"


def test_defaults_are_those_of_openais_command(here: Here, talk: Path, options: list[Any]) -> None:
    assert here(talk)[0] == 0
    (found,) = options
    assert found.beam_size == 5 and found.best_of == 5 and found.temperature == (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
    assert found == type(found)(beam_size=5)
    here(talk, "--temperature-increment-on-fallback", "None", "--language", "German", "--", talk)
    assert options[1].temperature == (0.0,) and options[1].language == "de"


def test_switches_do_not_swallow_files(here: Here, talk: Path, options: list[Any]) -> None:
    assert here("--condition_on_previous_text", talk)[0] == 0 and options[-1].condition_on_previous_text
    assert here("--condition_on_previous_text", "false", talk)[0] == 0
    assert not options[-1].condition_on_previous_text
    assert here("--skip-silence", "--carry_initial_prompt", talk, "--no-skip_silence")[0] == 0
    assert options[-1].carry_initial_prompt and not options[-1].skip_silence


def test_openais_options_of_the_machine(here: Here, talk: Path, options: list[Any], tmp_path: Path) -> None:
    """Lines from scripts for openai-whisper: --device cpu --fp16 False --verbose True."""
    machine = ("--device", "cpu", "--fp16", "False")
    assert here(talk, *machine, "--verbose", "False")[1] == "one\ntwo\nthree\n"
    assert options[0] == type(options[0])(beam_size=5)
    code, out, _ = here(talk, *machine, "--output_dir", tmp_path / "quiet", "--output_format", "srt")
    assert code == 0 and out.split() == [str(tmp_path / "quiet" / "talk.srt")]
    code, out, _ = here(talk, *machine, "--verbose", "True", "-o", tmp_path / "loud", "-f", "srt")
    assert code == 0 and out.split() == ["one", "two", "three", str(tmp_path / "loud" / "talk.srt")]
    assert here(talk, "--device", "cuda")[0] == 2


def test_subtitles_of_words(here: Here, talk: Path, tmp_path: Path) -> None:
    words = ("--word_timestamps", "True", "--highlight_words", "True")
    code, out, _ = here(talk, "-f", "srt", *words)
    assert code == 0 and "<u>one</u>" in out and "<u>three</u>" in out
    assert here(talk, "-o", tmp_path / "out", "-f", "vtt", "-f", "txt", *words)[0] == 0
    assert "<u>two</u>" in (tmp_path / "out" / "talk.vtt").read_text()
    assert (tmp_path / "out" / "talk.txt").read_text() == "one\ntwo\nthree\n"


def test_a_bar_where_someone_watches(here: Here, talk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm")
    from pyapp.cli.transcript_views import TranscribeView

    monkeypatch.setattr(TranscribeView, "patience", 0.0)
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    code, out, error = here(talk, "--beam-size", "None")
    assert code == 0 and out == "one\ntwo\nthree\n"
    assert "transcribing:   0%|" in error and "| 0:00 , one" in error  # where it is, and the last words


# -- as a process


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@contextmanager
def running(*arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """The command as a process, which is ended after a minute."""
    command = [sys.executable, "-c", PROGRAM, "transcribe", *arguments]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    with subprocess.Popen(command, env=environment(), cwd=ROOT, **pipes) as process:
        watchdog = threading.Timer(60, process.kill)
        watchdog.start()
        try:
            yield process
        finally:
            watchdog.cancel()


def test_stdin(here: Here, talk: Path) -> None:
    with running("-", "-f", "srt") as process:
        out, error = process.communicate(talk.read_bytes(), timeout=60)
    assert process.returncode == 0 and out.decode().startswith(SRT) and error.startswith(b"[stdin: 0:09, English")
    code, text, told = here("-")
    assert code == 1 and not text and "error: stdin: the file is empty" in told


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_leaves_what_was_written_complete(tmp_path: Path) -> None:
    """The recording comes through a pipe that stays open: it is in the middle of it for certain."""
    file = io.BytesIO()
    write_wav(file, counting(*[1, 2, 3] * 8), RATE)
    folder = tmp_path / "out"
    with running("-", "-o", str(folder), "-f", "json", "-f", "srt", "--json") as process:
        assert process.stdin is not None and process.stdout is not None and process.stderr is not None
        process.stdin.write(file.getvalue()[:-300_000])
        process.stdin.flush()
        while json.loads(process.stdout.readline())["type"] != "segment":
            pass
        process.send_signal(signal.SIGINT)
        with suppress(BrokenPipeError):  # it may have ended already, or wait for more
            process.stdin.write(file.getvalue()[-300_000:])
            process.stdin.flush()
        with suppress(BrokenPipeError):
            process.stdin.close()
        last = process.stdout.read().splitlines()[-1]
        error = process.stderr.read()
        assert process.wait(20) == 130
    assert json.loads(last)["reason"] == "cancelled" and b"Traceback" not in error
    assert sorted(path.name for path in folder.iterdir()) == ["stdin.partial.json", "stdin.partial.srt"]
    found = json.loads((folder / "stdin.partial.json").read_text())
    assert found["segments"] and found["segments"][0]["text"] == " one"


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_ctrl_c_while_stdin_brings_nothing(talk: Path) -> None:
    """The writer waits too, with the pipe open: before the first byte, and in the middle of a recording."""
    for begun in (b"", talk.read_bytes()[:100_000]):
        with running("-", "--json") as process:
            assert process.stdin is not None and process.stdout is not None
            process.stdin.write(begun)
            process.stdin.flush()
            process.stdout.readline()  # the model is loaded
            process.send_signal(signal.SIGINT)
            assert process.wait(20) == 130


@pytest.mark.skipif(sys.platform == "win32", reason="pipes")
def test_the_reader_leaves(tmp_path: Path) -> None:
    path = tmp_path / "long.wav"
    write_wav(path, counting(*[1, 2] * 25), RATE)
    with running(str(path)) as process:
        assert process.stdout is not None and process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        error = process.stderr.read()
        assert process.wait(30) == 141 and b"Traceback" not in error and b"Exception" not in error


# -- speech and speakers by networks


@pytest.fixture
def voices(tmp_path: Path) -> dict[str, Path]:
    """A recording of two voices, and hand-made networks for speech and for speakers."""
    parts = [(0.5, steady(1.0, 110.0)), (2.5, steady(2.0, 240.0)), (5.5, steady(3.0, 110.0))]
    files = {"talk": tmp_path / "voices.wav", "vad": tmp_path / "vad.onnx", "speakers": tmp_path / "speakers.onnx"}
    write_wav(files["talk"], place(9.5, *parts), RATE)
    files["vad"].write_bytes(speech_network())
    files["speakers"].write_bytes(
        speaker_network(spectrum=True, metadata={"feature_normalize_type": "", "normalize_samples": "0"})
    )
    return files


def test_speakers_in_all_formats(here: Here, voices: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "named"
    settings = ["--speakers", "2", "--speaker-model", voices["speakers"], "--vad", voices["vad"]]
    code, out, error = here(voices["talk"], *settings, "--word-timestamps", "-o", folder)
    assert code == 0, error
    assert (folder / "voices.txt").read_text() == "Speaker 1: one\nSpeaker 2: two\nSpeaker 1: three\n"
    assert "\nSpeaker 2: two\n" in (folder / "voices.srt").read_text()
    assert "\n<v Speaker 2>two\n" in (folder / "voices.vtt").read_text()
    rows = [row.split("\t") for row in (folder / "voices.tsv").read_text().splitlines()]
    assert rows[0] == ["start", "end", "text", "speaker"] and rows[2][2:] == ["two", "Speaker 2"]
    found = json.loads((folder / "voices.json").read_text())
    assert [segment["speaker"] for segment in found["segments"]] == ["Speaker 1", "Speaker 2", "Speaker 1"]
    assert [segment["words"][0]["speaker"] for segment in found["segments"]] == ["Speaker 1", "Speaker 2", "Speaker 1"]
    assert found["text"] == " one two three"
    # the file may follow at once; a threshold that no two voices reach; a pipe
    code, out, _ = here("--speaker-model", voices["speakers"], "--speakers", voices["talk"], "--speaker-threshold", "2")
    assert (code, out) == (0, "Speaker 1: one\nSpeaker 1: two\nSpeaker 1: three\n")
    # networks of --model-dir
    for name, repo in (("vad", "silero"), ("speakers", "speakers")):
        place = tmp_path / "models" / hub.networks()[repo]
        place.mkdir(parents=True)
        (place / "model.onnx").write_bytes(voices[name].read_bytes())
    found = ["--model-dir", tmp_path / "models", "--vad", "silero", "--speakers", "2"]
    assert here(voices["talk"], *found)[:2] == (0, "Speaker 1: one\nSpeaker 2: two\nSpeaker 1: three\n")
    assert here(voices["talk"], *settings)[1] == "Speaker 1: one\nSpeaker 2: two\nSpeaker 1: three\n"


def test_wrong_networks(here: Here, voices: dict[str, Path], talk: Path) -> None:
    rows = (
        (["--vad", voices["speakers"]], 1, "not a network that detects speech: it takes feats"),
        (["--speakers", "--speaker-model", voices["vad"]], 1, "not a network for speakers: it takes input, state, sr"),
        (["--vad", talk], 1, "this is not an ONNX model"),
        (["--vad", "missing.onnx"], 1, "there is no such file"),
        (["--vad", ""], 1, "the name of the network is empty"),
        (["--speaker-model", voices["speakers"]], 2, "needs --speakers"),
        (["--speakers", "101"], 2, "must be auto or from 1 to 100"),
        (["--speakers=x"], 2, "must be auto or from 1 to 100"),
        (["--speakers", "--speaker-threshold", "3"], 2, "must be a number from 0.01 to 2"),
    )
    for settings, wanted, says in rows:
        code, _, error = here(talk, *settings)
        assert code == wanted and says in " ".join(error.replace("│", " ").split()), (settings, error)


def test_nobody_to_tell_apart(here: Here, voices: dict[str, Path], tmp_path: Path) -> None:
    quiet = tmp_path / "quiet.wav"
    write_wav(quiet, place(3.0), RATE)
    code, out, error = here(quiet, "--speakers", "--speaker-model", voices["speakers"])
    assert (code, out) == (0, "") and "no speech is long enough to tell speakers apart" in error
    code, _, error = here(voices["talk"], "--speakers", "50", "--speaker-model", voices["speakers"])
    assert code == 0 and "speakers, not 50" in error
