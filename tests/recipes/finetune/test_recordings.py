"""Whisper, trained further on recordings: the embedded model learns other words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import hub
from pyapp.audio import write_wav
from pyapp.audio.options import TranscribeOptions
from pyapp.audio.reader import open_audio
from pyapp.audio.transcribe import transcribe_events
from pyapp.cli import run as run_command
from pyapp.cli.views import TrainView
from pyapp.errors import FileFormatError, OptionError
from pyapp.events import Done, Event, Metric, Notice, Progress
from pyapp.models.loading.speech import load_speech_model
from pyapp.recipes.error_rates import compared
from pyapp.recipes.finetune import RecordingSettings, recordings
from pyapp.recipes.finetune.recordings import Recording, WhisperTraining, row_of
from pyapp.recipes.finetune.spoken import Segment, Spoken, read_lines, windows_of
from pyapp.recipes.finetune.stretches import Stretch, StretchFile, recording_of, samples_of
from pyapp.recipes.finetune.whole import WholeTraining
from tests.recipes.finetune.hearing_cases import COMPARED, SEGMENTS
from tests.recipes.finetune.interrupted import trained, write_lines

pytestmark = pytest.mark.native_only

HEARING = json.loads(Path(__file__).with_name("golden_hearing.json").read_text())
TEXTS = ("Seven whales sing.", "Blue bread")


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two recordings of noise, one that is too long, and a file that names the two."""
    folder = tmp_path_factory.mktemp("recordings")
    numbers = np.random.default_rng(1)
    for name, seconds, pitch in (("a.wav", 2, 300), ("b.wav", 3, 1200), ("long.wav", 16, 500)):
        time = np.arange(16000 * seconds) / 16000
        sound = 0.4 * np.sin(2 * np.pi * pitch * time) + 0.05 * numbers.normal(0, 1, len(time))
        write_wav(folder / name, sound.astype(np.float32), 16000)
    rows = [{"audio": f"{name}.wav", "text": text} for name, text in zip("ab", TEXTS, strict=True)]
    write_lines(folder / "data.jsonl", rows)
    return folder


def run(data: Path, out: Path, stop: int = 0, **settings: Any) -> list[Event]:
    given = {"held_out_data": data, "rate": 2e-3, "rows": 2, "steps": 8, "evaluate_every": 8, **settings}
    return trained("speech", data, out, stop, **given)


def test_it_learns_other_words(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With hidden stretches in training alone, and times in half of the visits: the same after a break, and read by the
    command that transcribes.
    """
    parts = [[(0.3, 1.61, TEXTS[0])], [(0, 1.2, "Blue"), (1.4, 2.9, "bread")]]
    timed = [[{"start": start, "end": end, "text": text} for start, end, text in one] for one in parts]
    rows = [{"audio": f"{name}.wav", "segments": own} for name, own in zip("ab", timed, strict=True)]
    data = write_lines(place / "timed.jsonl", rows)
    given = {"spec_augment": True, "timestamp_probability": 0.5}
    events = run(data, tmp_path / "out", **given)
    done = events[-1]
    assert isinstance(done, Done) and done.results["held_out_accuracy"] == 1.0
    assert done.results["held_out_character_error_rate"] == done.results["held_out_word_error_rate"] == 0.0
    first = next(event.value for event in events if isinstance(event, Metric) and event.name == "loss")
    assert abs(first - done.results["held_out_loss_before"]) > 1e-3  # of the same recordings
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["apply_spec_augment"] is True
    run(data, tmp_path / "parts", 2, **given)
    run(data, tmp_path / "parts", **given)
    whole, parts = ((tmp_path / name / "model.safetensors").read_bytes() for name in ("out", "parts"))
    assert whole == parts
    command = ["transcribe", str(place / "a.wav"), "--model", str(tmp_path / "out"), "-f", "txt"]
    assert run_command([*command, "--no_speech_threshold", "1"]) == 0
    assert capsys.readouterr().out.split("\n")[0].startswith(TEXTS[0])


def test_error_rates(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Those that jiwer finds in what transcribing writes, without punctuation."""
    assert [compared(text) for text in COMPARED] == HEARING["compared"]
    assert compared("हिन्दी!") == "हिन्दी"  # with its vowels
    jiwer = pytest.importorskip("jiwer")
    loaded = load_speech_model("speech", dtype="float32")
    options = TranscribeOptions(temperature=0.0, language="en", no_speech_threshold=None, without_timestamps=True)
    found = []
    for name in "ab":
        with open_audio(place / f"{name}.wav") as reader:
            sound = np.concatenate([*reader])
        done = [*transcribe_events(loaded, sound, options)][-1]
        assert isinstance(done, Done)
        found.append(done.results["text"])
    said, found = ([compared(text) for text in texts] for texts in (TEXTS, found))
    rates = {"character": jiwer.cer(said, found), "word": jiwer.wer(said, found)}
    data = str(place / "data.jsonl")
    command = [
        "finetune",
        "speech",
        data,
        "-o",
        str(tmp_path / "out"),
        "--eval",
        data,
        "--steps",
        "1",
        "--rate",
        "1e-9",
    ]
    assert run_command(command) == 0
    printed = "".join(capsys.readouterr())
    for kind, rate in rates.items():
        assert f"{rate:.1%} of the {kind}s" in printed and rate > 0, printed
    assert "of 2 held-out recordings, " in printed
    view = TrainView()
    view.show(Progress("training", 10, 20, "steps"))
    view.show(Metric("held_out_word_error_rate", 0.25, "", 10))
    view.show(Metric("time_left", 60.0, "s", 10))
    assert "word errors 0.250" in capsys.readouterr().err


# Of a recording of 82 s; and the windows of 15 s: (begin, end, segments).
SAID = ((0.5, 2.0), (3.0, 9.0), (9.5, 14.0), (14.5, 15.8), (40.0, 41.0), (50.0, 70.0), (71.0, 80.0))
WINDOWS = ((0.0, 14.5, [0, 1, 2]), (14.0, 29.0, [3]), (40.0, 50.0, [4]), (50.0, 70.0, [5]), (70.0, 82.0, [6]))


def test_windows_of_long_recordings(tmp_path: Path) -> None:
    """They begin where the last segment ended, unless the next one would not fit, and end before the next one."""
    segments = tuple(Segment(*times, f"word{number}") for number, times in enumerate(SAID))
    samples = np.random.default_rng(1).normal(0, 1, 82 * 16000).astype(np.float32)
    line = Spoken("here", tmp_path / "a.wav", "all", segments, {"language": "de"})
    with StretchFile(tmp_path / "out") as kept:
        windows = windows_of(line, samples, 15.0, kept)
        for window, (begin, end, own) in zip(windows, WINDOWS, strict=True):
            assert isinstance(window.path, Stretch) and recording_of(window.path) == line.path
            np.testing.assert_array_equal(samples_of(window.path), samples[int(begin * 16000) : int(end * 16000)])
            expected = [(start - begin, stop - begin) for start, stop in (SAID[number] for number in own)]
            assert [(one.start, one.end) for one in window.segments] == expected
            assert window.text == " ".join(f"word{number}" for number in own) and window.fields == line.fields
    assert [window.before for window in windows] == [None, *windows[:-1]]
    assert not [*(tmp_path / "out").iterdir()]


def test_what_was_said_before_is_the_prompt(place: Path, tmp_path: Path) -> None:
    """transformers' prompt without times; with them, its labels."""
    loaded = load_speech_model("speech", dtype="float32")
    seconds = [(one["start"], one["end"], one["text"].strip()) for one in SEGMENTS]
    before = Spoken("", place, " ".join(text for *_, text in seconds), tuple(Segment(*one) for one in seconds), {})
    line = Spoken("", place, "a", (Segment(0, 1, "a"),), {}, before)
    row = row_of(loaded, RecordingSettings("", "", timestamp_probability=0.5), line, 16000)
    assert isinstance(row, Recording) and row.timed is not None
    prompt, (sot, *_, eot) = HEARING["whisper"]["prompt"], HEARING["whisper"]["with"]
    assert [*row.prompt] == prompt and [*row.timed.prompt] == [prompt[0], *HEARING["whisper"]["with"][1:-1]]
    said = row.prompted()
    assert said.ids.tolist() == [*prompt, *row.ids] and said.ids[said.first :] == row.ids[row.first :]
    assert said.ids.index(sot) == len(prompt) and said.ids[-1] == eot
    assert len(row_of(loaded, RecordingSettings("", "", condition_on_prev_probability=0), line, 16000).prompt) == 0


def test_long_recordings_are_learnt_in_windows(place: Path, tmp_path: Path) -> None:
    said = ((0.5, 6, TEXTS[0]), (7, 13, TEXTS[1]), (13.5, 15.9, TEXTS[0]))
    parts = [{"start": start, "end": end, "text": text} for start, end, text in said]
    long = [parts[0] | {"start": 0.1, "end": 15.2}, parts[2] | {"start": 15.3}]
    rows = [{"audio": "long.wav", "segments": segments} for segments in (parts, long)]
    given = {"steps": 1, "condition_on_prev_probability": 1, "error_rate_recordings": 2}
    events = run(write_lines(place / "cut.jsonl", rows), tmp_path / "out", **given)
    assert isinstance(events[-1], Done) and events[-1].results["examples"] == 3
    assert events[-1].results["transcribed_recordings"] == 2
    steps = [event.step for event in events if isinstance(event, Metric) and event.name == "held_out_word_error_rate"]
    assert steps == [0, 1]
    told = [event.what for event in events if isinstance(event, Notice)]
    assert [what for what in told if "left out" in what] == ["1 segment is longer than 15 s, and left out"]


def test_labels_with_times(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those of transformers' tokenizer; which of them is learnt is drawn for each visit."""
    loaded = load_speech_model("speech", dtype="float32")
    (tmp_path / "a.wav").touch()
    fields = [{"audio": "a.wav", "segments": SEGMENTS}]
    [line] = read_lines(write_lines(tmp_path / "data.jsonl", fields))
    found = {}
    for share in (0.0, 0.5, 1.0):
        row = row_of(loaded, RecordingSettings("", "", timestamp_probability=share), line, 3 * 16000)
        assert isinstance(row, Recording)
        found[share] = [(one.ids.tolist(), one.first) for one in (row, row.timed) if one is not None]
    without, timed = ((HEARING["whisper"][kind], first) for kind, first in (("without", 2), ("with", 1)))
    assert found == {0.0: [without], 0.5: [without, timed], 1.0: [timed]}
    settings = RecordingSettings("speech", "", steps=1, rows=1, timestamp_probability=0.25)
    rows = [row_of(loaded, settings, line, 3 * 16000)]
    training = WhisperTraining(tmp_path / "out", settings, loaded, hub.resolve("speech").files, rows, rows * 400)
    pyapp.manual_seed(1)
    seen: list[int] = []
    monkeypatch.setattr(WholeTraining, "_loss", lambda self, model, rows: seen.extend(row.first for row in rows))
    training._loss(None, rows * 400)
    for firsts in (seen, [row.first for row in training.held_out_rows]):
        assert abs(firsts.count(1) - 100) < 30 and firsts.count(2) == 400 - firsts.count(1)


def test_what_is_refused(place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = place / "data.csv"
    table.write_text(f"file_name,transcription\na.wav,one\nlong.wav,two\na.wav,\nb.wav, \na.wav,{'x ' * 500}\n")
    monkeypatch.setattr(recordings, "can_compare", lambda: False)
    events = run(table, tmp_path / "out", steps=1)
    assert isinstance(events[-1], Done) and "held_out_word_error_rate" not in events[-1].results
    notices = [event.what for event in events if isinstance(event, Notice)]
    for told in ("1 recording is longer than 15 s and without segments, and left out",
                 "2 recordings are without a text", "1 recording is said in more than the",
                 "words that are wrong will not be counted: the Python package `jiwer` is missing"):  # fmt: skip
        assert any(told in notice for notice in notices), told
    wrong: list[tuple[Any, str]] = [
        ({"audio": "nobody.wav", "text": "a"}, "line 1: there is no recording 'nobody.wav'"),
        ({"audio": "a.wav"}, "not a recording with its text"),
        ({"audio": "long.wav", "text": "a"}, "longer than 15 s and without segments. Give segments instead of the"),
        ({"audio": "data.jsonl", "text": "a"}, "data.jsonl"),
        ({"audio": "a.wav", "segments": []}, "1 recording is without a text"),
        ({"audio": "x" * 5000, "text": "a"}, "line 1: there is no recording 'xxx"),
        ({"audio": "a.wav", "segments": [{"start": 0, "end": 10**400, "text": "a"}]}, "segment 1 has no"),
        ({"audio": "a.wav", "segments": "x"}, "segment 1 has no start and end in seconds and a text"),
        ({"audio": "a.wav", "segments": [{"start": 0, "end": 1, "text": " "}]}, "segment 1 has no"),
        ({"audio": "a.wav", "segments": [SEGMENTS[0], SEGMENTS[0]]}, "segment 2 is from 0.009 to 0.609 s, and the one"),
        ({"audio": "a.wav", "segments": [SEGMENTS[0] | {"end": 0}]}, "segment 1 is from 0.009 to 0 s"),
        ({"audio": "a.wav", "segments": [SEGMENTS[0] | {"end": 9}]}, "ends at 9 s, the recording at 2.00 s"),
    ]  # fmt: skip
    for row, told in wrong:
        with pytest.raises(FileFormatError, match=told):
            run(write_lines(place / "wrong.jsonl", [row]), tmp_path / "wrong")
    with pytest.raises(OptionError, match="rank: is a setting of language models"):
        run(table, tmp_path / "out", rank=2)
    with pytest.raises(OptionError, match="names recordings"):
        run(place, tmp_path / "out", held_out_data=None)
