"""Speech activity in sounds with known speech, and windows that contain all of it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyapp.audio import ActivityOptions, Span, cut_windows, find_speech
from pyapp.errors import OptionError
from tests.audio.sounds import RATE, clicks, noise, place, silence, syllable
from tests.audio.test_mel import jfk_samples
from tests.together import examples


def word(seed: int, syllables: int = 3) -> np.ndarray:
    """Syllables of about 0.2 s at a pitch of their own, with pauses of 50 ms."""
    pitch = 90 + 20 * (seed % 7)
    gap = silence(0.05)
    return np.concatenate([np.concatenate([syllable(0.2, pitch + 5 * i), gap]) for i in range(syllables)])


def overlap(spans: list[Span], start: float, end: float) -> float:
    return sum(max(0.0, min(span.end, end) - max(span.start, start)) for span in spans)


STARTS = (1.0, 4.0, 7.5)


@pytest.mark.parametrize("floor", [0.0, 1e-4, 3e-3])
def test_words_are_found_and_pauses_are_not(floor: float) -> None:
    sound = place(10.0, *((start, word(i)) for i, start in enumerate(STARTS))) + noise(10.0, floor)
    spans = find_speech(sound)
    assert len(spans) == 3
    for span, start in zip(spans, STARTS, strict=True):
        assert start - 0.25 <= span.start <= start + 0.03
        assert start + 0.7 <= span.end <= start + 1.0


@pytest.mark.parametrize(
    "sound",
    [
        silence(3.0), noise(5.0, 1e-4), noise(5.0, 0.01), noise(5.0, 0.1), clicks(3.0), silence(0.0), silence(0.001),
        clicks(3.0) + noise(3.0, 1e-4), np.full(3 * RATE, 0.3, np.float32),
    ],
    ids=["silence", "quiet noise", "noise", "loud noise", "clicks", "nothing", "16 samples", "clicks in noise", "DC"],
)  # fmt: skip
def test_no_speech(sound: np.ndarray) -> None:
    assert find_speech(sound) == []
    assert cut_windows(sound) == []


def test_speech_without_a_pause_is_speech() -> None:
    assert overlap(find_speech(syllable(8.0)), 0.3, 7.7) == pytest.approx(7.4)


def test_mains_hum_is_no_speech_and_hides_none() -> None:
    hum = (0.2 * np.sin(2 * np.pi * 50 * np.arange(10 * RATE) / RATE)).astype(np.float32)
    spans = find_speech(place(10.0, (4.0, word(1))) + hum + noise(10.0, 1e-4))
    assert len(spans) == 1 and 3.7 <= spans[0].start <= 4.05 and 4.7 <= spans[0].end <= 5.0


def test_the_noise_floor_follows_the_recording() -> None:
    """A quiet half minute, then a loud fan: words are found in both."""
    sound = np.concatenate([noise(40.0, 2e-4, 1), noise(40.0, 5e-3, 2)])
    sound[10 * RATE : 10 * RATE + 12_000] += word(1) * np.float32(0.1)
    sound[70 * RATE : 70 * RATE + 12_000] += word(2)
    spans = find_speech(sound)
    assert overlap(spans, 10.0, 10.7) > 0.65 and overlap(spans, 70.0, 70.7) > 0.65
    assert overlap(spans, 0.0, 9.0) == 0 and overlap(spans, 73.0, 80.0) == 0


def test_real_speech_has_its_pauses() -> None:
    samples = jfk_samples()
    if samples is None:
        pytest.skip("jfk.wav is not here")
    spans = find_speech(samples)
    for pause in ((2.4, 3.1), (4.6, 5.2)):
        assert overlap(spans, *pause) == 0
    for speech in ((0.4, 2.1), (3.35, 4.3), (5.5, 7.6), (8.3, 10.4)):
        assert overlap(spans, *speech) == pytest.approx(speech[1] - speech[0])


def test_long_speech_is_cut_between_words() -> None:
    starts = [0.85 * i for i in range(80)]  # words of 0.7 s and 0.1 s between them: no pause that ends a stretch
    sound = place(70.0, *((start, word(i)[: round(0.7 * RATE)]) for i, start in enumerate(starts)))
    windows = cut_windows(sound + noise(70.0, 1e-4), 10.0)
    assert 7 <= len(windows) <= 11
    for before, after in zip(windows, windows[1:], strict=False):
        assert before.end <= after.start and after.start - before.end < 1e-6
        phase = before.end % 0.85
        # in the gap after a word, or in one of 50 ms between syllables
        assert any(abs(phase - gap) < 0.06 for gap in (0.225, 0.475, 0.775)), phase


def test_windows_are_filled_and_skip_silence() -> None:
    sound = place(100.0, *((start, word(i)) for i, start in enumerate((1.0, 5.0, 20.0, 60.0, 95.0)))) + noise(
        100.0, 1e-4
    )
    windows = cut_windows(sound)
    assert [(round(w.start), round(w.end)) for w in windows] == [(1, 21), (60, 61), (95, 96)]


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.tuples(st.floats(0.0, 25.0), st.integers(1, 4)), max_size=12), st.floats(1.0, 12.0))
def test_windows_are_in_order_and_short_enough(words: list[tuple[float, int]], longest: float) -> None:
    sound = place(30.0, *((start, word(i, count)) for i, (start, count) in enumerate(words))) + noise(30.0, 1e-4)
    spans, windows = find_speech(sound), cut_windows(sound, longest)
    for found in (spans, windows):
        assert all(0 <= span.start < span.end <= 30.0 for span in found)
        assert all(a.end <= b.start + 1e-9 for a, b in zip(found, found[1:], strict=False))
    assert all(window.duration <= longest + 1e-9 for window in windows)
    for span in spans:
        assert overlap(windows, span.start, span.end) == pytest.approx(span.duration, abs=1e-6)
    for start, count in words:
        assert overlap(spans, start + 0.02, start + 0.25 * count - 0.07) > 0.9 * (0.25 * count - 0.09)


@pytest.mark.parametrize("settings", [{"margin": -1.0}, {"release": 10.0}, {"threshold": float("nan")}])
def test_bad_options(settings: dict[str, float]) -> None:
    with pytest.raises(OptionError):
        ActivityOptions(**settings)


def test_bad_window() -> None:
    with pytest.raises(OptionError, match="too short"):
        cut_windows(silence(1.0), 0.5)
