"""Several texts of one prompt: samples that decode together, and beam search.

The prompt is read once; the texts have a session each over shared weights.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from pyapp.engine.tensor import Tensor
from pyapp.events import Cancel, Done, Event, Progress
from pyapp.text.generate import Clock, Writer, check_tokenizer, form_of, new_tokens, prompt_ids
from pyapp.text.options import SamplingOptions
from pyapp.text.sampling import Sampler
from pyapp.text.session import LanguageModel, Session
from pyapp.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pyapp.text.structured import TextForm


class Lanes:
    """Texts of one model that decode together; all begin with the same prompt."""

    def __init__(self, model: LanguageModel, count: int, capacity: int | None = None) -> None:
        self._sessions = [Session(model, capacity) for _ in range(count)]

    @property
    def first(self) -> Session:
        """The session that reads the prompt."""
        return self._sessions[0]

    def branch(self, parents: Sequence[int]) -> None:
        """Text i goes on as text `parents[i]` did. A text that goes on once is not copied."""
        before, free = self._sessions, [i for i in range(len(self._sessions)) if i not in parents]
        taken: set[int] = set()
        after: list[Session] = []
        for parent in parents:
            if parent in taken:
                session = before[free.pop()]
                session.copy_from(before[parent])
                after.append(session)
            else:
                taken.add(parent)
                after.append(before[parent])
        self._sessions = [*after, *(before[i] for i in free)]

    def step(self, lane: int, token: int) -> Tensor:
        """A text reads a token; returns the logits (V,) of its next one, which its next step overwrites."""
        return self._sessions[lane].step(token)


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
    their seeds.
    """
    options = options or SamplingOptions()
    cancel = cancel or Cancel()
    check_tokenizer(tokenizer, model.config.vocab_size)
    ids = prompt_ids(tokenizer, prompt, model.config.max_seq_len)
    most = new_tokens(options, model.config.max_seq_len, ids)
    count = max(options.samples, options.beams)
    lanes = Lanes(model, count, min(len(ids) + most, model.config.max_seq_len))
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
    samplers, writers, forms, seed = [], [], [], options.seed
    for number in range(options.samples):
        form = None if first_form is None else first_form.copy()
        own = options if seed is None else replace(options, seed=(seed + number) % (1 << 64))
        sampler = Sampler(own, session.vocab_size, session.capacity + 1, session.device, form)
        sampler.accept(ids, prompt=True)
        seed = sampler.seed if seed is None else seed
        samplers.append(sampler)
        writers.append(Writer(tokenizer, options, continuing or form is not None, sample=number))
        forms.append(form)
    rows = [logits] * options.samples
    reasons: list[str | None] = [None] * options.samples
    stops = tokenizer.stop_ids.union(options.stop_tokens)
    texts, last = [""] * options.samples, [0] * options.samples
    while not cancel.is_set() and None in reasons:
        for number, sampler in enumerate(samplers):
            if reasons[number] is not None:
                continue
            token = sampler.sample(rows[number])
            clock.token_done()
            if token in stops:
                reasons[number] = "stop"
                continue
            sampler.accept((token,))
            last[number] = token
            writer = writers[number]
            event = writer.write(token) if options.logprobs is None else writer.write_scored(token, rows[number])
            texts[number] += event.text
            yield event
            reasons[number] = writer.ending(forms[number]) or ("context" if writer.count == most else None)
        if not cancel.is_set():
            for number in [number for number, reason in enumerate(reasons) if reason is None]:
                rows[number] = lanes.step(number, last[number])
    for number, writer in enumerate(writers):
        if rest := writer.finish():
            texts[number] += rest.text
            yield rest
    found = [
        {"text": text, "reason": reason or "cancelled", "seed": sampler.seed}
        for text, reason, sampler in zip(texts, reasons, samplers, strict=True)
    ]
    return found, sum(writer.count for writer in writers)


@dataclass
class Beam:
    """A text of the search: its new tokens and their log-probability; `form` is where it is in its form."""

    tokens: list[int]
    score: float
    form: TextForm | None


class BeamSearch:
    """The search of transformers (GenerationMixin with num_beams and without sampling): which texts go on, and the best
    complete ones in `finished`, with their scores.
    """

    def __init__(self, options: SamplingOptions, stops: frozenset[int], most: int, form: TextForm | None) -> None:
        self.beams = [Beam([], 0.0, form)]
        self.finished: list[tuple[float, list[int], str]] = []  # score, tokens, reason
        self._count, self._penalty = options.beams, float(options.length_penalty)
        self._early, self._stops, self._most = options.early_stopping, stops, most
        self._width = max(2, 1 + len(stops)) * self._count

    def advance(self, logits: Sequence[Tensor]) -> list[int]:
        """Chooses how the beams go on after logits (V,) each; returns the parents of the new beams, none at the end."""
        found: list[tuple[float, int, int]] = []  # score, beam, token
        for place, (beam, row) in enumerate(zip(self.beams, logits, strict=True)):
            values = row.detach().log_softmax(-1)  # (V,)
            if beam.form is not None:
                values = beam.form.apply(values)
            top, ids = values.topk(min(self._width, values.shape[0]))
            found += [(beam.score + v, place, t) for v, t in zip(top.tolist(), ids.tolist(), strict=True) if v > -1e9]
        found.sort(key=lambda entry: -entry[0])
        length = len(self.beams[0].tokens) + 1
        parents: list[int] = []
        beams: list[Beam] = []
        for rank, (score, place, token) in enumerate(found[: self._width]):
            beam = self.beams[place]
            reason = "stop" if token in self._stops else None
            form = beam.form
            if reason is None and form is not None:
                form = form.copy()
                form.accept(token)
                reason = "stop" if form.complete else None
            reason = reason or ("length" if length >= self._most else None)
            if reason is None:
                if len(beams) < self._count:
                    beams.append(Beam([*beam.tokens, token], score, form))
                    parents.append(place)
            elif rank < self._count:
                self._finish(score / length**self._penalty, [*beam.tokens, token], reason)
        self.beams = beams
        return parents if beams and self._goes_on(length) else []

    def _full(self) -> bool:
        return len(self.finished) >= self._count

    def _finish(self, score: float, tokens: list[int], reason: str) -> None:
        self.finished.append((score, tokens, reason))
        self.finished.sort(key=lambda entry: -entry[0])
        del self.finished[self._count :]

    def _goes_on(self, length: int) -> bool:
        """Whether a running beam may still become better than the worst complete one."""
        if not self._full():
            return True
        if self._early is True:
            return False
        longest = self._most if self._early == "never" and self._penalty > 0 else length
        return self.beams[0].score / longest**self._penalty > self.finished[-1][0]


def _beams(
    lanes: Lanes, tokenizer: Tokenizer, ids: Sequence[int], logits: Tensor, most: int, options: SamplingOptions,
    cancel: Cancel, clock: Clock, continuing: bool,
) -> Run:  # fmt: skip
    form = form_of(options, tokenizer, lanes.first, most)
    stops = tokenizer.stop_ids.union(options.stop_tokens)
    search = BeamSearch(options, stops, most, form)
    rows = [logits]
    while not cancel.is_set():
        parents = search.advance(rows)
        clock.token_done()
        if not parents:
            break
        done = len(search.beams[0].tokens)
        yield Progress("search", done, most, "tokens")
        lanes.branch(parents)
        rows = [lanes.step(place, beam.tokens[-1]) for place, beam in enumerate(search.beams)]
    left = [(beam.score, beam.tokens, "cancelled") for beam in search.beams] if cancel.is_set() else []
    texts: list[dict[str, Any]] = []
    for number, (score, tokens, reason) in enumerate((search.finished or left)[: options.samples]):
        writer = Writer(tokenizer, options, continuing or form is not None, sample=number)
        text = ""
        for token in tokens:
            if token not in stops:
                event = writer.write(token)
                text += event.text
                yield event
        if rest := writer.finish():
            text += rest.text
            yield rest
        texts.append({"text": text, "reason": reason, "score": score, "tokens": tokens})
    return texts, sum(len(text["tokens"]) for text in texts)
