"""Live transcription: final words stay and arrive soon, and memory does not grow."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import numpy as np
import pytest

from pyapp.audio import streaming
from pyapp.audio.activity import Span
from pyapp.audio.live_words import LiveWord
from pyapp.audio.options import TranscribeOptions
from pyapp.audio.streaming import LiveOptions, LiveTranscriber
from pyapp.errors import Cancelled, OptionError
from pyapp.events import Cancel, Event, Language, Partial, Segment
from tests.together import fewer_in_browser

from .tone_model import RATE, ToneModel, speech

BLOCK = RATE // 4


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoding takes no time, however busy the machine is: what is heard at a time depends on it."""
    monkeypatch.setattr(streaming, "perf_counter", lambda: 0.0)


def listen(live: LiveTranscriber, samples: np.ndarray, block: int = BLOCK) -> list[tuple[float, Event]]:
    """(seconds of sound so far, event), for samples that arrive in blocks."""
    found: list[tuple[float, Event]] = []
    for start in range(0, len(samples), block):
        events = live.push(samples[start : start + block])
        found += [(live.seconds, event) for event in events]
    return found + [(live.seconds, event) for event in live.finish()]


def final_words(found: Sequence[tuple[float, Event]]) -> list[tuple[float, str, float, float]]:
    """(when it became final, word, start, end)."""
    segments = [(heard, event) for heard, event in found if isinstance(event, Segment)]
    return [
        (h, word["word"].strip(), word["start"], word["end"]) for h, event in segments for word in event.words or ()
    ]


def sentences(count: int, length: int, pause: float, seed: int = 0) -> list[int | float]:
    draw = random.Random(seed)
    return [word for _ in range(count) for word in [*(draw.randrange(10) for _ in range(length)), -pause]]


def test_words_become_final_within_two_seconds() -> None:
    samples, spoken = speech([-1.0, *sentences(2, 7, 1.5)])
    found = listen(LiveTranscriber(ToneModel()), samples)
    words = final_words(found)
    assert [word for _, word, _, _ in words] == [word for word, _, _ in spoken]
    for (heard, _, start, end), (_, true_start, true_end) in zip(words, spoken, strict=True):
        assert heard - true_end <= 2.0
        assert abs(start - true_start) < 0.25 and abs(end - true_end) < 0.25


def test_a_slow_model_hears_more_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    samples, spoken = speech([-1.0, *sentences(1, 7, 1.5)])
    decode, lengths = streaming.transcribe_events, dict[float, int]()
    for cost in (0.0, 1.5):
        ticks, heard = count(step=cost), []

        def watched(*args: Any, heard: list[Any] = heard) -> Any:
            heard.append(args)
            return decode(*args)

        monkeypatch.setattr(streaming, "perf_counter", ticks.__next__)
        monkeypatch.setattr(streaming, "transcribe_events", watched)
        words = final_words(listen(LiveTranscriber(ToneModel()), samples))
        assert [word for _, word, _, _ in words] == [word for word, _, _ in spoken]
        lengths[cost] = len(heard)
    assert lengths[1.5] <= lengths[0.0] / 2


def test_what_is_held_fits_the_window_of_the_model() -> None:
    assert LiveOptions.for_window(30.0) == LiveOptions()
    short = LiveOptions.for_window(15.0)
    assert short.trim < short.longest < 15.0


def test_the_model_is_not_told_what_it_hears(monkeypatch: pytest.MonkeyPatch) -> None:
    """The previous text belongs to sound that is no longer in memory."""
    told: list[tuple[float, str]] = []
    decode = streaming.transcribe_events

    def watched(model: Any, sound: np.ndarray, options: TranscribeOptions, cancel: Cancel) -> Any:
        told.append((live.seconds - len(sound) / RATE, options.initial_prompt or ""))
        return decode(model, sound, options, cancel)

    monkeypatch.setattr(streaming, "transcribe_events", watched)
    samples, spoken = speech([-1.0, *sentences(3, 7, 1.5)])
    live = LiveTranscriber(ToneModel())
    listen(live, samples)
    assert told[-1][1]
    for begin, prompt in told:
        assert len(prompt.split()) <= sum(end <= begin + 0.5 for _, _, end in spoken)


def test_text_is_shown_before_it_is_final() -> None:
    samples, spoken = speech([-1.0, *sentences(1, 12, 1.5)])
    found = listen(LiveTranscriber(ToneModel()), samples)
    shown = next(heard for heard, event in found if isinstance(event, Partial) and event.text)
    final = next(heard for heard, event in found if isinstance(event, Segment))
    assert shown < final and shown - spoken[0][1] <= 1.0
    # the last Partial of an utterance is empty: nothing is left that may change
    assert [event.text for _, event in found if isinstance(event, Partial)][-1] == ""


def test_final_words_run_forward_and_are_numbered() -> None:
    samples, _ = speech(sentences(2, 6, 1.0, seed=2))
    found = listen(LiveTranscriber(ToneModel()), samples)
    segments = [event for _, event in found if isinstance(event, Segment)]
    assert [segment.id for segment in segments] == list(range(len(segments)))
    times = [time for _, _, start, end in final_words(found) for time in (start, end)]
    assert times == sorted(times) and times[-1] <= len(samples) / RATE
    assert all(segment.text == "".join(word["word"] for word in segment.words or ()) for segment in segments)


@pytest.mark.parametrize("block", [7001, 2 * RATE])
def test_the_size_of_blocks_does_not_change_the_text(block: int) -> None:
    samples, spoken = speech(sentences(2, 6, 1.2, seed=5))
    words = final_words(listen(LiveTranscriber(ToneModel()), samples, block))
    assert [word for _, word, _, _ in words] == [word for word, _, _ in spoken]


def test_a_model_that_never_agrees_with_itself_does_not_hold_up_the_stream() -> None:
    samples, _ = speech(sentences(1, 50, 0.5, seed=3))
    live = LiveTranscriber(ToneModel(flicker=True), live=LiveOptions(interval=1.0, trim=4.0, longest=8.0))
    held = 0.0
    words = 0
    for start in range(0, len(samples), BLOCK):
        words += sum(isinstance(event, Segment) for event in live.push(samples[start : start + BLOCK]))
        held = max(held, len(live._sound) / RATE)
    assert held <= 9.5 and words > 1


def test_an_unbroken_speaker_is_cut_where_words_are_final() -> None:
    samples, spoken = speech(sentences(1, 40, 0.5, seed=4))
    live = LiveTranscriber(ToneModel(), live=LiveOptions(interval=1.0, trim=4.0, longest=8.0))
    held: list[int] = []
    words = []
    for start in range(0, len(samples), BLOCK):
        words += final_words([(0.0, event) for event in live.push(samples[start : start + BLOCK])])
        held.append(len(live._sound))
    words += final_words([(0.0, event) for event in live.finish()])
    assert max(held) / RATE <= 6.5
    assert [word for _, word, _, _ in words] == [word for word, _, _ in spoken]


def test_memory_does_not_grow() -> None:
    """The peak of memory is the same for ten seconds and for half a minute."""
    samples, _ = speech(sentences(2, 6, 2.0, seed=6))
    live = LiveTranscriber(ToneModel(), live=LiveOptions(interval=2.0))

    def peak(rounds: int) -> int:
        tracemalloc.start()
        for _ in range(rounds):
            for start in range(0, len(samples), RATE):
                live.push(samples[start : start + RATE])
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    first = peak(1)
    assert peak(3) < first + 100_000
    assert live.seconds > 30


def test_silence_is_not_decoded() -> None:
    model = ToneModel()
    live = LiveTranscriber(model)
    noise = 1e-5 * np.random.RandomState(0).standard_normal(20 * RATE).astype(np.float32)
    assert listen(live, noise) == [] and model.looks == 0 and len(live._sound) < RATE
    assert live.finish() == []


def test_what_was_said_is_the_prompt_of_what_follows() -> None:
    model = ToneModel()
    options = TranscribeOptions(initial_prompt="oil", temperature=0.0)
    samples, spoken = speech(sentences(2, 4, 1.5))
    listen(LiveTranscriber(model, options), samples)
    texts = [model.tokenizer.decode(prompt) for prompt in model.prompts]
    assert texts[0] == " oil"
    assert texts[-1].split()[:4] == [word for word, _, _ in spoken[:4]]


def test_times_that_differ_between_decodings_neither_double_nor_lose_words(monkeypatch: pytest.MonkeyPatch) -> None:
    """By up to a quarter of a second, while a word lasts 0.3 s."""
    plain, draw = streaming.live_word, random.Random(4)

    def shaken(word: Any, offset: float, logprob: float) -> LiveWord:
        exact, by = plain(word, offset, logprob), draw.uniform(-0.25, 0.25)
        return replace(exact, start=exact.start + by, end=exact.end + by)

    monkeypatch.setattr(streaming, "live_word", shaken)
    for seed in fewer_in_browser(range(3)):
        samples, spoken = speech([-1.0, *sentences(3, 8, 1.2, seed)])
        words = final_words(listen(LiveTranscriber(ToneModel()), samples))
        assert [word for _, word, _, _ in words] == [word for word, _, _ in spoken]


# What a model hears in noise, and what find_speech finds there: it misses the soft beginning of the second sentence.
NOISY_WORDS = [("Two", 0.5, 0.8), ("tickets.", 0.9, 1.4), ("The", 2.3, 2.4), ("train", 2.6, 3.0), ("leaves.", 3.1, 3.6)]
NOISY_SPEECH = [(0.4, 1.5), (2.55, 3.7)]


@pytest.mark.parametrize("block", [RATE // 10, RATE // 5, RATE])
def test_no_word_is_doubled_where_an_utterance_ends_in_noise(monkeypatch: pytest.MonkeyPatch, block: int) -> None:
    live = LiveTranscriber(ToneModel())

    def begin() -> float:
        return live._offset / RATE

    def find(samples: np.ndarray) -> list[Span]:
        end = len(samples) / RATE
        spans = [(start - begin(), min(stop - begin(), end)) for start, stop in NOISY_SPEECH]
        return [Span(max(0.0, start), stop) for start, stop in spans if stop > 0 and start < end]

    def hear(_model: Any, samples: np.ndarray, *_: Any) -> Iterator[Event]:
        words = [
            {"word": f" {word}", "start": start - begin(), "end": end - begin(), "probability": 0.9}
            for word, start, end in NOISY_WORDS
            if start >= begin() and end <= begin() + len(samples) / RATE
        ]
        if words:
            yield Segment("", words[0]["start"], words[-1]["end"], 0, avg_logprob=-0.3, words=tuple(words))

    monkeypatch.setattr(streaming, "find_speech", find)
    monkeypatch.setattr(streaming, "transcribe_events", hear)
    words = final_words(listen(live, np.zeros(int(4.2 * RATE), np.float32), block))
    assert [word for _, word, _, _ in words] == [word for word, _, _ in NOISY_WORDS]
    assert all(end - start > 0.05 for _, _, start, end in words)


def test_a_word_that_is_still_spoken_is_not_final() -> None:
    """Although two decodings within it agree."""
    samples, spoken = speech([-1.0, *sentences(1, 7, 1.5)])
    live = LiveTranscriber(ToneModel(), live=LiveOptions(interval=0.05))
    words = final_words(listen(live, samples, RATE // 20))
    assert [word for _, word, _, _ in words] == [word for word, _, _ in spoken]
    for (heard, *_), (_, _, true_end) in zip(words, spoken, strict=True):
        assert heard >= true_end + 0.15


def test_the_language_is_told_once() -> None:
    found = listen(LiveTranscriber(ToneModel()), speech(sentences(2, 4, 1.2))[0])
    assert [event.code for _, event in found if isinstance(event, Language)] == ["en"]


def test_wrong_settings_and_sound_are_refused() -> None:
    with pytest.raises(OptionError, match="interval"):
        LiveOptions(interval=0)
    with pytest.raises(OptionError, match="mono"):
        LiveTranscriber(ToneModel()).push(np.zeros((2, 100), np.float32))
    cancel = Cancel()
    cancel.set()
    with pytest.raises(Cancelled):
        listen(LiveTranscriber(ToneModel(), cancel=cancel), speech(sentences(1, 5, 1.0))[0])
