"""Tell when a transcript may be a guess: the model's own probabilities are low, or its text repeats itself.

The limits were measured with `python -m scripts.speech_confidence`; docs/speech.md has the figures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

from pyapp.dataclass import dataclass
from pyapp.events import Doubt

HOT = 0.5  # a text that was only found by sampling above this temperature
REPETITIVE = 2.4  # compression ratio above which openai-whisper takes a text for a loop
NO_SPEECH = 0.6
LEAST_SHARE = 0.1  # of the text, below which nothing is said
MOST = 0.5  # of the text


@dataclass(frozen=True)
class GuessLimits:
    """The text of a window is a guess below these means: the probability of its words (0 to 1), or if words have no
    times, the log-probability of its tokens. The defaults are for models that were not measured.
    """

    word_probability: float = 0.5
    logprob: float = -0.8

    @classmethod
    def of(cls, model: Any) -> GuessLimits:
        """From `guess_limits` of the model, JSON values by name; the defaults for what it lacks, or is not a number."""
        found = getattr(model, "guess_limits", None)
        values = found if isinstance(found, Mapping) else {}
        known = {
            name: float(values[name])
            for name in ("word_probability", "logprob")
            if isinstance(values.get(name), Real) and not isinstance(values[name], bool)
        }
        return cls(**known)


def is_guess(
    words: Sequence[Mapping[str, Any]],
    avg_logprob: float,
    limits: GuessLimits,
    *,
    temperature: float = 0.0,
    compression_ratio: float = 1.0,
    no_speech_prob: float = 0.0,
) -> bool:
    """Whether the text of a window is a guess. `words` are mappings with `probability`; the other arguments are the
    fields of a Segment.
    """
    if temperature > HOT or compression_ratio > REPETITIVE or no_speech_prob > NO_SPEECH:
        return True
    if words:
        return sum(word["probability"] for word in words) / len(words) < limits.word_probability
    return avg_logprob < limits.logprob


class Confidence:
    """Counts how much of a transcript is a guess."""

    def __init__(self) -> None:
        self._letters = self._guessed = 0

    def add(self, text: str, guess: bool) -> None:
        self._letters += len(text)
        self._guessed += len(text) * guess

    def doubt(self) -> Doubt | None:
        """The warning about the transcript; None if the model was sure enough."""
        share = self._guessed / self._letters if self._letters else 0.0
        if share < LEAST_SHARE:
            return None
        return Doubt(in_words(share), hint="Take a larger model, or check the language", share=round(share, 3))


def in_words(share: float) -> str:
    """What to say if this share of a text may be a guess."""
    if share >= MOST:
        return "this text may be a guess: the model hardly understood the recording"
    return f"about {round(100 * share)} % of this text may be a guess: the model hardly understood the sound there"
