"""Stand-ins for the speech tests: a voice that needs no program, and tokens that need no library."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pyapp.recipes.speech.grammar.sentences import words
from pyapp.recipes.speech.voices import Voice

RATE = 16_000


def hum(text: str, voice: Voice) -> NDArray[np.float32]:
    """0.2 s for each word, a tone whose height the word decides."""
    parts = []
    for word in words(text) or ["a"]:
        tone = 200 + sum(map(ord, word)) % 50 * 40
        parts.append(np.sin(2 * np.pi * tone * np.arange(RATE // 5) / RATE) * 0.14)
    return np.concatenate(parts).astype(np.float32)


class LetterTokens:
    """One token for each character; numbered as SpeechTokens."""

    def __init__(self, timestamps: int = 750) -> None:
        self.end, self.start, self.previous, self.no_speech, self.no_timestamps = 128, 129, 134, 135, 136
        self.times = 137
        self.size = self.times + timestamps + 1

    def encode(self, text: str) -> list[int]:
        return [ord(letter) for letter in f" {text}"]

    def time(self, seconds: float) -> int:
        return self.times + min(self.size - 1 - self.times, max(0, round(seconds / 0.02)))

    def decode(self, ids: Sequence[int]) -> str:
        return "".join(chr(number) for number in ids if number < self.end).strip()
