"""Whole recordings: the same text, segments and times as openai-whisper; events, streams and memory."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pyapp.audio.mel import log_mel_spectrogram
from pyapp.audio.options import TranscribeOptions
from pyapp.audio.transcribe import transcribe_events
from pyapp.audio.transcript import Transcript, TranscriptSegment, Word
from pyapp.audio.transcript_writers import format_transcript
from pyapp.audio.windows import MelWindows
from pyapp.engine.ops import from_numpy
from pyapp.errors import Cancelled, OptionError
from pyapp.events import Cancel, Done, Event, Language, Metric, Partial, Progress, Segment
from pyapp.models.whisper import Config, Whisper
from pyapp.models.whisper.weights import fill
from tests.together import fewer_in_browser

from .speech_model import Shape, sound
from .tone_model import RATE, ToneModel, speech
from .transcribe_cases import CASES, SHAPES, Case

GOLDEN = json.loads(Path(__file__).with_name("golden_transcribe.json").read_text())
FIELDS = (
    "seek",
    "start",
    "end",
    "tokens",
    "temperature",
    "avg_logprob",
    "compression_ratio",
    "no_speech_prob",
    "words",
)
MEASURED = ("avg_logprob", "compression_ratio", "no_speech_prob")


@cache
def loaded(shape: Shape) -> Any:
    values = shape.weights()
    model = Whisper.empty(Config(**shape.config()))
    fill(model, values, lambda name: from_numpy(values[name]))
    return SimpleNamespace(model=model, tokenizer=shape.tokenizer())


def transcribe(model: Any, audio: Any, **options: Any) -> list[Event]:
    return list(transcribe_events(model, audio, TranscribeOptions(**options)))


def results(events: list[Event]) -> dict[str, Any]:
    assert isinstance(events[-1], Done)
    return dict(events[-1].results)


def compare(found: dict[str, Any], expected: dict[str, Any], decode: Any) -> None:
    """`found` are our results, `expected` a golden entry."""
    assert found["language"] == expected["language"]
    wanted = [dict(zip(FIELDS, entry, strict=False)) for entry in expected["segments"]]
    for name in ("seek", "tokens", "temperature"):
        assert [segment[name] for segment in found["segments"]] == [segment[name] for segment in wanted], name
    for index, (ours, theirs) in enumerate(zip(found["segments"], wanted, strict=True)):
        assert ours["id"] == index and ours["text"] == decode(theirs["tokens"])
        if ours["text"]:  # those without text were cleared, whatever their times
            assert (ours["start"], ours["end"]) == pytest.approx((theirs["start"], theirs["end"]), abs=1e-4)
        for name in MEASURED:
            assert ours[name] == pytest.approx(theirs[name], rel=1e-3, abs=1e-4), name
        words = theirs.get("words") or []
        assert [word["word"] for word in ours.get("words") or []] == [word[0] for word in words]
        for word, (_, start, end, probability) in zip(ours.get("words") or [], words, strict=True):
            assert (word["start"], word["end"]) == pytest.approx((start, end), abs=1e-4)
            assert word["probability"] == pytest.approx(probability, abs=1e-3)


HERE = fewer_in_browser(CASES, every=5)


@pytest.mark.parametrize("case", HERE, ids=[case.name for case in HERE])
def test_as_openai_whisper(case: Case) -> None:
    model = loaded(case.shape)
    found = results(transcribe(model, sound(case.seconds, case.sound), **case.settings))
    compare(found, GOLDEN[case.name], model.tokenizer.decode)


@pytest.mark.native_only  # the same Python in a browser, for seconds
@pytest.mark.parametrize(("seconds", "spared"), [(31.0, 1), (29.0, 0)])
def test_a_full_window_is_encoded_once_to_hear_its_language_and_its_words(seconds: float, spared: int) -> None:
    model = loaded(next(shape for shape in SHAPES if shape.multilingual))

    def count(**options: Any) -> tuple[int, dict[str, Any]]:
        encoded: list[int] = []

        def encode(mel: Any) -> Any:
            encoded.append(1)
            return model.model.encode(mel)

        watched = SimpleNamespace(
            model=SimpleNamespace(
                config=model.model.config, alignment_heads=None, encode=encode, new_session=model.model.new_session
            ),
            tokenizer=model.tokenizer,
        )
        found = results(transcribe(watched, sound(seconds), **options))
        return len(encoded), found

    heard, found = count()
    chosen, again = count(language=found["language"])
    assert heard == chosen + 1 - spared and found == again


def test_the_language_of_several_windows() -> None:
    """The first window that is sure enough decides, else the most windows; the languages of the windows are those of
    openai-whisper (be, lt, lt, …).
    """
    model, audio = loaded(Shape("languages", seed=3, gain=3.0)), sound(150.0, 3)
    short: dict[str, Any] = {"clip_timestamps": "0,0.5", "temperature": 0.0}
    for segments, threshold, wanted in ((1, 0.5, "be"), (3, 0.9, "lt"), (5, 0.05, "be"), (1 << 20, 1.0, "lt")):
        how = {"language_detection_segments": segments, "language_detection_threshold": threshold}
        told = transcribe(model, audio, **how, **short)[0]
        assert isinstance(told, Language) and told.code == wanted, how
        again = transcribe(model, blocks(audio, 7 * RATE), **how, **short)[0]
        assert isinstance(again, Language) and again.code == wanted, how
    events = transcribe(model, audio, multilingual=True, temperature=0.0)
    told = [event.code for event in events if isinstance(event, Language)]
    assert told[:2] == ["be", "lt"] and results(events)["language"] == "be"
    part: dict[str, Any] = {"clip_timestamps": "30,60", "temperature": 0.0}
    heard, chosen = (
        results(transcribe(model, audio, **part, **how)) for how in ({"multilingual": True}, {"language": "lt"})
    )
    assert heard["segments"] == chosen["segments"] and heard["segments"]
    with pytest.raises(OptionError, match="English"):
        transcribe(ToneModel(), audio, multilingual=True)
    with pytest.raises(OptionError, match="each window"):
        TranscribeOptions(language="de", multilingual=True)
    for wrong in ({"language_detection_segments": 0}, {"language_detection_threshold": 2}):
        with pytest.raises(OptionError, match=next(iter(wrong))):
            TranscribeOptions.from_dict(wrong)


def test_the_cases_reach_what_they_are_for() -> None:
    """Without this test, a model that never says anything would pass."""
    assert len(CASES) >= 40 and {case.shape for case in CASES} == set(SHAPES) and set(GOLDEN) == {c.name for c in CASES}
    segments = {
        name: [dict(zip(FIELDS, entry, strict=False)) for entry in case["segments"]] for name, case in GOLDEN.items()
    }
    every = [segment for found in segments.values() for segment in found]
    assert len({case["language"] for case in GOLDEN.values()}) > 6
    # fallbacks: not tried, tried and taken, tried to the end
    assert {0.0, 0.4, 0.6, 0.8} <= {segment["temperature"] for segment in every}
    mixed = [found for found in segments.values() if len({segment["temperature"] for segment in found}) > 1]
    assert len(mixed) >= 3
    # several segments in a window; windows that begin where the last time was; and those that were used up
    shared = [
        a for found in segments.values() for a, b in zip(found, found[1:], strict=False) if a["seek"] == b["seek"]
    ]
    assert len(shared) > 20
    steps = [b["seek"] - a["seek"] for found in segments.values() for a, b in zip(found, found[1:], strict=False)]
    assert sum(step == 3000 for step in steps) > 5 and sum(0 < step < 3000 for step in steps) > 20
    # silence: windows of "silence often" that have no segments
    assert not segments["silence often"] and segments["no test of silence"] != segments["usual settings, terse"]
    # words, and segments that were cleared
    assert sum(len(segment.get("words") or []) for segment in every) > 100
    assert any(not segment["tokens"] for segment in every)
    assert segments["words, silence skipped"] != segments["words"]
    plain = {json.dumps(found) for found in segments.values()}
    assert len(plain) > 45  # nearly every setting changes something


@pytest.mark.native_only
@pytest.mark.oracle
@pytest.mark.slow
@pytest.mark.parametrize(
    "name, languages, mels", [("multilingual", 99, 80), ("multilingual", 100, 128), ("gpt2", 99, 80)]
)
def test_the_real_vocabularies_as_openai_whisper(name: str, languages: int, mels: int) -> None:
    """If openai-whisper is installed: its own vocabularies, and models of the size that they need."""
    pytest.importorskip("whisper")
    from .openai_whisper import compare_live, real_shape

    shape = real_shape(name, languages, mels)
    compare_live(shape, loaded(shape), lambda *given, **options: results(transcribe(*given, **options)), compare)


# The loop around the model, with a model that hears tones.

TALK = [
    3,
    1,
    4,
    1,
    5,
    9,
    2,
    6,
    -1.0,
    5,
    3,
    5,
    8,
    9,
    7,
    9,
    -2.0,
    3,
    2,
    3,
    8,
    4,
    6,
    2,
    6,
    4,
    3,
    3,
    8,
    3,
    2,
    7,
    9,
    5,
    0,
    2,
] * 3


def blocks(samples: np.ndarray, size: int) -> Iterator[np.ndarray]:
    return (samples[start : start + size] for start in range(0, len(samples), size))


def heard(events: list[Event]) -> list[str]:
    return "".join(event.text for event in events if isinstance(event, Segment)).split()


def test_nothing_is_lost_between_windows() -> None:
    samples, spoken = speech(TALK)
    events = transcribe(ToneModel(), samples)
    assert heard(events) == [word for word, _, _ in spoken] and len(samples) > 40 * RATE
    assert results(events)["text"].split() == heard(events)


def test_events_come_in_their_order() -> None:
    samples, _ = speech(TALK)
    events = transcribe(ToneModel(), samples)
    assert isinstance(events[0], Language) and events[0].code == "en" and events[0].probability is None
    assert isinstance(events[-2], Metric) and events[-2].name == "speed" and isinstance(events[-1], Done)
    done = [event.done for event in events if isinstance(event, Progress)]
    assert done == sorted(done) and done[-1] == pytest.approx(len(samples) / RATE, abs=0.01)
    first = next(index for index, event in enumerate(events) if isinstance(event, Segment))
    partial = [event for event in events[:first] if isinstance(event, Partial)]
    assert len(partial) > 5 and [len(event.text) for event in partial] == sorted(len(event.text) for event in partial)
    assert events[first].text.startswith(partial[-1].text)  # type: ignore[attr-defined]
    found = results(events)
    assert found["duration"] == len(samples) / RATE and found["task"] == "transcribe"
    assert [s["text"] for s in found["segments"]] == [e.text for e in events if isinstance(e, Segment)]
    json.dumps([event.to_dict() for event in events], allow_nan=False)


@pytest.mark.parametrize("size", fewer_in_browser([333, 16_000, 1_000_000]))
def test_a_stream_gives_what_the_array_gives(size: int) -> None:
    samples, _ = speech(TALK)
    whole, stream = (transcribe(ToneModel(), audio) for audio in (samples, blocks(samples, size)))
    assert heard(stream) == heard(whole)
    a, b = results(whole), results(stream)
    assert [s["tokens"] for s in a["segments"]] == [s["tokens"] for s in b["segments"]] and a["duration"] == b[
        "duration"
    ]
    totals = [event.total for event in stream if isinstance(event, Progress)]
    assert totals[-1] == pytest.approx(len(samples) / RATE, abs=0.01)


def test_a_long_stream_needs_no_more_memory_than_a_short_one() -> None:
    samples, _ = speech(TALK)

    def peak(repeats: int) -> int:
        model = ToneModel()
        source = (block for _ in range(repeats) for block in blocks(samples, RATE))
        tracemalloc.start()
        for event in transcribe_events(model, source, TranscribeOptions(temperature=0.0)):
            assert event.type
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    assert peak(6) < peak(3) + 500_000  # 150 s more are 10 MB of samples; the segments remain


def test_mel_windows_are_those_of_the_whole() -> None:
    samples = sound(47.0, 5)
    whole = log_mel_spectrogram(samples, 80, padding=480_000)
    for audio in (samples, blocks(samples, 7777)):
        windows = MelWindows(audio, 80)
        if windows.frames is None:
            windows.holds(10_000)  # the end is in sight, but the loudest of all is not known
            windows.read(0, 4700)
        for start, end in ((0, 3000), (1234, 4234), (4000, 7000)):
            assert np.abs(windows.read(start, end) - whole[:, start:end]).max() < 1e-5
        assert windows.frames == 4700 and windows.holds(5000) == 4700


def test_clips_of_a_stream_come_in_order() -> None:
    samples, _ = speech(TALK)
    forward = transcribe(ToneModel(), blocks(samples, RATE), clip_timestamps="4,8,20,30")
    assert heard(forward) == heard(transcribe(ToneModel(), samples, clip_timestamps="4,8,20,30"))
    with pytest.raises(OptionError, match="clip_timestamps"):
        transcribe(ToneModel(), blocks(samples, RATE), clip_timestamps="35,40,1,2")
    assert heard(transcribe(ToneModel(), samples, clip_timestamps="35,40,1,2"))


def test_skipped_silence_is_not_decoded() -> None:
    samples, spoken = speech([-40.0, 1, 2, 3, -45.0, 4, 5, 6, -3.0])
    samples = samples + 1e-5 * np.random.RandomState(0).standard_normal(len(samples)).astype(np.float32)
    usual, model = ToneModel(), ToneModel()
    transcribe(usual, samples)
    events = transcribe(model, samples, skip_silence=True)
    assert heard(events) == [word for word, _, _ in spoken]
    assert model.looks == 2 < usual.looks
    starts = [event.start for event in events if isinstance(event, Segment)]
    assert starts == pytest.approx([spoken[0][1], spoken[3][1]], abs=0.3)


def test_no_sound_no_text() -> None:
    for audio in (np.zeros(0, np.float32), iter(())):
        found = results(transcribe(ToneModel(), audio))
        assert (found["text"], found["segments"], found["duration"]) == ("", [], 0)
    silence = transcribe(ToneModel(no_speech=60.0), np.zeros(35 * RATE, np.float32))
    assert results(silence)["segments"] == []


def test_a_model_that_does_not_move_on_is_moved_on() -> None:
    """Times of 0.00 at the end of every window would be decoded for ever."""

    class Stuck(ToneModel):
        def script(self, audio: Any) -> list[int]:
            begin = self.tokenizer.timestamp_begin
            return [begin, *self.words[0], begin, begin]

    events = transcribe(Stuck(), speech(TALK)[0], without_timestamps=True)
    assert len([event for event in events if isinstance(event, Progress)]) < 10


def test_what_a_model_cannot_do_is_said() -> None:
    for options, name in (({"language": "de"}, "language"), ({"task": "translate"}, "task")):
        with pytest.raises(OptionError, match="multilingual") as caught:
            transcribe(ToneModel(), np.zeros(100, np.float32), **options)
        assert caught.value.where == name
    with pytest.raises(OptionError, match="not finite"):
        transcribe(ToneModel(), np.full(100, np.nan, np.float32))
    with pytest.raises(OptionError, match="are above 1e"):
        transcribe(ToneModel(), np.full(100, -1e30, np.float32))
    with pytest.raises(OptionError, match="mono"):
        transcribe(ToneModel(), np.zeros((2, 100), np.float32))
    cancel = Cancel()
    cancel.set()
    with pytest.raises(Cancelled):
        list(transcribe_events(ToneModel(), speech(TALK)[0], None, cancel))


def test_what_is_written_has_times_in_order() -> None:
    """The writers accept segments at any times that a model may give."""
    shape = SHAPES[0]
    audio = sound(62.0)
    found = results(transcribe(loaded(shape), audio, word_timestamps=True, temperature=0.0))
    segments = [
        TranscriptSegment(**{**entry, "words": [Word(**word) for word in entry["words"]]})
        for entry in found["segments"]
    ]
    tidy = Transcript(segments, found["language"], found["duration"]).tidy()
    times = [time for segment in tidy.segments for time in (segment.start, segment.end)]
    assert times == sorted(times) and times[0] >= 0 and times[-1] <= 62.0
    assert format_transcript(tidy, "srt").count("-->") == sum(bool(s.text.strip()) for s in tidy.segments)
