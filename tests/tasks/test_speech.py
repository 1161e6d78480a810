"""The transcribe task: its events and their order, the model it keeps, recordings of every kind, stopping."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp.models
from pyapp import tasks
from pyapp.audio import open_audio, write_wav
from pyapp.audio.options import TranscribeOptions
from pyapp.events import Cancel, Done, Error, Event, Metric, Notice, Partial, Progress, Segment
from pyapp.tasks import speech
from tests.audio import listening_parrot
from tests.audio.listening_parrot import counting, steady
from tests.audio.networks import speaker_network, speech_network
from tests.audio.sounds import RATE, place, silence
from tests.together import collect, collect_and_count

pytestmark = pytest.mark.native_only


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """Installs a loader of parrots that records its requests."""
    asked: list[Any] = []

    def load_speech_model(source: Any, *, report: Callable[[Event], None], cancel: Cancel) -> Any:
        cancel.check()
        asked.append(source)
        report(Progress("reading the model", 1, 1, "bytes"))
        return listening_parrot.load(str(source))

    monkeypatch.setattr(pyapp.models, "load_speech_model", load_speech_model, raising=False)
    tasks.unload()
    yield asked
    tasks.unload()


def said(events: list[Event]) -> list[tuple[str, float, float]]:
    return [(it.text.strip(), round(it.start, 1), round(it.end, 1)) for it in events if isinstance(it, Segment)]


def wav_bytes(samples: np.ndarray, rate: int = RATE) -> bytes:
    file = io.BytesIO()
    write_wav(file, samples, rate)
    return file.getvalue()


def test_a_recording(loads: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "count.wav"
    write_wav(path, counting(1, 2, 3, 4), RATE)
    events = collect(tasks.transcribe(path, model="a/model:file"))
    assert loads == ["a/model:file"]
    kinds = [event.type for event in events if not isinstance(event, (Partial, Progress))]
    assert kinds == ["metric", "language", *["segment"] * 4, "metric", "done"]
    assert said(events) == [("one", 0.0, 1.5), ("two", 2.5, 4.5), ("three", 5.5, 8.5), ("four", 8.5, 13.5)]
    assert [event.name for event in events if isinstance(event, Metric)] == ["load_time", "speed"]
    steps = [
        (event.done, event.total)
        for event in events
        if isinstance(event, Progress) and event.what != "reading the model"
    ]
    assert steps[-1] == (14.5, 14.5) and (
        "reading the recording" in {it.what for it in events if isinstance(it, Progress)}
    )
    done = events[-1].to_dict()
    assert done["text"] == " one two three four" and done["language"] == "en" and done["duration"] == 14.5
    assert done["task"] == "transcribe" and [it["text"] for it in done["segments"]] == [
        " one",
        " two",
        " three",
        " four",
    ]


@pytest.mark.parametrize("kind", ["bytes", "stream", "samples", "reader", "blocks that are read as they come"])
def test_recordings_of_every_kind(kind: str, loads: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    sound = counting(1, 2, 3, 4, 3, 2, 1)
    data = wav_bytes(np.stack([sound, sound], axis=1))
    if kind == "blocks that are read as they come":
        monkeypatch.setattr(speech, "READ_FIRST_SECONDS", 5.0)
    audio = {"bytes": data, "stream": io.BytesIO(data), "samples": sound, "reader": open_audio(data)}.get(kind, data)
    events = collect(tasks.transcribe(audio))
    assert [text for text, _, _ in said(events)] == ["one", "two", "three", "four", "three", "two", "one"]
    (last,) = [event for event in events if isinstance(event, Progress)][-1:]
    assert (last.done, last.total) == (23.5, 23.5)


def test_a_header_that_says_too_little(loads: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples that were read first are not lost if the recording is longer than the limit for reading ahead."""
    monkeypatch.setattr("pyapp.audio.reader.BLOCK_SAMPLES", 20_000)
    reader = open_audio(counting(*[1.0] * 10))
    reader.duration = 1.0
    assert len(said(collect(tasks.transcribe(reader)))) == 10


def test_notices_come_before_the_end(loads: list[Any]) -> None:
    for sound, what in (
        (silence(3.0), "silent"),
        (np.clip(counting(2) * 99, -1, 1), "clipped"),
        (counting(2) + 0.3, "DC"),
    ):
        events = collect(tasks.transcribe(sound))
        notice, done = events[-2:]
        assert isinstance(notice, Notice) and what in notice.what and isinstance(done, Done)
    assert not any(isinstance(event, Notice) for event in collect(tasks.transcribe(counting(2))))


def test_options(loads: list[Any]) -> None:
    sound = counting(1, 2)
    for options in ({"language": "de", "task": "translate"}, TranscribeOptions(language="de", task="translate")):
        done = collect(tasks.transcribe(sound, options))[-1].to_dict()
        assert (done["language"], done["task"]) == ("de", "translate")
    loads.clear()
    tasks.unload()
    (error,) = collect(tasks.transcribe(sound, {"beam_size": 0}))
    assert isinstance(error, Error) and error.where == "beam_size" and not loads
    assert len(said(collect(tasks.transcribe(sound, {"beam_size": 3})))) == 2


def test_a_recording_is_looked_at_before_the_model_is_loaded(loads: list[Any], tmp_path: Path) -> None:
    (error,) = collect(tasks.transcribe(tmp_path / "nothing.wav"))
    assert isinstance(error, Error) and error.what == "no such file or directory"
    (error,) = collect(tasks.transcribe(b"\0\0\0\x20ftypM4A " + bytes(50)))
    assert isinstance(error, Error) and "MP4" in error.what and error.hint and "ffmpeg" in error.hint
    (error,) = collect(tasks.transcribe(np.zeros(4, np.int16)))
    assert isinstance(error, Error) and "int16" in error.what
    assert not loads


# -- the model


def test_the_model_is_kept_beside_none_of_another_kind(loads: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    sound = counting(1)
    collect(tasks.transcribe(sound, model="x"))
    again = collect(tasks.transcribe(sound, model="x"))
    assert loads == ["x"] and not any(isinstance(event, Metric) and event.name == "load_time" for event in again)
    collect(tasks.load_speech("x"))
    assert loads == ["x"]
    sources = {"model": b"1", "config": b"2"}
    for key in (None, None, "k", "k", "other"):
        collect(tasks.transcribe(sound, model=sources, key=key))
    assert loads == ["x", sources, sources, sources, sources]
    collect(tasks.transcribe(sound, model="x"))

    texts: list[Any] = []

    def load_model(source: Any, tokenizer: Any = None, **settings: Any) -> Any:
        texts.append(source)
        raise MemoryError

    monkeypatch.setattr(pyapp.models, "load_model", load_model)
    collect(tasks.generate("x"))  # the same name is another model there, and needs the room
    assert texts == ["x"]
    loads.clear()
    collect(tasks.transcribe(sound, model="x"))
    assert loads == ["x"]


def test_loading_ahead(loads: list[Any]) -> None:
    done = collect(tasks.load_speech("name"))[-1]
    assert done.to_dict() == {"type": "done", "reason": "complete", "name": "name", "config": {"n_mels": 80}}


def test_names_of_models(loads: list[Any]) -> None:
    for name in ("turbo", "openai/whisper-large-v3-turbo", None):
        collect(tasks.transcribe(counting(1), model=name))
    assert loads[0] == "whisper-large-v3-turbo" and len(loads) == 2
    from pyapp import hub

    assert loads[1] == hub.models("transcribe")[0].id
    (error,) = collect(tasks.transcribe(counting(1), model="stories15M"))
    assert (
        isinstance(error, Error)
        and error.what == "this model writes text"
        and "pyapp generate stories15M" in str(error)
    )
    (error,) = collect(tasks.generate("whisper-tiny"))
    assert isinstance(error, Error) and "pyapp transcribe --model whisper-tiny" in str(error)


def test_a_loaded_model_is_used_as_it_is(loads: list[Any]) -> None:
    loaded = listening_parrot.load(language="de")
    done = collect(tasks.transcribe(counting(2), model=loaded))[-1].to_dict()
    assert done["language"] == "de" and done["text"] == " two" and not loads


# -- stopping


def test_cancel(loads: list[Any]) -> None:
    cancel = Cancel()
    cancel.set()
    assert [it.to_dict() for it in collect(tasks.transcribe(counting(1), cancel=cancel))] == [
        {"type": "done", "reason": "cancelled"}
    ]

    async def stop_at_the_first_segment() -> list[Event]:
        cancel, events = Cancel(), []
        async for event in tasks.transcribe(counting(*[1] * 40), cancel=cancel):
            events.append(event)
            if isinstance(event, Segment):
                cancel.set()
        return events

    events = asyncio.run(stop_at_the_first_segment())
    assert 1 <= len(said(events)) <= 5 and events[-1] == Done("cancelled")


def test_closing_ends_it_and_closes_the_file(loads: list[Any], tmp_path: Path) -> None:
    path = tmp_path / "a.wav"
    write_wav(path, counting(*[1] * 20), RATE)
    reader = open_audio(path)

    async def run() -> None:
        events = tasks.transcribe(reader)
        async for event in events:
            if isinstance(event, Partial):
                break
        await events.aclose()

    asyncio.run(run())
    assert not list(reader)
    with pytest.raises(ValueError, match="closed"):
        reader._decoder._wav.read()


def test_the_event_loop_runs_meanwhile(loads: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """At each token, however long a window takes."""
    loaded = listening_parrot.load()
    plain = listening_parrot.ParrotSession.step

    def slow(self: Any, tokens: list[int]) -> np.ndarray:
        time.sleep(tasks.BREATH * 1.5)
        return plain(self, tokens)

    monkeypatch.setattr(listening_parrot.ParrotSession, "step", slow)

    events, turns = collect_and_count(tasks.transcribe(counting(1, 2, 3), model=loaded))
    partials = sum(isinstance(event, Partial) for event in events)
    assert partials >= 3 and turns > 0.8 * partials


# -- the microphone


async def spoken(sound: np.ndarray, block: float = 0.1, ended: list[bool] | None = None) -> Any:
    """Blocks of a tenth of a second, as fast as they are taken."""
    try:
        for at in range(0, len(sound), round(block * RATE)):
            await asyncio.sleep(0)
            yield sound[at : at + round(block * RATE)]
    finally:
        if ended is not None:
            ended.append(True)


@pytest.mark.parametrize("task", [tasks.listen, tasks.transcribe])
def test_words_appear_while_they_are_spoken(task: Any, loads: list[Any]) -> None:
    sound = counting(1, 1, 1, pause=2.0)  # a longer one is two and three while it lasts
    events = collect(task(spoken(sound), model="x"))
    assert loads == ["x"]
    assert [text for text, _, _ in said(events)] == ["one", "one", "one"]
    kinds = [event.type for event in events]
    assert kinds[0] == "progress" and kinds[-1] == "done" and "partial" in kinds and "notice" not in kinds
    assert kinds.index("partial") < kinds.index("segment")
    done = events[-1].to_dict()
    assert (done["text"], done["language"], done["duration"]) == (" one one one", "en", len(sound) / RATE)
    starts = [event.start for event in events if isinstance(event, Segment)]
    assert starts == sorted(starts) and all(
        abs(at - due) < 0.7 for at, due in zip(starts, (0.5, 3.5, 6.5), strict=True)
    )


def test_options_of_listening(loads: list[Any]) -> None:
    done = collect(tasks.listen(spoken(counting(1)), {"language": "de", "task": "translate"}))[-1].to_dict()
    assert (done["language"], done["task"]) == ("de", "translate")
    (error,) = collect(tasks.listen(spoken(counting(1)), {"language": "klingon"}))
    assert isinstance(error, Error) and error.where == "language"


def test_a_microphone_that_hears_nothing(loads: list[Any]) -> None:
    notice, done = collect(tasks.listen(spoken(silence(2.0))))[-2:]
    assert isinstance(notice, Notice) and notice.where == "microphone" and "silent" in notice.what
    assert done.to_dict()["text"] == ""


def test_stopping_a_microphone_that_says_nothing(loads: list[Any]) -> None:
    """A stream that gives nothing and never ends: only Cancel ends it."""

    async def run(close: bool) -> tuple[list[Event], float, list[bool]]:
        cancel, ended, events = Cancel(), [], []

        async def mute() -> Any:
            try:
                yield counting(1)
                await asyncio.sleep(60)
            finally:
                ended.append(True)

        stream = tasks.listen(mute(), cancel=cancel)
        asyncio.get_running_loop().call_later(0.5, cancel.set)
        start = time.perf_counter()
        async for event in stream:
            events.append(event)
            if close and isinstance(event, Partial):
                break
        await stream.aclose()
        return events, time.perf_counter() - start, ended

    events, seconds, ended = asyncio.run(run(close=False))
    assert events[-1] == Done("cancelled") and seconds < 10 and ended == [True]
    _, _, ended = asyncio.run(run(close=True))
    assert ended == [True]


def test_a_microphone_that_fails(loads: list[Any]) -> None:
    async def lost() -> Any:
        yield counting(1)
        raise OSError(5, "Input/output error", "hw:0")

    (error,) = [event for event in collect(tasks.listen(lost())) if isinstance(event, Error)]
    assert error.where == "hw:0"


# -- long recordings


class Endless(io.RawIOBase):
    """A pipe with a WAVE file of `seconds`, made while it is read."""

    def __init__(self, part: np.ndarray, seconds: float) -> None:
        self._part = wav_bytes(part)[44:]
        self._left = round(seconds * RATE) * 2
        self._waiting = wav_bytes(part)[:40] + b"\xff\xff\xff\xff"

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._waiting:
            self._waiting = self._part[: self._left]
            self._left -= len(self._waiting)
        part, self._waiting = self._waiting[: len(buffer)], self._waiting[len(buffer) :]
        buffer[: len(part)] = part
        return len(part)


def test_five_minutes_need_no_more_memory_than_one(loads: list[Any]) -> None:
    """NumPy's arrays are traced: what Python holds at once must not grow with the recording."""
    import tracemalloc

    part = counting(1, 2, 3)
    peaks = []
    for minutes in (1, 5):
        pipe = io.BufferedReader(Endless(part, minutes * 60))
        loaded = listening_parrot.load()
        tracemalloc.start()
        events = collect(tasks.transcribe(pipe, {"condition_on_previous_text": False}, model=loaded))
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert events[-1].to_dict()["duration"] == minutes * 60
        assert len(said(events)) >= minutes * 60 / (len(part) / RATE) * 3 - 3
        del events
    assert peaks[1] < peaks[0] + 1_500_000


def test_no_time_passes_the_end_of_the_recording() -> None:
    words = ({"word": " a", "start": 1.0, "end": 2.0}, {"word": " b", "start": 2.1, "end": 2.4})
    segment = Segment(" a b", 1.0, 2.5, words=words)
    cut = speech.until(segment, 2.05)
    assert (cut.start, cut.end) == (1.0, 2.05) and cut.text == segment.text
    assert cut.words is not None
    assert [(word["start"], word["end"]) for word in cut.words] == [(1.0, 2.0), (2.05, 2.05)]
    assert speech.until(segment, 3.0) is segment
    assert speech.until(Segment(" a", 4.0, 5.0), 3.0).start == 3.0


# -- networks beside the model


@pytest.fixture
def voices(tmp_path: Path) -> dict[str, Any]:
    """A recording of two voices, and hand-made networks for speech and for speakers."""
    sound = place(9.5, (0.5, steady(1.0, 110.0)), (2.5, steady(2.0, 240.0)), (5.5, steady(3.0, 110.0)))
    path = tmp_path / "voices.wav"
    write_wav(path, sound, RATE)
    metadata = {"feature_normalize_type": "", "normalize_samples": "0"}
    return {"path": path, "vad": speech_network(), "speaker_model": speaker_network(spectrum=True, metadata=metadata)}


NAMED = [("one", "Speaker 1"), ("two", "Speaker 2"), ("three", "Speaker 1")]


def named(events: list[Event]) -> list[tuple[str, str | None]]:
    assert isinstance(events[-1], Done), events[-1]
    found = [(it.text.strip(), it.speaker) for it in events if isinstance(it, Segment)]
    assert [segment.get("speaker") for segment in events[-1].results["segments"] if segment["text"]] == [
        it[1] for it in found
    ]
    return found


@pytest.mark.parametrize("limit", [1800.0, 1.0])  # seconds of recordings that are read at once
def test_speakers_of_all_kinds_of_recordings(
    loads: list[Any], voices: dict[str, Any], limit: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(speech, "READ_FIRST_SECONDS", limit)
    path = voices.pop("path")
    options = {"speakers": 2}
    samples = np.concatenate(list(open_audio(path)))
    for audio in (path, path.read_bytes(), io.BytesIO(path.read_bytes()), open_audio(path), samples):
        assert named(collect(tasks.transcribe(audio, options, **voices))) == NAMED
    events = collect(tasks.transcribe(path, options, speaker_model=voices["speaker_model"]))
    assert named(events) == NAMED  # speech by its energy
    steps = [event.done for event in events if isinstance(event, Progress) and event.what.startswith("telling")]
    assert steps == sorted(steps) and 8 < steps[-1] <= 9.5


def test_networks_are_kept(loads: list[Any], voices: dict[str, Any], tmp_path: Path) -> None:
    from pyapp.tasks import speech_networks

    files = {name: tmp_path / f"{name}.onnx" for name in ("vad", "speaker_model")}
    for name, file in files.items():
        file.write_bytes(voices[name])
    for _ in range(2):
        assert named(collect(tasks.transcribe(voices["path"], {"speakers": 2}, **files))) == NAMED
        kept = dict(speech_networks._loaded)
        assert len(kept) == 2
    assert speech_networks._loaded == kept
    tasks.unload()
    assert not speech_networks._loaded
    loaded = {
        "vad": speech_networks.load_vad(files["vad"]),
        "speaker_model": speech_networks.load_speakers(files["speaker_model"]),
    }
    assert named(collect(tasks.transcribe(voices["path"], {"speakers": "2"}, **loaded))) == NAMED
    assert not speech_networks._loaded and speech_networks.load_vad("energy") is None


def test_speakers_need_a_whole_recording(loads: list[Any]) -> None:
    async def live() -> Any:
        yield silence(1.0)

    for options, settings, where in (
        ({"speakers": 2}, {}, "speakers"), ({}, {"vad": "silero"}, "vad"),
        ({}, {"speaker_model": "x/y"}, "speaker_model"),
    ):  # fmt: skip
        (event,) = collect(tasks.transcribe(live(), options, **settings))[-1:]
        assert isinstance(event, Error) and event.where == where and "live speech" in event.what
    for wrong in (0, -1, 2.5, "many", 101, "", [2]):
        event = collect(tasks.transcribe(silence(1.0), {"speakers": wrong}))[-1]
        assert isinstance(event, Error) and event.where == "speakers"


def test_stop_while_speakers_are_told_apart(loads: list[Any], voices: dict[str, Any]) -> None:
    cancel = Cancel()

    async def run() -> list[Event]:
        found = []
        async for event in tasks.transcribe(voices.pop("path"), {"speakers": 2}, cancel=cancel, **voices):
            found.append(event)
            if isinstance(event, Progress) and event.what.startswith("telling"):
                cancel.set()
        return found

    events = asyncio.run(run())
    assert events[-1] == Done("cancelled") and not any(isinstance(event, Segment) for event in events)
