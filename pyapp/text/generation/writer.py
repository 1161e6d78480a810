"""What turns the tokens of a generation into events: its text, its end and its times."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from pyapp.engine.tensor import Tensor
from pyapp.events import Metric, Token
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.sampling import log_probabilities
from pyapp.text.generation.stream import StopMatcher, StreamDecoder
from pyapp.text.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pyapp.text.structured_output.structured import TextForm


class Writer:
    """Turns tokens into Token events and detects the end of the text. `sample` is the number of the text, if there are
    several.
    """

    def __init__(
        self, tokenizer: Tokenizer, options: SamplingOptions, continuing: bool, sample: int | None = None
    ) -> None:
        self._decoder = StreamDecoder(tokenizer, continuing)
        self._matcher = StopMatcher(options.stop)
        self._most = options.max_new_tokens
        self._tokenizer = tokenizer
        self._logprobs = options.logprobs or 0
        self._sample = sample
        self.count = 0

    @property
    def stop_string(self) -> str | None:
        return self._matcher.matched

    def write(self, token: int) -> Token:
        event = Token(self._matcher.push(self._decoder.push(token)), token, self.count, sample=self._sample)
        self.count += 1
        return event

    def write_scored(self, token: int, logits: Tensor) -> Token:
        """As `write`, with the log-probabilities of the logits (V,) from which the token was chosen."""
        logprob, top = log_probabilities(logits, token, self._logprobs)
        named = tuple({"id": id, "text": self._text_of(id), "logprob": value} for id, value in top)
        return replace(self.write(token), logprob=logprob, top_logprobs=named if self._logprobs else None)

    def _text_of(self, token: int) -> str:
        return self._tokenizer.token_bytes(token).decode("utf-8", "replace")

    def ending(self, form: TextForm | None = None) -> str | None:
        """The reason why the text ends after this token, or None. `form` is the form that the text must have."""
        if self.stop_string is not None:
            return "stop_string"
        if form is not None and form.complete:
            return "stop"
        return "length" if self.count == self._most else None

    def finish(self) -> Token | None:
        """The text that was held back and turned out not to be a stop string."""
        rest = self._matcher.push(self._decoder.finish()) + self._matcher.finish()
        return Token(rest, None, self.count, sample=self._sample) if rest else None


class Clock:
    """Times of one generation."""

    def __init__(self) -> None:
        self._start = self._prompt = self._first = self._last = time.perf_counter()
        self._tokens = 0

    def prompt_done(self) -> None:
        self._prompt = time.perf_counter()

    def token_done(self) -> None:
        self._last = time.perf_counter()
        if not self._tokens:
            self._first = self._last
        self._tokens += 1

    def metrics(self, prompt_tokens: int) -> Iterator[Metric]:
        """Time to the first token, and the speeds of prompt and decoding, as far as they are known."""
        if self._tokens:
            yield Metric("time_to_first_token", self._first - self._start, "s")
        if self._prompt > self._start:
            yield Metric("prompt_speed", prompt_tokens / (self._prompt - self._start), "tokens/s")
        if self._last > self._first:
            yield Metric("decode_speed", (self._tokens - 1) / (self._last - self._first), "tokens/s")
