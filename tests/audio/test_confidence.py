"""A transcript says when it is a guess."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pyapp.audio.confidence import Confidence, GuessLimits, is_guess
from pyapp.audio.transcript import Transcript
from pyapp.audio.transcript_writers import format_transcript

LIMITS = GuessLimits(0.85, -0.4)


def words(*probabilities: float) -> list[dict[str, Any]]:
    return [{"word": " a", "probability": probability} for probability in probabilities]


@pytest.mark.parametrize(
    ("heard", "logprob", "more", "guess"),
    [
        (words(0.99, 0.9), -0.7, {}, False),  # the words count, if they are known
        (words(0.99, 0.5), -0.2, {}, True),
        ([], -0.39, {}, False),
        ([], -0.41, {}, True),
        (words(0.99), -0.2, {"temperature": 0.4}, False),
        (words(0.99), -0.2, {"temperature": 0.6}, True),
        (words(0.99), -0.2, {"compression_ratio": 2.5}, True),
        (words(0.99), -0.2, {"no_speech_prob": 0.7}, True),
    ],
)
def test_what_is_a_guess(heard: Any, logprob: float, more: dict[str, float], guess: bool) -> None:
    assert is_guess(heard, logprob, LIMITS, **more) == guess


def test_limits_of_a_model() -> None:
    def of(value: Any) -> GuessLimits:
        return GuessLimits.of(SimpleNamespace(guess_limits=value))

    assert of({"word_probability": 0.85, "logprob": -0.4}) == LIMITS
    assert of({"logprob": -1, "word_probability": "high"}) == GuessLimits(logprob=-1.0)
    assert of(None) == of([1]) == GuessLimits.of(SimpleNamespace()) == GuessLimits()


def test_how_much_is_a_guess() -> None:
    heard = Confidence()
    assert heard.doubt() is None
    heard.add("x" * 95, False)
    heard.add("x" * 5, True)
    assert heard.doubt() is None
    heard.add("x" * 20, True)
    doubt = heard.doubt()
    assert doubt is not None and doubt.share == round(25 / 120, 3) and "about 21 %" in doubt.what
    heard.add("x" * 100, True)
    assert "this text may be a guess" in heard.doubt().what  # type: ignore[union-attr]


def test_what_is_saved_says_so() -> None:
    values = {"segments": [{"start": 0, "end": 1, "text": " Hm."}], "guess": 0.9}
    unsure = Transcript.from_dict(values)
    sure = Transcript.from_dict({**values, "guess": None})
    assert '"guess": 0.9' in format_transcript(unsure, "json") and "guess" not in format_transcript(sure, "json")
    assert "NOTE this text may be a guess" in format_transcript(unsure, "vtt")
    assert "NOTE" not in format_transcript(sure, "vtt")
    assert format_transcript(unsure, "srt") == format_transcript(sure, "srt")
