"""Decode one window of sound to tokens: greedy, best of several samples, or beam search, as openai-whisper does.

Source: the behaviour of https://github.com/openai/whisper (MIT); beam search with patience after Kasai et al., A Call
for Clarity in Beam Search (2022), length penalty after Wu et al., Google's Neural Machine Translation System (2016).
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Protocol

from pyapp.audio.options import TranscribeOptions
from pyapp.audio.token_rules import TokenRules, log_sum_exp
from pyapp.dataclass import dataclass
from pyapp.engine import ops
from pyapp.engine.lazy import np
from pyapp.events import Cancel
from pyapp.text.tokenization.whisper_tokenizer import WhisperTokenizer

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pyapp.engine.tensor import Tensor


class Session(Protocol):
    """Caches of the hypotheses of one window. The caller may change returned arrays until the next call."""

    def feed(self, tokens: Sequence[int], wanted: Sequence[int] | None = None) -> NDArray[np.float32]: ...
    def step(self, tokens: Sequence[int]) -> NDArray[np.float32]: ...
    def reorder(self, rows: Sequence[int]) -> None: ...
    def close(self) -> None: ...


class SpeechModel(Protocol):
    """The interface of a model for decoding (models/whisper). The attribute `device` is the device on which it
    computes, by default the CPU.
    """

    config: Any
    alignment_heads: list[tuple[int, int]] | None

    def encode(self, mel: Tensor) -> Tensor: ...
    def new_session(self, audio: Tensor, rows: int = 1) -> Session: ...
    def cross_attention(self, tokens: Sequence[int], audio: Tensor) -> tuple[Any, Any]: ...


@dataclass(frozen=True)
class Decoded:
    """A window's tokens with times, without the end token; and the model's confidence."""

    tokens: list[int]
    avg_logprob: float
    no_speech_prob: float
    temperature: float
    compression_ratio: float


@contextmanager
def open_session(model: SpeechModel, audio: Tensor, rows: int) -> Iterator[Session]:
    session = model.new_session(audio, rows)
    try:
        yield session
    finally:
        session.close()


def detect_language(model: SpeechModel, tokenizer: WhisperTokenizer, audio: Tensor) -> dict[str, float]:
    """The probability of each language of the model for one encoded window (1, n_ctx, state)."""
    with open_session(model, audio, 1) as session:
        logits = session.feed([tokenizer.sot])[-1]
    chosen = logits[list(tokenizer.all_language_tokens)].astype(np.float64)
    weights = np.exp(chosen - chosen.max())
    shares = (weights / weights.sum()).tolist()
    return dict(zip(tokenizer.all_language_codes, shares, strict=True))


@dataclass
class Choices:
    """The hypotheses of a window: the tokens of each after the prompt, and the sums of their log-probabilities."""

    rows: list[list[int]]
    sums: list[float]
    done: bool = False


class Chooser(Protocol):
    """Extends the hypotheses by one token each, from logits (rows, V) after the token rules."""

    def choose(self, choices: Choices, logits: NDArray[np.float32], ranges: list[tuple[int, int]]) -> list[int] | None:
        """Returns the row that each row continues; None if each continues itself."""
        ...

    def finish(self, choices: Choices) -> tuple[list[list[int]], list[float]]:
        """The candidates: tokens without the end token, and the sums of their log-probabilities."""
        ...


class Greedy:
    """The most likely token, or above temperature 0 a sampled one; `draw` gives random numbers in [0, 1)."""

    def __init__(self, temperature: float, eot: int, draw: Callable[[], float]) -> None:
        self._temperature, self._eot, self._draw = temperature, eot, draw

    def choose(self, choices: Choices, logits: NDArray[np.float32], ranges: list[tuple[int, int]]) -> list[int] | None:
        for index, (row, (first, last)) in enumerate(zip(choices.rows, ranges, strict=True)):
            allowed = logits[index, first:last]
            place, total = ops.peak(ops.from_numpy(allowed))
            if self._temperature:
                place = draw_token(allowed, self._temperature, self._draw())
            if row and row[-1] == self._eot:
                row.append(self._eot)
                continue
            row.append(first + place)
            choices.sums[index] += float(allowed[place]) - total
        choices.done = all(row[-1] == self._eot for row in choices.rows)
        return None

    def finish(self, choices: Choices) -> tuple[list[list[int]], list[float]]:
        return [before(row, self._eot) for row in choices.rows], choices.sums


class BeamSearch:
    """The `size` most likely hypotheses of each length, until size x patience of them have ended."""

    def __init__(self, size: int, eot: int, patience: float | None) -> None:
        self._size, self._eot = size, eot
        self._wanted = round(size * (patience or 1.0))
        self._finished: dict[tuple[int, ...], float] = {}

    def choose(self, choices: Choices, logits: NDArray[np.float32], ranges: list[tuple[int, int]]) -> list[int] | None:
        scores: dict[tuple[int, ...], float] = {}
        sources: dict[tuple[int, ...], int] = {}
        for index, (row, (first, last)) in enumerate(zip(choices.rows, ranges, strict=True)):
            allowed = logits[index, first:last]
            places = highest(allowed, self._size + 1)
            total = log_sum_exp(allowed)
            for place in places:
                sequence = (*row, first + place)
                scores[sequence] = choices.sums[index] + float(allowed[place]) - total
                sources[sequence] = index
        kept: list[tuple[int, ...]] = []
        ended: list[tuple[int, ...]] = []
        for sequence in sorted(scores, key=scores.__getitem__, reverse=True):
            if sequence[-1] == self._eot:
                ended.append(sequence)
                continue
            kept.append(sequence)
            if len(kept) == self._size:
                break
        for sequence in ended:
            if len(self._finished) < self._wanted:
                self._finished[sequence] = scores[sequence]
        choices.rows = [list(sequence) for sequence in kept]
        choices.sums = [scores[sequence] for sequence in kept]
        choices.done = len(self._finished) >= self._wanted
        return [sources[sequence] for sequence in kept]

    def finish(self, choices: Choices) -> tuple[list[list[int]], list[float]]:
        """The hypotheses that ended, and if they are fewer than the width of the beam, the most likely others."""
        found = dict(self._finished)
        for index in sorted(range(len(choices.rows)), key=choices.sums.__getitem__, reverse=True):
            if len(found) >= self._size:
                break
            found[(*choices.rows[index], self._eot)] = choices.sums[index]
        return [before(sequence, self._eot) for sequence in found], list(found.values())


class WindowDecoder:
    """Decodes windows of a recording in one language. `draw` gives random numbers in [0, 1) for temperatures
    above 0.
    """

    def __init__(
        self,
        model: SpeechModel,
        tokenizer: WhisperTokenizer,
        options: TranscribeOptions,
        language: str | None,
        draw: Callable[[], float],
    ) -> None:
        self._model, self._tokenizer, self._options, self._draw = model, tokenizer, options, draw
        self._rules = TokenRules(tokenizer, options)
        self._context = model.config.n_text_ctx
        self._sample_len = options.sample_len or self._context // 2
        begin = tokenizer.sot_sequence(language, options.task)
        self._begin = [*begin, tokenizer.no_timestamps] if options.without_timestamps else [*begin]
        if options.prefix:
            prefix = tokenizer.encode(" " + options.prefix.strip())
            self._begin += prefix[-(self._context // 2 - self._sample_len) :]

    def decode(
        self, audio: Tensor, prompt: Sequence[int], temperature: float, cancel: Cancel
    ) -> Generator[list[int], None, Decoded]:
        """Decodes the encoded window (1, n_ctx, state) after `prompt`. With a single hypothesis it yields the tokens so
        far; returns the result. Raises Cancelled once `cancel` is set.
        """
        options, tokenizer = self._options, self._tokenizer
        chooser: Chooser
        if temperature == 0 and options.beam_size is not None:
            rows = options.beam_size
            chooser = BeamSearch(rows, tokenizer.eot, options.patience)
        else:
            rows = (options.best_of or 1) if temperature else 1
            chooser = Greedy(temperature, tokenizer.eot, self._draw)
        before_begin = [tokenizer.sot_prev, *prompt[-(self._context // 2 - 1) :]] if prompt else []
        tokens = [*before_begin, *self._begin]
        choices = Choices([[] for _ in range(rows)], [0.0] * rows)
        with open_session(self._model, audio, rows) as session:
            at_sot, at_end = session.feed(tokens, [len(before_begin), len(tokens) - 1])
            no_speech = float(np.exp(float(at_sot[tokenizer.no_speech]) - log_sum_exp(at_sot)))
            logits = np.repeat(at_end[None], rows, axis=0)
            for count in range(1, self._sample_len + 1):
                cancel.check()
                ranges = [self._rules.apply(logits[index], row) for index, row in enumerate(choices.rows)]
                sources = chooser.choose(choices, logits, ranges)
                if choices.done or count == self._sample_len or len(tokens) + count > self._context:
                    break
                if rows == 1:
                    yield choices.rows[0]
                if sources is not None and sources != list(range(rows)):
                    session.reorder(sources)
                logits = session.step([row[-1] for row in choices.rows])
        return self._result(*chooser.finish(choices), no_speech, temperature)

    def _result(self, found: list[list[int]], sums: list[float], no_speech: float, temperature: float) -> Decoded:
        """The best candidate by log-probability relative to its length."""
        best = int(np.argmax([self._score(total, len(row)) for row, total in zip(found, sums, strict=True)]))
        tokens = found[best]
        text = self._tokenizer.decode_with_controls(tokens).strip()
        return Decoded(tokens, sums[best] / (len(tokens) + 1), no_speech, temperature, compression_ratio(text))

    def _score(self, total: float, length: int) -> float:
        penalty = self._options.length_penalty
        if penalty is None:
            return total / length if length else -np.inf
        return float(total / ((5 + length) / 6) ** penalty)


def before(tokens: Sequence[int], end: int) -> list[int]:
    """The tokens up to the first `end`."""
    return list(tokens[: tokens.index(end)] if end in tokens else tokens)


def draw_token(logits: NDArray[np.float32], temperature: float, number: float) -> int:
    """The index in logits (N,) at which the cumulative softmax at `temperature` exceeds `number` in [0, 1)."""
    scaled = logits.astype(np.float64) / temperature
    sums = np.cumsum(np.exp(scaled - scaled.max()))
    return int(np.searchsorted(sums, number * sums[-1], side="right"))


def highest(values: NDArray[np.float32], count: int) -> list[int]:
    """The indices of the `count` highest values, highest first, the first index for equal values."""
    if count >= len(values):
        return np.argsort(-values, kind="stable").tolist()
    bound = np.partition(values, len(values) - count)[len(values) - count]
    places = np.flatnonzero(values >= bound)
    order: list[int] = places[np.argsort(-values[places], kind="stable")][:count].tolist()
    return order


def draw_of_best(scores: NDArray[np.float32], count: int, temperature: float, number: float) -> int:
    """The index in scores (N,) of one drawn from the best `count`, with `number` in [0, 1); the best one at 0."""
    if temperature == 0:
        return int(scores.argmax())
    best = highest(scores, min(count, len(scores)))
    return best[draw_token(scores[best], temperature, number)]


def compression_ratio(text: str) -> float:
    """The compression ratio of the text with zlib; above 2.4 it is repetitive."""
    data = text.encode("utf-8", "replace")
    return len(data) / len(zlib.compress(data))
