"""A speech model that recognises tones: each word of its language is a different tone. It shows what the loop around a
model does, with known words at known times.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from pyapp.audio.mel import mel_filters
from pyapp.engine.ops import from_numpy

from .speech_model import Shape

RATE = 16_000
WORDS = ["the", "people", "who", "call", "oil", "down", "first", "water", "day", "find"]
BINS = [12 + 6 * index for index in range(len(WORDS))]  # mel bins of their tones
TONE, GAP = 0.3, 0.1  # seconds of a word, and between two
CLEAR = 9  # positions of 20 ms after which a word is told from another


@lru_cache(maxsize=len(WORDS))
def tone(word: int) -> np.ndarray:
    frequency = mel_filters(80)[BINS[word]].argmax() * 40.0
    time = np.arange(int(TONE * RATE)) / RATE
    return (0.3 * np.sin(2 * np.pi * frequency * time)).astype(np.float32)


def speech(words: Sequence[int | float]) -> tuple[np.ndarray, list[tuple[str, float, float]]]:
    """(samples, [(word, start, end)]): a number below 0 is a pause of so many seconds."""
    parts: list[np.ndarray] = []
    times = []
    position = 0
    for word in words:
        if word < 0:
            parts.append(np.zeros(int(-word * RATE), np.float32))
        else:
            parts.append(np.concatenate([tone(int(word)), np.zeros(int(GAP * RATE), np.float32)]))
            times.append((WORDS[int(word)], position / RATE, position / RATE + TONE))
        position += len(parts[-1])
    return np.concatenate(parts), times


class ToneModel:
    """`flicker`: each encoding of the sound gives other words."""

    alignment_heads = None

    def __init__(self, flicker: bool = False, no_speech: float = -20.0) -> None:
        shape = Shape("tones", multilingual=False)
        self.tokenizer = shape.tokenizer()
        self.model = self
        self.config = SimpleNamespace(**{**shape.config(), "n_text_ctx": 448})
        self.words = [self.tokenizer.encode(" " + word) for word in WORDS]
        self.flicker, self.no_speech = flicker, no_speech
        self.looks = 0
        self.prompts: list[list[int]] = []

    def encode(self, mel: Any) -> Any:
        """(1, n_mels, F) → (1, F / 2, 1): the word that sounds, or -1."""
        self.looks += 1
        frames = mel.numpy()[0, :, ::2]
        heard = frames[BINS].argmax(axis=0) + (3 * self.looks if self.flicker else 0)
        heard = np.where(frames.max(axis=0) > 0.5, heard % len(WORDS), -1)
        return from_numpy(heard.astype(np.float32).reshape(1, -1, 1))

    def heard(self, audio: Any) -> list[tuple[int, int, int]]:
        """(word, first position, one past the last). A word that is cut off is recognised as its neighbour."""
        values = audio.numpy()[0, :, 0].astype(int)
        edges = [0, *np.flatnonzero(np.diff(values)) + 1, len(values)]
        runs = [(values[first], first, last) for first, last in zip(edges, edges[1:], strict=False)]
        runs = [(word, first, last) for word, first, last in runs if word >= 0 and last - first > 2]
        return [(word if last - first > CLEAR else (word + 1) % len(WORDS), first, last) for word, first, last in runs]

    def script(self, audio: Any) -> list[int]:
        """The tokens of a window. A word that the end of the window cuts off belongs to the next window."""
        begin, runs, end = self.tokenizer.timestamp_begin, self.heard(audio), audio.shape[1] - 5
        cut = bool(runs) and runs[-1][2] > end
        runs = runs[:-1] if cut else runs
        if not runs:
            return [begin, begin + 1]
        tokens = [token for word, _, _ in runs for token in self.words[word]]
        close = [begin + runs[-1][2]] * (2 if cut else 1)
        return [begin + min(50, runs[0][1]), *tokens, *close]

    def new_session(self, audio: Any, rows: int = 1) -> Any:
        return ToneSession(self, self.script(audio), rows)

    def cross_attention(self, tokens: Sequence[int], audio: Any) -> tuple[Any, Any]:
        logits = np.zeros((len(tokens), self.config.n_vocab), np.float32)
        logits[np.arange(len(tokens) - 1), tokens[1:]] = 20
        scores = np.zeros((1, 1, len(tokens), audio.shape[1]), np.float32)
        row = len(tokens) - 1 - sum(len(self.words[word]) for word, _, _ in self.heard(audio)) - 1
        for word, first, last in self.heard(audio):
            for _ in self.words[word]:
                if row < len(tokens):
                    scores[0, 0, row, first:last] = 15
                row += 1
        return logits, scores


class ToneSession:
    def __init__(self, model: ToneModel, script: list[int], rows: int) -> None:
        self.model, self.script, self.rows = model, script, rows
        self.count = 0

    def _logits(self, rows: int) -> np.ndarray:
        logits = np.zeros((rows, self.model.config.n_vocab), np.float32)
        eot = self.model.tokenizer.eot
        logits[:, self.script[self.count] if self.count < len(self.script) else eot] = 30
        logits[:, self.model.tokenizer.no_speech] = self.model.no_speech
        self.count += 1
        return logits

    def feed(self, tokens: Sequence[int], wanted: Sequence[int] | None = None) -> np.ndarray:
        self.model.prompts.append(list(tokens))
        return self._logits(len(tokens) if wanted is None else len(wanted))

    def step(self, tokens: Sequence[int]) -> np.ndarray:
        return self._logits(self.rows)

    def reorder(self, rows: Sequence[int]) -> None:
        pass

    def close(self) -> None:
        pass
