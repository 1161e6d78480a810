"""Recordings of any length through models that name characters: windows, times, streams, clips, speakers and settings,
with a model that reads the characters from the samples; and a small real one from its folder.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import tasks
from pyapp.audio.activity import Span
from pyapp.audio.options import TranscribeOptions
from pyapp.audio.streaming import LiveTranscriber
from pyapp.audio.transcribe import transcribe_events
from pyapp.audio.turns import Turn, Turns
from pyapp.errors import ModelError, OptionError
from pyapp.events import Done, Segment
from pyapp.text.tokenization.ctc_tokenizer import CTCTokenizer
from tests.models.sound_configs import SAMPLES, VOCABULARY, recording
from tests.models.test_sounds import golden, make, write

STEP, KERNEL, RATE = 320, 400, 16000
TOKENIZER = CTCTokenizer.from_files(VOCABULARY)
DELIMITER = VOCABULARY["|"]


class Reader:
    """Names the character that is written in the samples of each moment."""

    device = "cpu"

    def __init__(self) -> None:
        self.config = SimpleNamespace(samples_per_moment=STEP)
        self.encoder = SimpleNamespace(moments=lambda samples: max(0, (samples - KERNEL) // STEP + 1))
        self.windows: list[int] = []

    def __call__(self, values: Any, mask: Any) -> Any:
        samples = values.numpy()[0]
        self.windows.append(len(samples))
        moments = self.encoder.moments(len(samples))
        numbers = np.rint(samples[STEP // 2 :: STEP][:moments] * 64).astype(int)
        return pyapp.from_numpy(9 * np.eye(len(VOCABULARY), dtype=np.float32)[numbers][None])


def processor(recordings: list[np.ndarray]) -> tuple[Any, None]:
    return pyapp.from_numpy(np.stack(recordings)), None


def loaded() -> Any:
    return SimpleNamespace(name="reader", model=Reader(), tokenizer=TOKENIZER, processor=processor)


def spoken(seconds: float, seed: int = 0) -> tuple[np.ndarray, list[int]]:
    """Samples in which the number of each moment is written, and the numbers."""
    generator = np.random.default_rng(seed)
    numbers: list[int] = []
    while len(numbers) < seconds * RATE / STEP:
        for _ in range(generator.integers(1, 9)):
            numbers += [int(generator.integers(5, 14))] * int(generator.integers(1, 4))
            numbers += [0] * int(generator.integers(1, 6))
        numbers += [DELIMITER] * int(generator.integers(1, 4)) + [0] * int(generator.integers(0, 80))
    numbers = numbers[: int(seconds * RATE / STEP)]
    samples = np.repeat(np.float32(numbers) / 64, STEP)
    return np.concatenate([samples, np.zeros(KERNEL - STEP, np.float32)]), numbers


def results(audio: Any, options: Any = None, **more: Any) -> tuple[dict[str, Any], list[Segment], Reader]:
    model = loaded()
    settings = TranscribeOptions.from_dict({"word_timestamps": True} | (options or {}))
    events = list(transcribe_events(model, audio, settings, **more))
    assert isinstance(events[-1], Done)
    return events[-1].results, [event for event in events if isinstance(event, Segment)], model.model


def words_of(segments: list[Segment]) -> list[tuple[str, float, float]]:
    return [(word["word"], word["start"], word["end"]) for segment in segments for word in segment.words or ()]


def expected_words(numbers: list[int], first: int = 0) -> list[tuple[str, float, float]]:
    return [
        (f" {word.text}", round(word.first * STEP / RATE, 3), round(word.end * STEP / RATE, 3))
        for word in TOKENIZER.words(numbers, first)
    ]


def blocks(samples: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(samples), 7777):
        yield samples[start : start + 7777]


@pytest.mark.parametrize("seconds", [0.5, 29.9, 31.0, 55.0, 137.3])
def test_windows_join(seconds: float) -> None:
    """Each word once, with its times, whatever the length, from an array and from blocks."""
    samples, numbers = spoken(seconds, int(seconds))
    expected = expected_words(numbers)
    for audio in (samples, blocks(samples)):
        found, segments, model = results(audio)
        assert words_of(segments) == expected
        assert found["text"] == "".join(segment.text for segment in segments) == "".join(word for word, *_ in expected)
        assert abs(found["duration"] - len(samples) / RATE) < 1e-9 and max(model.windows) <= 30 * RATE
    for one, other in zip(segments, segments[1:], strict=False):
        assert other.start - one.end >= 0.8 or other.end - one.start > 15 or other.start - one.start > 10
        assert one.end - one.start <= 15 or len(one.words or ()) == 1


def test_nothing_and_silence() -> None:
    for audio in (np.zeros(0, np.float32), np.zeros(100, np.float32), np.zeros(50 * RATE, np.float32)):
        found, segments, _ = results(audio)
        assert found["text"] == "" and segments == []


def test_clips_and_what_a_detector_leaves_out() -> None:
    samples, numbers = spoken(100.0)
    found, segments, _ = results(samples, {"clip_timestamps": "40,80"})
    assert words_of(segments) == expected_words(numbers[2000:3999], 2000)
    assert found["duration"] == len(samples) / RATE

    class Deaf:
        def spans(self, samples: Any, start: int, end: int) -> list[Span]:
            return [Span(0.0, 1.0)] if start == 0 else []

    found, segments, model = results(samples, detector=Deaf())
    assert model.windows == [30 * RATE] and max(segment.end for segment in segments) <= 25.1


def test_speakers() -> None:
    samples, _ = spoken(20.0)
    _, segments, _ = results(samples, turns=Turns([Turn(0.0, 9.0, 0), Turn(9.0, 20.0, 1)]))
    names = [segment.speaker for segment in segments]
    assert set(names) == {"Speaker 1", "Speaker 2"} and sorted(names) == names
    assert all(word["speaker"] == segment.speaker for segment in segments for word in segment.words or ())


def test_what_only_whisper_does_is_refused() -> None:
    for options, told in (
        ({"task": "translate"}, "does not translate"), ({"initial_prompt": "Hello"}, "no text before"),
        ({"prefix": "Hello"}, "no text before"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=told):
            results(np.zeros(900, np.float32), options)
    with pytest.raises(ModelError, match="whole recordings"):
        LiveTranscriber(loaded())


@pytest.mark.parametrize("name", ["wav2vec2", "hubert-large", "wavlm"])
def test_a_model_from_its_folder(name: str, tmp_path: Path) -> None:
    """The text of transformers, with its times of words, by pyapp.tasks."""
    folder, expected = write(tmp_path / "model", name, dict(make(name).state_dict())), golden(name)
    settings = {"word_timestamps": True, "beam_size": 5}

    async def run() -> list[Any]:
        return [event async for event in tasks.transcribe(recording(SAMPLES[0]), settings, model=str(folder))]

    events = asyncio.run(run())
    done = next(event for event in events if isinstance(event, Done))
    assert done.results["text"].split() == expected["text"].split()
    times = [
        [word["word"].strip(), word["start"], word["end"]]
        for segment in done.results["segments"] for word in segment["words"]
    ]  # fmt: skip
    assert times == [[text, round(a * 20 / RATE, 3), round(b * 20 / RATE, 3)] for text, a, b in expected["words"]]
