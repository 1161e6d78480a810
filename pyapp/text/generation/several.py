"""Several texts of one prompt: samples that decode together, and beam search.

The prompt is read once; each token is one pass of the model over all texts that go on.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from pyapp.engine import capture, no_grad
from pyapp.engine.buffers import int32_tensor, writer
from pyapp.engine.tensor import Tensor
from pyapp.events import Cancel, Done, Event, Progress
from pyapp.nn.decoders.caches import BatchCache
from pyapp.text.generation.beams import BeamSearch
from pyapp.text.generation.generate import Clock, Writer, check_tokenizer, form_of, new_tokens, prompt_ids
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.penalties import Penalties
from pyapp.text.generation.sampling import Sampler, allowed, nothing_left
from pyapp.text.generation.session import LanguageModel, Session, capacity_of, new_cache
from pyapp.text.generation.stream import StopMatcher, StreamDecoder
from pyapp.text.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pyapp.text.structured_output.structured import TextForm


class Lanes:
    """Texts of one model that decode together, in one pass for each token; all begin with the same prompt.

    The pass reads the first texts only, as many as go on.
    """

    def __init__(self, model: LanguageModel, count: int, capacity: int, cache_type: str = "auto") -> None:
        self._cache: BatchCache = new_cache(model, capacity, cache_type, texts=count)
        self.first = Session(model, capacity, cache_type=cache_type, cache=self._cache.text(0))  # reads the prompt
        self._model, self._count = model, count
        self._position = 0
        self._steps: dict[int, Callable[[Sequence[int], int], Tensor]] = {}  # by the number of texts

    def branch(self, parents: Sequence[int]) -> None:
        """Text i goes on as text `parents[i]` did; so many texts go on. A text that stays is not copied."""
        self._position = max(self._position, self.first.position)
        self._cache.reorder([*parents, *range(len(parents), self._count)], self._position)

    def step(self, tokens: Sequence[int]) -> Tensor:
        """Each of the first texts reads its token; returns the logits (B, V) float32 of their next ones, which the next
        step overwrites.
        """
        run = self._steps.get(len(tokens))
        if run is None:
            run = self._steps[len(tokens)] = self._stepper(len(tokens))
        logits = run(tokens, self._position)
        self._position += 1
        return logits

    def _stepper(self, count: int) -> Callable[[Sequence[int], int], Tensor]:
        """The step of `count` texts; it is captured in a Graph at once."""
        inputs = int32_tensor([0] * (2 * count), self.first.device)
        tokens, places = inputs.narrow(0, 0, count).reshape(count, 1), inputs.narrow(0, count, count)
        write, cache = writer(inputs), self._cache.first(count)
        # Not `self`, which keeps this function: memory in a circle is free only after a garbage collection.
        model, vocab_size = self._model, self.first.vocab_size

        def forward() -> Tensor:
            logits = model.forward_cached(tokens, places, cache, last_only=False)  # (B, 1, V)
            return logits.reshape(count, vocab_size)

        replay: Callable[[], Any] | None = None
        logits: Tensor | None = None

        def run(ids: Sequence[int], position: int) -> Tensor:
            nonlocal replay, logits
            write(*ids, *[position] * count)
            if replay is None:
                with no_grad():
                    graph = capture(forward)
                logits, replay = graph.outputs, graph.replay
            else:
                replay()
            assert logits is not None
            return logits

        return run


def generate_several(
    model: LanguageModel,
    tokenizer: Tokenizer,
    prompt: str = "",
    options: SamplingOptions | None = None,
    cancel: Cancel | None = None,
) -> Iterator[Event]:
    """Continues `prompt` `options.samples` times, or searches with `options.beams`: Progress, a Token each with its
    `sample`, Metrics, and Done.

    Done carries `texts`, a list of mappings with text, reason (as for `generate`) and seed or score. With beams, the
    Tokens come at the end: the whole text of each sample. The texts of samples are those that `generate` gives for
    their seeds, up to logits that are equal in all but their last bits.
    """
    options = options or SamplingOptions()
    cancel = cancel or Cancel()
    check_tokenizer(tokenizer, model.config)
    context = capacity_of(model, options.context)
    ids = prompt_ids(tokenizer, prompt, context)
    most = new_tokens(options, context, ids)
    count = max(options.samples, options.beams)
    lanes = Lanes(model, count, min(len(ids) + most, context), options.cache_type)
    clock = Clock()
    for part in lanes.first.passes(ids):
        if cancel.is_set():
            yield Done("cancelled", {"prompt_tokens": len(ids), "new_tokens": 0, "texts": []})
            return
        logits = lanes.first.feed(part)
        yield Progress("prompt", lanes.first.position, len(ids), "tokens")
    clock.prompt_done()
    lanes.branch([0] * count)
    run = _beams if options.beams > 1 else _samples
    texts, total = yield from run(lanes, tokenizer, ids, logits, most, options, cancel, clock, bool(prompt))
    yield from clock.metrics(len(ids))
    reason = "cancelled" if cancel.is_set() else "complete"
    yield Done(reason, {"prompt_tokens": len(ids), "new_tokens": total, "texts": texts})


Run: TypeAlias = Generator[Event, None, tuple[list[dict[str, Any]], int]]  # the texts, and the number of tokens


def _samples(
    lanes: Lanes, tokenizer: Tokenizer, ids: Sequence[int], logits: Tensor, most: int, options: SamplingOptions,
    cancel: Cancel, clock: Clock, continuing: bool,
) -> Run:  # fmt: skip
    session = lanes.first
    first_form = form_of(options, tokenizer, session, most)
    stops = tokenizer.stop_ids.union(options.stop_tokens)
    samplers, writers, forms, seed = [], [], [], options.seed
    for number in range(options.samples):
        form = None if first_form is None else first_form.copy()
        own = options if seed is None else replace(options, seed=(seed + number) % (1 << 64))
        sampler = Sampler(own, session.vocab_size, session.capacity + 1, session.device, form, stops)
        sampler.accept(ids, prompt=True)
        seed = sampler.seed if seed is None else seed
        samplers.append(sampler)
        writers.append(Writer(tokenizer, options, continuing or form is not None, sample=number))
        forms.append(form)
    rows = [logits] * options.samples
    reasons: list[str | None] = [None if most else "length"] * options.samples
    texts, last = [""] * options.samples, [0] * options.samples
    running = list(range(options.samples if most else 0))  # the texts that go on
    while not cancel.is_set() and running:
        for number, row in zip(running, rows, strict=True):
            sampler, writer = samplers[number], writers[number]
            token = sampler.sample(row)
            clock.token_done()
            if token in stops:
                reasons[number] = "stop"
                continue
            sampler.accept((token,))
            last[number] = token
            event = writer.write(token) if options.logprobs is None else writer.write_scored(token, row)
            texts[number] += event.text
            yield event
            reasons[number] = writer.ending(forms[number]) or ("context" if writer.count == most else None)
        places = [place for place, number in enumerate(running) if reasons[number] is None]
        if len(places) < len(running):
            lanes.branch(places)
        running = [running[place] for place in places]
        if running and not cancel.is_set():
            rows = list(lanes.step([last[number] for number in running]).unbind(0))  # (V,) each
    for number, writer in enumerate(writers):
        if rest := writer.finish():
            texts[number] += rest.text
            yield rest
    found = [
        {"text": text, "reason": reason or "cancelled", "seed": sampler.seed}
        for text, reason, sampler in zip(texts, reasons, samplers, strict=True)
    ]
    return found, sum(writer.count for writer in writers)


class _Rules:
    """beams.Rules of the options: penalties, the form of the text, and its stop strings."""

    def __init__(
        self, penalties: Penalties | None, form: TextForm | None, decoder: StreamDecoder, matcher: StopMatcher | None
    ) -> None:
        self._penalties, self._form, self._decoder, self._matcher = penalties, form, decoder, matcher

    def apply(self, scores: Tensor) -> Tensor:
        return allowed(scores, self._penalties, self._form)

    def accept(self, token: int) -> str | None:
        if self._penalties is not None:
            self._penalties.accept((token,))
        if self._matcher is not None:
            self._matcher.push(self._decoder.push(token))
            if self._matcher.matched is not None:
                return "stop_string"
        if self._form is not None:
            self._form.accept(token)
            return "stop" if self._form.complete else None
        return None

    def copy(self) -> _Rules:
        stopping = self._matcher is not None
        return _Rules(
            None if self._penalties is None else self._penalties.copy(),
            None if self._form is None else self._form.copy(),
            self._decoder.copy() if stopping else self._decoder,
            copy(self._matcher),
        )


def _beams(
    lanes: Lanes, tokenizer: Tokenizer, ids: Sequence[int], logits: Tensor, most: int, options: SamplingOptions,
    cancel: Cancel, clock: Clock, continuing: bool,
) -> Run:  # fmt: skip
    session = lanes.first
    form = form_of(options, tokenizer, session, most)
    continuing = continuing or form is not None
    stops = tokenizer.stop_ids.union(options.stop_tokens)
    penalties = None
    if options.has_penalties or options.repetition_penalty != 1:
        penalties = Penalties.of(options, session.vocab_size, session.device, stops)
        penalties.accept(ids, prompt=True)
    matcher = StopMatcher(options.stop) if options.stop else None
    rules = _Rules(penalties, form, StreamDecoder(tokenizer, continuing), matcher)
    search = BeamSearch([rules], options.beams, most, stops, options.length_penalty, options.early_stopping)
    rows = logits.unsqueeze(0)  # (1, V), then (B, V)
    while not cancel.is_set():
        goes_on = search.advance(rows)
        clock.token_done()
        if not goes_on:
            break
        texts = search.open[0]
        yield Progress("search", len(texts[0].tokens), most, "tokens")
        lanes.branch([text.parent for text in texts])
        rows = lanes.step([text.tokens[-1] for text in texts])
    if not search.finished[0] and not cancel.is_set():
        raise nothing_left(options)
    found: list[dict[str, Any]] = []
    for number, text in enumerate(search.best(0)[: options.samples]):
        writer = Writer(tokenizer, options, continuing, sample=number)
        written = ""
        for token in text.tokens:
            if token not in stops:
                event = writer.write(token)
                written += event.text
                yield event
        if rest := writer.finish():
            written += rest.text
            yield rest
        reason = text.reason or "cancelled"
        found.append({"text": written, "reason": reason, "score": text.score, "tokens": text.tokens})
    return found, sum(len(text["tokens"]) for text in found)
