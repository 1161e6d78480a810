"""Recordings through models that write the text of samples: utterances, times, streams, clips and settings."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pyapp import tasks
from pyapp.audio.activity import Span
from pyapp.audio.options import TranscribeOptions
from pyapp.audio.streaming import LiveTranscriber
from pyapp.audio.transcribe import transcribe_events
from pyapp.audio.turns import Turn, Turns
from pyapp.errors import ModelError, OptionError
from pyapp.events import Done, Notice, Segment
from pyapp.models.loading.speech import load_speech_model
from pyapp.text.generation.sequence_to_sequence import SearchOptions, search
from tests.models.listener_configs import CONFIGS
from tests.models.test_listeners import make, write

RATE = 16000
NAME = "moonshine-streaming"
LONGER = {"max_position_embeddings": 1024}  # moments of 20 ms that are heard together


class Marks:
    """A detector that finds what is not silence: exactly the samples that are not 0."""

    def spans(self, sound: Any, start: int, end: int) -> list[Span]:
        heard = np.flatnonzero(sound.read(start, end))
        if not len(heard):
            return []
        cuts = np.flatnonzero(np.diff(heard) > RATE // 10)
        first, last = [heard[0], *heard[cuts + 1]], [*heard[cuts], heard[-1]]
        return [Span(one / RATE, (other + 1) / RATE) for one, other in zip(first, last, strict=True)]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = write(tmp_path_factory.mktemp("model"), NAME, dict(make(NAME, **LONGER).state_dict()), **LONGER)
    found = load_speech_model(folder)
    assert found.generation == {}
    return replace(found, generation={"max_length": 9})


def said(seconds: float, seed: int) -> np.ndarray:
    times = np.arange(round(seconds * RATE)) / RATE
    generator = np.random.default_rng(seed)
    return np.float32(0.2) * np.sin((300 + 100 * seed) * times * (1 + times / 9)).astype(np.float32) + np.float32(
        0.02
    ) * generator.standard_normal(len(times), np.float32)


def silent(seconds: float) -> np.ndarray:
    return np.zeros(round(seconds * RATE), np.float32)


def blocks(samples: np.ndarray) -> Iterator[np.ndarray]:
    for start in range(0, len(samples), 7777):
        yield samples[start : start + 7777]


def results(loaded: Any, audio: Any, options: Any = None, **more: Any) -> tuple[dict[str, Any], list[Segment]]:
    settings = TranscribeOptions.from_dict(options or {})
    events = list(transcribe_events(loaded, audio, settings, detector=Marks(), **more))
    assert isinstance(events[-1], Done)
    return events[-1].results, [event for event in events if isinstance(event, Segment)]


def written(loaded: Any, samples: np.ndarray) -> list[int]:
    """The tokens of an utterance by itself."""
    values, mask = loaded.processor([samples])
    options = SearchOptions.from_files(CONFIGS[NAME], {}, {"max_new_tokens": min(8, int(13 * len(samples) / RATE))})
    *_, found = search(loaded.model, values, mask, options)
    assert found is not None
    return found[0]


def test_each_utterance_by_itself(loaded: Any) -> None:
    """From pause to pause; over short pauses as long as an utterance may be; over the ends of windows; from blocks."""
    parts = [silent(1), said(3, 0), silent(1), said(9, 1), silent(0.3), said(9.5, 2), silent(0.3), said(4, 3),
             silent(3), said(2, 4), silent(40), said(1, 5)]  # fmt: skip
    audio = np.concatenate(parts)
    starts = np.cumsum([0, *(len(part) for part in parts)])
    expected = [(starts[first], starts[last + 1]) for first, last in ((1, 1), (3, 5), (7, 7), (9, 9), (11, 11))]
    for given in (audio, blocks(audio)):
        found, segments = results(loaded, given)
        assert [(segment.start, segment.end) for segment in segments] == [
            (round(one / RATE, 3), round(other / RATE, 3)) for one, other in expected
        ]
        assert [list(segment.tokens) for segment in segments] == [
            written(loaded, audio[one:other]) for one, other in expected
        ]
        assert found["text"] == "".join(segment.text for segment in segments) and found["text"].startswith(" ")
        assert abs(found["duration"] - len(audio) / RATE) < 1e-9 and segments[0].words is None


def test_speech_without_a_pause_is_cut_where_it_is_quietest(loaded: Any) -> None:
    audio = said(50, 1)
    audio[17 * RATE : 17 * RATE + 800] *= 0.01
    _, segments = results(loaded, audio)
    assert segments[0].end == segments[1].start and abs(segments[0].end - 17.025) < 0.03
    assert all(segment.end - segment.start <= 20 for segment in segments) and segments[-1].end == 50


def test_nothing_silence_and_too_little(loaded: Any) -> None:
    for audio in (silent(0), silent(0.01), silent(50)):
        found, segments = results(loaded, audio)
        assert found["text"] == "" and segments == []


def test_clips_and_speakers(loaded: Any) -> None:
    audio = np.concatenate([said(5, 0), silent(2), said(3, 1), silent(1)])
    _, segments = results(loaded, audio, {"clip_timestamps": "1,3,8.5"})
    assert [(segment.start, segment.end) for segment in segments] == [(1.0, 3.0), (8.5, 10.0)]
    _, segments = results(loaded, audio, turns=Turns([Turn(0, 6, 1), Turn(6, 11, 0)]))
    assert [segment.speaker for segment in segments] == ["Speaker 2", "Speaker 1"]


def test_settings(loaded: Any) -> None:
    for options, told in (
        ({"task": "translate"}, "does not translate"), ({"initial_prompt": "Names"}, "no text before"),
    ):  # fmt: skip
        with pytest.raises(OptionError, match=told):
            results(loaded, silent(1), options)
    events = list(transcribe_events(loaded, said(1, 0), TranscribeOptions(word_timestamps=True)))
    assert isinstance(events[0], Notice) and "times of words" in events[0].what
    beams, _ = results(loaded, said(2, 0), {"beam_size": 3})
    assert isinstance(beams["text"], str)
    with pytest.raises(ModelError, match="whole recordings"):
        LiveTranscriber(loaded)


def test_the_task(loaded: Any, tmp_path: Path) -> None:
    """What finds speech by default is loudness."""
    folder = write(tmp_path / "model", NAME, dict(make(NAME, **LONGER).state_dict()), **LONGER)
    audio = np.concatenate([silent(1), said(2, 0), silent(2)])

    async def run() -> list[Any]:
        return [event async for event in tasks.transcribe(audio, model=str(folder))]

    events = asyncio.run(run())
    [segment] = [event for event in events if isinstance(event, Segment)]
    assert abs(segment.start - 1) < 0.3 and abs(segment.end - 3) < 0.3
    assert events[-1].results["text"] == segment.text
