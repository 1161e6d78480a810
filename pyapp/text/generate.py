"""The generate loop: reads a prompt in passes, then generates one token after another."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol

from pyapp.engine import capture, no_grad
from pyapp.engine.buffers import int32_tensor, writer
from pyapp.engine.device import cpu
from pyapp.engine.tensor import Tensor
from pyapp.errors import ModelError, OptionError
from pyapp.events import Cancel, Done, Event, Metric, Progress, Token
from pyapp.text.options import SamplingOptions
from pyapp.text.sampling import Sampler
from pyapp.text.stream import StopMatcher, StreamDecoder
from pyapp.text.tokenizer import Tokenizer

# Tokens of a prompt per pass: enough for the speed of matrix products, few enough to cancel soon and show progress.
PROMPT_PASS = 128


class LanguageModelConfig(Protocol):
    """The fields of a model's `config` that the loop uses."""

    @property
    def vocab_size(self) -> int: ...
    @property
    def max_seq_len(self) -> int: ...


class LanguageModel(Protocol):
    """A causal language model with a cache of keys and values (docs/architecture.md). The attribute `device` is the
    device on which it computes, by default the CPU.
    """

    @property
    def config(self) -> LanguageModelConfig: ...

    def new_cache(self, capacity: int | None = None) -> Any: ...

    def forward_cached(self, tokens: Tensor, position: Tensor, cache: Any, last_only: bool = True) -> Tensor: ...


class Session:
    """The state of generating one text: the model's cache, and the decode step as a Graph.

    `position` tokens are in the cache, which holds `capacity`. `eager` runs every step op by op instead, for reference.
    The logits that `feed` and `step` return are overwritten by the next call.
    """

    def __init__(self, model: LanguageModel, capacity: int | None = None, eager: bool = False) -> None:
        longest = model.config.max_seq_len
        if capacity is not None and not 1 <= capacity <= longest:
            raise OptionError(f"must be from 1 to {longest}, not {capacity}", where="capacity")
        self.model = model
        self.capacity = capacity or longest
        self.vocab_size = model.config.vocab_size
        self.position = 0
        self.eager = eager
        self.cache = model.new_cache(self.capacity)
        self.device = getattr(model, "device", cpu)
        inputs = int32_tensor([0, 0], self.device)
        self._token, self._place = inputs.narrow(0, 0, 1), inputs.narrow(0, 1, 1)
        self._write = writer(inputs)  # a token and its position
        self._replay: Callable[[], Any] | None = None
        self._logits: Tensor | None = None

    def reset(self) -> None:
        """Forgets the text; the Graph stays."""
        self.position = 0

    def feed(self, ids: Sequence[int]) -> Tensor:
        """Reads tokens in one pass; returns the logits (V,) float32 of the next token."""
        self._check(ids)
        with no_grad():
            self._write(0, self.position)
            logits = self.model.forward_cached(int32_tensor(ids, self.device), self._place, self.cache, last_only=True)
        self.position += len(ids)
        return logits.reshape(self.vocab_size)

    def step(self, token: int) -> Tensor:
        """Reads one token; returns the logits (V,) float32 of the next token."""
        if self.position >= self.capacity or not 0 <= token < self.vocab_size:
            self._check((token,))
        self._write(token, self.position)
        if self._replay is not None:
            self._replay()
        else:
            self._first_step()
        self.position += 1
        assert self._logits is not None
        return self._logits

    def _first_step(self) -> None:
        """Runs the step; unless eager, captures its launch records for the following steps."""
        with no_grad():
            if self.eager:
                self._logits = self._decode()
            else:
                graph = capture(self._decode)
                self._logits = graph.outputs
                self._replay = graph.replay

    def _decode(self) -> Tensor:
        logits = self.model.forward_cached(self._token, self._place, self.cache, last_only=True)
        return logits.reshape(self.vocab_size)

    def _check(self, ids: Sequence[int]) -> None:
        if not ids:
            raise ValueError("feed() needs at least one token")
        if self.position + len(ids) > self.capacity:
            raise ModelError(
                f"{self.position + len(ids)} tokens do not fit the context of {self.capacity}",
                hint="Start a new session, or reset() this one",
            )
        if not 0 <= min(ids) <= max(ids) < self.vocab_size:
            raise ModelError(
                f"token ids from {min(ids)} to {max(ids)} are outside the model's vocabulary of {self.vocab_size}",
                hint="The tokenizer does not belong to this model",
            )


def check_tokenizer(tokenizer: Tokenizer, vocab_size: int) -> None:
    """ModelError if the tokenizer cannot belong to the model: it is larger, or smaller by more than a plausible
    padding.
    """
    known = tokenizer.vocab_size
    if not known <= vocab_size <= known + max(128, known // 8):
        raise ModelError(
            f"the tokenizer has {known} tokens, the model {vocab_size}: they do not belong together",
            where="tokenizer",
            hint="Give the tokenizer that was made for this model",
        )


def prompt_ids(tokenizer: Tokenizer, prompt: str, capacity: int) -> list[int]:
    """The prompt's tokens; for an empty prompt only the beginning-of-text token. OptionError if the prompt
    is too long.
    """
    ids = tokenizer.encode(prompt, eos=False)
    if not ids:
        ids = [tokenizer.bos_id if tokenizer.bos_id is not None else min(tokenizer.eos_ids, default=0)]
    if len(ids) > capacity:
        share = int(len(prompt) * capacity / len(ids))
        raise OptionError(
            f"{len(ids)} tokens are too long: this model reads at most {capacity}",
            where="prompt",
            hint=f"Shorten it from {len(prompt)} to about {share} characters",
        )
    return ids


def generate(
    session: Session,
    tokenizer: Tokenizer,
    prompt: str = "",
    options: SamplingOptions | None = None,
    cancel: Cancel | None = None,
) -> Iterator[Event]:
    """Continues `prompt`: Progress over the prompt, a Token each, Metrics, and Done with the reason.

    Reasons: "stop" (the model ended the text), "length" (max_new_tokens), "context" (the cache is full), "stop_string",
    "cancelled". The session is reset first. Raises OptionError for a prompt that is too long, ModelError for a
    tokenizer of another model and for weights that give NaN.
    """
    options = options or SamplingOptions()
    cancel = cancel or Cancel()
    check_tokenizer(tokenizer, session.vocab_size)
    clock = Clock()
    ids = prompt_ids(tokenizer, prompt, session.capacity)
    session.reset()
    sampler = Sampler(options, session.vocab_size, session.capacity + 1, session.device)
    sampler.accept(ids)
    writer = Writer(tokenizer, options, continuing=bool(prompt))
    reason = "cancelled"
    for start in range(0, len(ids), PROMPT_PASS):
        if cancel.is_set():
            break
        logits = session.feed(ids[start : start + PROMPT_PASS])
        yield Progress("prompt", min(start + PROMPT_PASS, len(ids)), len(ids), "tokens")
    else:
        clock.prompt_done()
        while not cancel.is_set():
            token = sampler.sample(logits)
            clock.token_done()
            if token in tokenizer.stop_ids:
                reason = "stop"
                break
            sampler.accept((token,))
            yield writer.write(token)
            if ending := writer.ending(session):
                reason = ending
                break
            logits = session.step(token)
    if rest := writer.finish():
        yield rest
    yield from clock.metrics(len(ids))
    results = {"prompt_tokens": len(ids), "new_tokens": writer.count, "seed": sampler.seed}
    yield Done(reason, results | ({"stop_string": writer.stop_string} if writer.stop_string else {}))


class Writer:
    """Turns tokens into Token events and detects the end of the text."""

    def __init__(self, tokenizer: Tokenizer, options: SamplingOptions, continuing: bool) -> None:
        self._decoder = StreamDecoder(tokenizer, continuing)
        self._matcher = StopMatcher(options.stop)
        self._most = options.max_new_tokens
        self.count = 0

    @property
    def stop_string(self) -> str | None:
        return self._matcher.matched

    def write(self, token: int) -> Token:
        event = Token(self._matcher.push(self._decoder.push(token)), token, self.count)
        self.count += 1
        return event

    def ending(self, session: Session) -> str | None:
        """The reason why the text ends after this token, or None."""
        if self.stop_string is not None:
            return "stop_string"
        if self.count == self._most:
            return "length"
        return "context" if session.position >= session.capacity else None

    def finish(self) -> Token | None:
        """The text that was held back and turned out not to be a stop string."""
        rest = self._matcher.push(self._decoder.finish()) + self._matcher.finish()
        return Token(rest, None, self.count) if rest else None


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
