"""Continuous batching: the texts of one language model decode together, each at its own position.

New texts join between two steps and finished ones leave at once. A prompt is read in passes of PROMPT_PASS tokens,
one between two steps, so that a long prompt does not stop the others.

The tokens of a text do not depend on its company. A prompt is read alone and always in the same passes. A decode step
computes every row in the same way whatever the number of rows: where the matrix kernels round rows differently for
some numbers of rows, the step runs on a multiple of four rows (`rows_multiple`).
"""

from __future__ import annotations

import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyapp.engine import capture, no_grad
from pyapp.engine.buffers import int32_tensor, writer
from pyapp.engine.device import cpu
from pyapp.engine.tensor import Tensor
from pyapp.errors import OptionError
from pyapp.events import Cancel, Done, Event
from pyapp.tasks import error_event
from pyapp.text.generate import Writer, check_tokenizer, new_tokens
from pyapp.text.options import SamplingOptions
from pyapp.text.sampling import Sampler
from pyapp.text.session import PROMPT_PASS, LanguageModel, capacity_of, new_cache
from pyapp.text.tokenizer import Tokenizer

if TYPE_CHECKING:
    from pyapp.text.structured import TextForm

log = logging.getLogger("pyapp.serve")
BLOCK = 4  # rows that the matrix kernels compute together
SAME_IN_COMPANY = "with more rows, this model's products would round a text otherwise than alone"
PROBED = (1, 2, 3, 5)  # numbers of rows that are compared with 2 * BLOCK rows


@dataclass(eq=False)
class Text:
    """A text to be written: the tokens of its prompt, its settings, and where its events go.

    `emit` gets Tokens and, last, a Done or an Error; the engine's thread calls it. `stops` are the ids that end the
    text. `continuing`: the text follows other text, so that a space at its beginning is kept.
    """

    ids: Sequence[int]
    options: SamplingOptions
    stops: frozenset[int]
    emit: Callable[[Event], None]
    continuing: bool = True
    cancel: Cancel = field(default_factory=Cancel)
    begun: float = field(default_factory=time.perf_counter)


class Row:
    """A place of the cache. `tokens` are in it; the first `read` of them came in whole passes of a prompt."""

    def __init__(self) -> None:
        self.tokens: list[int] = []
        self.read = 0
        self.text: Writing | None = None

    @property
    def decoding(self) -> bool:
        return self.text is not None and self.text.sampled is not None

    def shared(self, ids: Sequence[int]) -> int:
        """How many tokens of a prompt are here, in whole passes. The last token of a prompt must be read anew."""
        most = min(self.read, (len(ids) - 1) // PROMPT_PASS * PROMPT_PASS)
        same = 0
        while same < most and self.tokens[same : same + PROMPT_PASS] == list(ids[same : same + PROMPT_PASS]):
            same += PROMPT_PASS
        return same


class Writing:
    """A text in a row: what chooses its tokens and turns them into events."""

    def __init__(self, text: Text, sampler: Sampler, words: Writer, form: TextForm | None, most: int) -> None:
        self.text, self.sampler, self.words, self.form, self.most = text, sampler, words, form, most
        self.sampled: int | None = None  # the token that the next step reads
        self.reused = 0


@dataclass(frozen=True)
class Load:
    """What a scheduler does at the moment."""

    waiting: int
    running: int
    cached_tokens: int
    cache_tokens: int


class Scheduler:
    """The texts of one model. `rows` texts run at once, each of at most `context` tokens; `cache_bytes` limits the
    memory of their keys and values. All methods but `load` belong to the engine's thread.
    """

    def __init__(
        self, model: LanguageModel, tokenizer: Tokenizer, *, rows: int = 16, context: int | None = None,
        cache_type: str = "f32", cache_bytes: int = 1 << 30,
    ) -> None:  # fmt: skip
        check_tokenizer(tokenizer, model.config.vocab_size)
        self.model, self.tokenizer = model, tokenizer
        self.vocab_size = model.config.vocab_size
        self.device = getattr(model, "device", cpu)
        self._cache_type = cache_type
        row_bytes = new_cache(model, 64, cache_type, texts=1).nbytes // 64
        self.rows_multiple, rows = self._probe(rows)
        known = context or capacity_of(model, None)
        affordable = cache_bytes // row_bytes // self.rows_multiple
        if context is None:
            known = max(min(known, affordable), 1)
        self.capacity = capacity_of(model, known)
        self._row_bytes = row_bytes * self.capacity
        fitting = cache_bytes // self._row_bytes // self.rows_multiple * self.rows_multiple
        if not fitting:
            raise OptionError(
                f"{self.rows_multiple} texts of {self.capacity} tokens need {self.rows_multiple * self._row_bytes:,} "
                f"bytes of cache, more than {cache_bytes:,}",
                where="context", hint="Set a smaller context, a larger --cache-memory, or --cache-type q8_0",
            )  # fmt: skip
        whole = -(-rows // self.rows_multiple) * self.rows_multiple
        self.most_rows = min(rows, fitting)
        self._places = min(whole, fitting)  # with those that only fill a step
        self.waiting: deque[Text] = deque()
        self._rows: list[Row] = []
        self._cache: Any = None
        self._steps: dict[int, Callable[[list[int]], Tensor]] = {}  # by the number of rows
        self.prompt_tokens = self.reused_tokens = self.new_tokens = self.steps = 0

    # -- the texts

    @property
    def load(self) -> Load:
        running = [row for row in self._rows if row.text is not None]
        return Load(
            len(self.waiting), len(running), sum(len(row.tokens) for row in running), self.most_rows * self.capacity
        )

    def check(self, ids: Sequence[int], options: SamplingOptions) -> None:
        """OptionError for a prompt that is too long."""
        if len(ids) > self.capacity:
            raise OptionError(
                f"{len(ids)} tokens are too long: there is room for {self.capacity}", where="prompt",
                hint="Shorten it, or start the server with a larger --context",
            )  # fmt: skip

    def add(self, text: Text) -> None:
        self.waiting.append(text)

    def turn(self) -> bool:
        """One pass of a prompt and one step of the texts that are being written. Whether there is more to do."""
        self._drop_cancelled()
        self._admit()
        self._read_prompt()
        self._decode()
        return bool(self.waiting) or any(row.text is not None for row in self._rows)

    def fail(self, error: Exception) -> None:
        """Ends all texts with an error; forgets the cache, whose content is unknown."""
        event = error_event(error)
        for text in [*self.waiting, *(row.text.text for row in self._rows if row.text is not None)]:
            text.emit(event)
        self.waiting.clear()
        self._rows, self._cache, self._steps = [], None, {}

    def _drop_cancelled(self) -> None:
        if any(text.cancel.is_set() for text in self.waiting):
            for text in [text for text in self.waiting if text.cancel.is_set()]:
                self.waiting.remove(text)
                text.emit(Done("cancelled", {"prompt_tokens": len(text.ids), "new_tokens": 0}))
        for row in self._rows:
            if row.text is not None and row.text.text.cancel.is_set():
                self._finish(row, "cancelled")

    def _admit(self) -> None:
        while self.waiting:
            free = [row for row in self._rows if row.text is None]
            running = len(self._rows) - len(free)
            if running >= self.most_rows:
                return
            if not free:
                self._grow()
                continue
            text = self.waiting.popleft()
            try:
                writing = self._writing(text)
            except Exception as error:  # of this text alone: its form cannot be met …
                text.emit(error_event(error))
                continue
            best = max(self._rows, key=lambda row: row.shared(text.ids))
            shared = best.shared(text.ids)
            # A row that shares nothing takes the text, so that what the others have read stays of use.
            row = best if shared and best.text is None else min(free, key=lambda row: row.read)
            if shared and row is not best:
                self._copy(best, row, shared)
            row.tokens = list(text.ids[:shared])
            row.read, row.text, writing.reused = shared, writing, shared
            self.reused_tokens += shared
            self.prompt_tokens += len(text.ids)

    def _writing(self, text: Text) -> Writing:
        options = text.options
        self.check(text.ids, options)
        most = new_tokens(options, self.capacity, text.ids)
        form = None
        if options.has_form:
            from pyapp.text import structured  # most texts do without

            form = structured.form_of(options, self.tokenizer, self.vocab_size, self.device, most)
        sampler = Sampler(options, self.vocab_size, self.capacity + 1, self.device, form)
        sampler.accept(text.ids, prompt=True)
        return Writing(text, sampler, Writer(self.tokenizer, options, text.continuing or form is not None), form, most)

    def _read_prompt(self) -> None:
        """The next pass of the prompt that came first."""
        reading = [row for row in self._rows if row.text is not None and row.text.sampled is None]
        if not reading:
            return
        row = min(reading, key=lambda row: row.text.text.begun)  # type: ignore[union-attr]
        writing = row.text
        assert writing is not None
        start = len(row.tokens)
        part = list(writing.text.ids[start : start + PROMPT_PASS])
        with no_grad():
            logits = self.model.forward_cached(
                int32_tensor(part, self.device), int32_tensor([start], self.device),
                self._cache.text(self._rows.index(row)), last_only=True,
            )  # fmt: skip
        row.tokens += part
        if len(part) == PROMPT_PASS:
            row.read = len(row.tokens)
        if len(row.tokens) == len(writing.text.ids):
            self._take_token(row, logits.reshape(self.vocab_size))

    def _decode(self) -> None:
        self._gather()
        count = sum(row.decoding for row in self._rows)
        if not count:
            return
        whole = -(-count // self.rows_multiple) * self.rows_multiple
        tokens = [row.text.sampled if row.decoding else 0 for row in self._rows[:whole]]  # type: ignore[union-attr]
        run = self._steps.get(whole)
        if run is None:
            run = self._steps[whole] = self._stepper(whole)
        logits = run([*tokens, *(len(row.tokens) for row in self._rows[:whole])])  # type: ignore[list-item]  # (B, V)
        self.steps += 1
        decoding = list(zip(self._rows[:count], tokens[:count], logits.unbind(0)[:count], strict=True))
        for row, token, scores in decoding:
            row.tokens.append(token)  # type: ignore[arg-type]
            self._take_token(row, scores)

    def _take_token(self, row: Row, logits: Tensor) -> None:
        """Chooses the next token of a row's text for logits (V,)."""
        writing = row.text
        assert writing is not None
        text, words = writing.text, writing.words
        try:
            token = writing.sampler.sample(logits)
            if token in text.stops:
                self._finish(row, "stop")
                return
            writing.sampler.accept((token,))
            event = words.write(token) if text.options.logprobs is None else words.write_scored(token, logits)
        except Exception as error:  # of this text alone: NaN …
            row.text, row.tokens, row.read = None, [], 0
            text.emit(error_event(error))
            return
        self.new_tokens += 1
        writing.sampled = token
        text.emit(event)
        ending = words.ending(writing.form) or ("context" if words.count == writing.most else None)
        if ending:
            self._finish(row, ending)

    def _finish(self, row: Row, reason: str) -> None:
        """The text ends; what its row holds stays of use for prompts that begin alike."""
        writing, row.text = row.text, None
        assert writing is not None
        row.read = min(row.read, (self.capacity - 1) // PROMPT_PASS * PROMPT_PASS)  # steps write behind it
        del row.tokens[row.read :]
        if rest := writing.words.finish():
            writing.text.emit(rest)
        results: dict[str, Any] = {
            "prompt_tokens": len(writing.text.ids), "new_tokens": writing.words.count, "seed": writing.sampler.seed,
            "reused_tokens": writing.reused,
        }  # fmt: skip
        if writing.words.stop_string is not None:
            results["stop_string"] = writing.words.stop_string
        writing.text.emit(Done(reason, results))

    # -- the rows of the cache

    def _gather(self) -> None:
        """Texts that are being written move to the first rows, which the step reads."""
        count = sum(row.decoding for row in self._rows)
        gaps = [place for place in range(count) if not self._rows[place].decoding]
        late = [place for place in range(count, len(self._rows)) if self._rows[place].decoding]
        for target, source in zip(gaps, late, strict=True):
            self._swap(target, source)

    def _swap(self, first: int, second: int) -> None:
        one, other = self._rows[first], self._rows[second]
        self._cache.swap(first, second, (len(one.tokens), len(other.tokens)))
        self._rows[first], self._rows[second] = other, one

    def _copy(self, source: Row, target: Row, length: int) -> None:
        self._cache.copy(self._rows.index(source), self._rows.index(target), length)

    def _grow(self) -> None:
        """Memory for twice as many rows."""
        rows = min(max(2 * len(self._rows), self.rows_multiple), self._places)
        larger = new_cache(self.model, self.capacity, self._cache_type, texts=rows)
        if self._cache is not None:
            larger.take(self._cache)
        self._cache = larger
        self._rows += [Row() for _ in range(rows - len(self._rows))]
        self._steps.clear()

    def _stepper(self, count: int) -> Callable[[list[int]], Tensor]:
        """The step of the first `count` rows: of their tokens and positions it gives the logits (B, V) float32, which
        the next step overwrites. It is captured in a Graph when it first runs.
        """
        inputs = int32_tensor([0] * (2 * count), self.device)
        tokens, places = inputs.narrow(0, 0, count).reshape(count, 1), inputs.narrow(0, count, count)
        write, cache = writer(inputs), self._cache.first(count)
        known: list[Any] = []  # the logits, and the replay
        # Not `self`, which keeps this function: memory in a circle is free only after a garbage collection.
        model, vocab_size = self.model, self.vocab_size

        def forward() -> Tensor:
            return model.forward_cached(tokens, places, cache, last_only=False).reshape(count, vocab_size)

        def run(numbers: list[int]) -> Tensor:
            write(*numbers)
            if known:
                known[1]()
            else:
                with no_grad():
                    graph = capture(forward)
                known.extend((graph.outputs, graph.replay))
            logits: Tensor = known[0]
            return logits

        return run

    def _probe(self, rows: int) -> tuple[int, int]:
        """(of how many rows a step must have a multiple, 1 or BLOCK, and how many it may have, at most `rows`), so that
        no row depends on their number. Products of many rows may sum in another order than those of few.
        """
        few = 2 * BLOCK
        most = max(few, -(-rows // BLOCK) * BLOCK)
        cache = new_cache(self.model, 2, self._cache_type, texts=most)
        ids = [(7919 * row + 13) % self.vocab_size for row in range(most)]

        def logits(count: int) -> bytes:
            """Of the first rows, at most `few`."""
            with no_grad():
                tokens = int32_tensor(ids[:count], self.device).reshape(count, 1)
                places = int32_tensor([0] * count, self.device)
                y = self.model.forward_cached(tokens, places, cache.first(count), last_only=False)
                return bytes(y.narrow(0, 0, min(count, few)).contiguous().data_view())

        known = logits(few)
        multiple = next((BLOCK for count in PROBED if not known.startswith(logits(count))), 1)
        if rows <= few or logits(most) == known:
            return multiple, rows
        good, bad = few, most
        while bad - good > BLOCK:
            middle = (good + bad) // 2 // BLOCK * BLOCK
            good, bad = (middle, bad) if logits(middle) == known else (good, middle)
        log.info("fewer texts together", extra={"fields": {"rows": good, "asked": rows, "why": SAME_IN_COMPANY}})
        return multiple, good
