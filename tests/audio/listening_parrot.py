"""A speech model that reports how long each loud stretch of a recording lasts, and when it was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from pyapp.text.tokenization.whisper_tokenizer import WhisperTokenizer
from tests.audio.sounds import place, syllable

WORDS = ["short", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]  # by seconds
LOUD = 0.4  # of the log-mel spectrogram, which has 1 and more where somebody speaks and -0.5 and less elsewhere
LANGUAGES = 3


@dataclass
class Config:
    n_vocab: int
    n_mels: int = 80
    n_audio_ctx: int = 500  # 10 s
    n_text_ctx: int = 128


class Parrot:
    """Duck-typed as pyapp.models.whisper.Whisper: `windows` counts what was encoded."""

    alignment_heads = [(0, 0)]

    def __init__(self, tokenizer: WhisperTokenizer, language: str = "en") -> None:
        self.config = Config(tokenizer.vocab_size)
        self.tokenizer, self.language = tokenizer, language
        self.windows = 0

    def encode(self, mel: Any) -> Any:
        self.windows += 1
        return mel

    def new_session(self, audio: Any, rows: int = 1) -> ParrotSession:
        return ParrotSession(self, self.script(audio.numpy()[0]), rows)

    def cross_attention(self, tokens: Sequence[int], audio: Any) -> tuple[np.ndarray, np.ndarray]:
        """The attention of each token of a word is at its loud stretch. All probabilities are the same."""
        stretches, _ = self.stretches(audio.numpy()[0])
        first = len(tokens) - 2 - len(stretches)  # the row that predicts the first of them
        weights = np.zeros((1, 1, len(tokens), self.config.n_audio_ctx), np.float32)
        for row, (start, end) in enumerate(stretches, first):
            weights[0, 0, row, start // 2 : end // 2] = 30.0
        weights[0, 0, first + len(stretches) :, stretches[-1][1] // 2 if stretches else 0 :] = 30.0
        logits = np.zeros((len(tokens), self.config.n_vocab), np.float32)
        logits[np.arange(len(tokens) - 1), tokens[1:]] = 30.0
        return logits, weights

    def stretches(self, mel: np.ndarray) -> tuple[list[tuple[int, int]], bool]:
        """(first, one past the last) of the frames of each loud stretch that it speaks of, and whether another one goes
        on after the window."""
        frames = np.concatenate([[False], (mel.max(axis=0) > LOUD) & (mel.min(axis=0) < 1.4), [False]])
        edges = [
            (int(first), int(last)) for first, last in np.flatnonzero(np.diff(frames.astype(np.int8))).reshape(-1, 2)
        ]
        whole = [edge for edge in edges if edge[1] < mel.shape[1] - 20]
        return whole or edges, bool(whole) and len(whole) < len(edges)

    def script(self, mel: np.ndarray) -> list[int]:
        """The tokens for log-mel (n_mels, frames): time, word, time for each loud stretch, nothing for silence."""
        tokenizer = self.tokenizer
        stretches, more = self.stretches(mel)
        said: list[int] = []
        for first, last in stretches:
            start = 0 if not said else round(first / 2)  # as Whisper does
            word = tokenizer.encode(" " + WORDS[min(10, round((last - first) / 100))])
            said += [tokenizer.timestamp_begin + start, *word, tokenizer.timestamp_begin + round(last / 2)]
        if more:
            said.append(said[-1])
        return [*said, tokenizer.eot]


class ParrotSession:
    def __init__(self, parrot: Parrot, script: Sequence[int], rows: int) -> None:
        self._parrot, self._script, self._rows = parrot, script, rows
        self._said = 0

    def _expects(self, token: int) -> np.ndarray:
        logits = np.zeros(self._parrot.config.n_vocab, np.float32)
        logits[token] = 30.0
        return logits

    def feed(self, tokens: list[int], positions: Sequence[int] | None = None) -> np.ndarray:
        tokenizer = self._parrot.tokenizer
        heard = tokenizer.language_token(self._parrot.language)
        silent = self._script == [tokenizer.eot]
        answers = {tokenizer.sot: tokenizer.no_speech if silent and positions is not None else heard}
        places = range(len(tokens)) if positions is None else positions
        last = self._script[0]
        return np.stack(
            [self._expects(last if at == len(tokens) - 1 > 0 else answers.get(tokens[at], last)) for at in places]
        )

    def step(self, tokens: list[int]) -> np.ndarray:
        self._said += 1
        token = self._script[min(self._said, len(self._script) - 1)]
        return np.stack([self._expects(token)] * self._rows)

    def reorder(self, rows: list[int]) -> None:
        assert len(rows) == self._rows

    def close(self) -> None:
        pass


def make_tokenizer(multilingual: bool = True) -> WhisperTokenizer:
    """All bytes, and a few words with a space before them."""
    words = [f" {word}"[:length] for word in WORDS for length in range(2, len(word) + 2)]
    pieces = [bytes([value]) for value in range(256)] + [piece.encode() for piece in dict.fromkeys(words)]
    size = len(pieces) + 8 + 1501 + LANGUAGES
    return WhisperTokenizer.from_pieces(pieces, size, multilingual=multilingual)


def load(name: str = "parrot", language: str = "en") -> Any:
    """What pyapp.models.load_speech_model returns."""
    tokenizer = make_tokenizer()
    return SimpleNamespace(name=name, model=Parrot(tokenizer, language), tokenizer=tokenizer, config={"n_mels": 80})


def counting(*lengths: float, pause: float = 1.0) -> np.ndarray:
    """A recording for the model: after half a second, loud stretches of these durations in seconds, with pauses
    between."""
    starts = 0.5 + np.cumsum([0.0, *(length + pause for length in lengths)])
    parts = [(float(start), steady(length)) for start, length in zip(starts, lengths, strict=False)]
    return place(float(starts[-1]), *parts)


@lru_cache(maxsize=16)
def steady(seconds: float, pitch: float = 120.0) -> np.ndarray:
    """A vowel that is equally loud from its beginning to its end."""
    sound = syllable(seconds + 2.0, pitch)
    return sound[16_000 : 16_000 + round(seconds * 16_000)]
