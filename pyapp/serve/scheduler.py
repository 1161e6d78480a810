"""Continuous batching: the texts of one language model decode together, each at its own position.

New texts join between two steps and finished ones leave at once. Prompts are read in passes (session.prompt_pass), so
that a long one does not stop the others. Where the products round rows alike for all numbers of rows (`rows_alike`),
pieces of several prompts and the next tokens of the texts that are being written are rows of one pass (nn.PackedCache);
else each pass is of one prompt, between two steps.

Keys and values lie in blocks of a memory of fixed size (nn.PagedCache, serve/blocks.py). A text takes blocks as it
grows. When there are none, the text that matters least gives its own back and is read anew later. Prompts that begin
alike share blocks.

The tokens of a text do not depend on its company. A decode step computes every row in the same way whatever the number
of rows: where the matrix kernels round rows differently for some numbers of rows, the step runs on a multiple of four
rows (`rows_multiple`). With `rows_alike` it does not matter in which passes a prompt was read, so any block can be
shared, those of answers too. Otherwise only whole passes are shared, and a text that is
read anew takes the same passes and steps.

Models with states instead of keys and values, and those whose layers attend to pictures
(nn.vision_language.cross_pictures), have a block for each text, of any length; it is not shared, and nothing is
guessed.

Where the server guesses how texts go on (`lookup`), rows of a step that no text needs read guesses: a row each, of the
same text at its next places. All rows write their keys and values before any attends, so right guesses give a text
several tokens in one step, with the bits that they have without guesses.
"""

from __future__ import annotations

import logging
import math
import time
from bisect import insort
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pyapp.engine import capture, no_grad
from pyapp.engine.buffers import int32_tensor, writer
from pyapp.engine.device import cpu
from pyapp.engine.tensor import Tensor
from pyapp.errors import OptionError
from pyapp.events import Done, Item, Token
from pyapp.nn.vision_language.picture_text import RotaryPosition
from pyapp.tasks import error_event
from pyapp.text.generation.generate import Writer, new_tokens
from pyapp.text.generation.options import SamplingOptions
from pyapp.text.generation.sampling import Sampler, finished, not_a_number
from pyapp.text.generation.session import LanguageModel, capacity_of, new_cache, prompt_pass
from pyapp.text.pictures import (
    Known,
    Picture,
    behind_pictures,
    check_room,
    plain_ids,
    positions_within,
    rotary_positions_of,
    seen_in,
    unseen,
    whole,
)
from pyapp.text.structured_output.structured import CompiledForm, TextForm, compiled_form
from pyapp.text.tokenization.tokenizer import Tokenizer

from .blocks import BlockPool, name_of
from .guessing import Guesses
from .limits import Limits
from .writing import Load, Piece, Text, Writing

log = logging.getLogger("pyapp.serve")
BLOCK = 32  # tokens whose keys and values lie together
TOGETHER = 4  # rows that the matrix kernels compute together
SAME_IN_COMPANY = "with more rows, this model's products would round a text otherwise than alone"
PROBED = (1, 2, 3, 5)  # numbers of rows that are compared with 2 * TOGETHER rows
PASSES = (1, 2, 3, 5, 17, 32, 68)  # numbers of tokens of passes that are compared with one pass of them all
LEAST = 16  # tokens of a piece of a prompt that is not its end: each costs records of its own
KEPT = 2  # times the memory of texts of full length that run at once: what is kept for later prompts is in it


def _pictures(
    ids: Sequence[int], known: Known, first: int, rotary_positions: Sequence[RotaryPosition] = (), prompt: int = 0
) -> dict[str, Any]:
    """What a pass over tokens from position `first` on gets of pictures, beside the tokens."""
    seen = seen_in(ids, known, first, rotary_positions, prompt) if known else None
    return {} if seen is None else {"seen": seen, "first": first}


class Scheduler(Limits):
    """The texts of one model. `rows` texts run at once, each of at most `context` tokens; `cache_bytes` limits the
    memory of their keys and values. Up to `lookup` tokens of a text are guessed in a step. All methods but `load`,
    `form_of` and `check_text` belong to the engine's thread.
    """

    def __init__(
        self, model: LanguageModel, tokenizer: Tokenizer, *, rows: int = 16, context: int | None = None,
        cache_type: str = "auto", cache_bytes: int = 1 << 30, lookup: int = 0,
    ) -> None:  # fmt: skip
        super().__init__(model, tokenizer)
        self.device = getattr(model, "device", cpu)
        self._cache_type, self._lookup, self._pass = cache_type, lookup, prompt_pass(self.device)
        like, wanted = new_cache(model, BLOCK, cache_type, texts=1), capacity_of(model, context)
        self._block = BLOCK
        self._by_token: bool = getattr(like, "by_token", True)
        if not self._by_token:  # a block is the state of a text, of any length
            self._block, self._lookup = wanted, 0
            like = new_cache(model, wanted, cache_type, texts=1)
        block_bytes = like.nbytes
        affordable = cache_bytes // block_bytes - 1  # one is for rows that only fill a step
        self.capacity = wanted if context is not None else max(min(wanted, affordable * self._block), 1)
        self._parts = -(-self.capacity // self._block)
        if affordable < self._parts:
            raise OptionError(
                f"a text of {self.capacity} tokens needs {(self._parts + 1) * block_bytes:,} bytes of cache, more than "
                f"{cache_bytes:,}",
                where="context", hint="Set a smaller context, a larger --cache-memory, or --cache-type q8_0",
            )  # fmt: skip
        self.rows_multiple, self.most_rows = self._probe(max(rows, self._lookup + 1))
        self.most_texts = min(rows, self.most_rows)  # the other rows of a step are for guesses
        self._places = -(-self.most_rows // self.rows_multiple) * self.rows_multiple
        self.rows_alike = self.rows_multiple == 1 and self._passes_alike()
        self._blocks = min(affordable, KEPT * self.most_texts * self._parts)
        self.cache_nbytes = (self._blocks + 1) * block_bytes  # what the keys and values take once a text came
        self.waiting: list[Writing] = []  # in order
        self.prompt_tokens = self.reused_tokens = self.new_tokens = self.steps = self.preempted = 0
        self.guessed_tokens = self.accepted_tokens = 0
        self._forget()

    def _forget(self) -> None:
        """Begins with an empty cache."""
        self._running: list[Writing] = []
        self._decoding: list[Writing] = []  # each at its `place`
        self._pool = BlockPool(self._blocks, first=1)
        self._cache: Any = None
        self._steps: dict[int, Callable[[list[int]], Tensor]] = {}  # by the number of rows

    # -- the texts

    @property
    def load(self) -> Load:
        pool = self._pool
        return Load(len(self.waiting), len(self._running), pool.used, pool.kept, pool.count)

    def form_of(self, options: SamplingOptions) -> CompiledForm | None:
        """The form that the options ask for. It may take seconds, and any thread may call it. OptionError for one that
        is not supported.
        """
        if not options.has_form:
            return None
        return compiled_form(options, self.tokenizer, self.vocab_size, self.device)

    def add(self, text: Text) -> None:
        writing = Writing(text)
        if text.known and self.model.sections:  # type: ignore[attr-defined]
            writing.rotary_positions = rotary_positions_of(text.ids, text.known)
        writing.whole_prompt = bool(text.known) and self.model.whole_prompt  # type: ignore[attr-defined]
        self._wait(writing)

    def turn(self) -> bool:
        """One pass of prompts and one step of the texts that are being written. Whether there is more to do. At the
        level DEBUG the log says how long it took.
        """
        logged = log.isEnabledFor(logging.DEBUG)
        began, worked = (time.perf_counter(), time.thread_time()) if logged else (0.0, 0.0)
        self._drop_cancelled()
        self._admit()
        pieces = self._pieces()
        read = sum(count for _, count in pieces)
        if pieces and (not self.rows_alike or pieces[0][0].scoring or self._reads_whole(pieces[0][0])):
            self._read_alone(*pieces[0])
            pieces = []
        texts = len(self._decoding)
        self._step(pieces)
        if logged:
            seconds, on_processor = time.perf_counter() - began, time.thread_time() - worked
            log.debug("turn", extra={"fields": {
                "prompt_tokens": read, "texts": texts, "seconds": seconds, "processor_seconds": on_processor,
            }})  # fmt: skip
        return bool(self.waiting or self._running)

    def fail(self, error: Exception) -> None:
        """Ends all texts with an error; forgets the cache, whose content is unknown."""
        event = error_event(error)
        for writing in [*self.waiting, *self._running]:
            writing.text.emit(event)
        self.waiting.clear()
        self._forget()

    def _wait(self, writing: Writing) -> None:
        insort(self.waiting, writing, key=lambda writing: writing.order)

    def _drop_cancelled(self) -> None:
        for writing in [writing for writing in self.waiting if writing.text.cancel.is_set()]:
            self.waiting.remove(writing)
            self._end(writing, "cancelled")
        for writing in [writing for writing in self._running if writing.text.cancel.is_set()]:
            self._leave(writing)
            self._end(writing, "cancelled")

    def _admit(self) -> None:
        """Lets texts run that wait, while there are rows and memory; those that matter less make place for them."""
        while self.waiting:
            first = self.waiting[0]
            if not (len(self._running) < self.most_texts and self._fits(first)):
                last = max(self._running, key=lambda writing: writing.order, default=None)
                if last is None or last.text.priority <= first.text.priority:
                    return
                self._preempt(last)
                continue
            self.waiting.pop(0)
            try:
                if first.sampler is None:
                    self._prepare(first)
            except Exception as error:  # of this text alone: its form cannot be met …
                first.text.emit(error_event(error))
                continue
            self._running.append(first)

    def _fits(self, writing: Writing) -> bool:
        """Whether there is memory for what a text has to read, and for the next block of each text."""
        if not self._running:
            return True
        left = 0
        for other in self._running:
            left += max(-(-other.prompt_end // self._block) - len(other.blocks), 0) + 1
        needed, before = -(-(len(writing.known) + 1) // self._block), writing.root
        for part in range(self._shareable(writing) // self._block):
            before = name_of(before, writing.known[part * self._block : (part + 1) * self._block])
            block = self._pool.known(before)
            if block is None:
                break
            needed -= not self._pool.is_kept(block)
        return needed + left <= self._pool.available

    def _prepare(self, writing: Writing) -> None:
        """Makes what chooses the tokens of a text and turns them into events."""
        text = writing.text
        options = text.options
        self.check(text.ids, options)
        if text.known and self.model.pictures_ahead:  # type: ignore[attr-defined]
            check_room(text.ids, text.known, self.capacity)
        writing.most = most = new_tokens(options, self.capacity, text.ids)
        form = text.form or self.form_of(options)
        if form is not None:
            writing.form = TextForm(form, most)
        sampler = Sampler(options, self.vocab_size, self.capacity + 1, self.device, writing.form, text.stops)
        sampler.accept(self._plain(text.ids, text.known), prompt=True)
        writing.sampler = sampler
        writing.guesses = Guesses(self._lookup) if self._lookup else None
        writing.words = Writer(self.tokenizer, options, text.continuing or writing.form is not None)
        self.prompt_tokens += len(text.ids)

    def _pieces(self) -> list[Piece]:
        """What is read of prompts in this turn, at most `_pass` tokens, of those first that go first. A text whose
        logits are wanted, or whose passes must be its own, is the only one.
        """
        found: list[Piece] = []
        left, looked = self._pass, False
        for writing in sorted((writing for writing in self._running if writing.reading), key=lambda one: one.order):
            self._share(writing)
            if not writing.reading:  # a text that is read anew, and found all of it
                self._join(writing)
                continue
            if any(self._is_read_by(writing, *piece) for piece in found):
                continue
            if writing.text.known:
                picture = unseen(writing.known[writing.length : writing.prompt_end], writing.text.known)
                if picture is not None:
                    looked = looked or self._look(writing, picture)
                    continue
            if not self.rows_alike:  # passes end where others do
                count = min(self._pass - writing.length % self._pass, writing.prompt_left)
                return [(writing, self._not_within(writing, count))]
            if self._reads_whole(writing):
                if found:
                    continue
                return [(writing, self._not_within(writing, min(left, writing.prompt_left)))]
            if writing.scoring:
                if found:
                    continue
                return [(writing, min(left, writing.prompt_left))]
            count = min(left, writing.prompt_left)
            if count < min(LEAST, writing.prompt_left) or len(found) == self._places:
                break
            found.append((writing, count))
            left -= count
        return found

    def _look(self, writing: Writing, picture: Picture) -> bool:
        """Has the model see a part of a text's picture, in a turn of its own: others go on between the parts."""
        try:
            picture.look()
        except Exception as error:  # of this text alone: a picture that the tower does not take …
            self._leave(writing)
            writing.text.emit(error_event(error))
        return True

    def _reads_whole(self, writing: Writing) -> bool:
        """Whether a text's prompt has pictures that must be read in one pass each."""
        return bool(writing.text.known) and bool(getattr(self.model, "whole_pictures", False))

    def _not_within(self, writing: Writing, count: int) -> int:
        """So many tokens of a prompt, or more, so that a pass does not end within such a picture."""
        if not self._reads_whole(writing):
            return count
        if writing.whole_prompt:
            return writing.prompt_left
        if self.model.pictures_ahead:  # type: ignore[attr-defined]
            count = max(count, behind_pictures(writing.known) - writing.length)
        end = whole(writing.known, writing.length + count, writing.text.known)
        return min(end, writing.prompt_end) - writing.length

    def _plain(self, ids: Sequence[int], known: Known) -> Sequence[int]:
        """The ids of the vocabulary that stand for a text's tokens."""
        if not known:
            return ids
        token: int = self.model.config.image_token_id  # type: ignore[attr-defined]
        return plain_ids(ids, min(token, self.vocab_size - 1))

    def _is_read_by(self, writing: Writing, other: Writing, count: int) -> bool:
        """Whether another text's piece is the next block of this one, which can share it in the next turn."""
        start, end = writing.length, writing.length + self._block
        return (
            end <= self._shareable(writing)
            and start % self._block == 0
            and other.length <= start
            and end <= other.length + count
            and writing.known[:end] == other.known[:end]
            and writing.root == other.root
        )

    def _read_alone(self, writing: Writing, count: int) -> None:
        """A pass of one prompt."""
        start = writing.length
        if not self._reserve(writing, start + count):
            return
        self._prompt.place(0, 0, writing.blocks)
        ids, known = writing.known[start : start + count], writing.text.known
        with no_grad():
            logits = self.model.forward_cached(
                int32_tensor(self._plain(ids, known), self.device), int32_tensor([start], self.device),
                self._prompt, last_only=not writing.scoring,
                **_pictures(
                    ids, known, start, positions_within(writing.rotary_positions, start, count),
                    len(writing.text.ids) if writing.whole_prompt else 0,
                ),
            )  # fmt: skip
            if writing.scoring:
                logits = self._score(writing, logits.reshape(count, self.vocab_size))
        self._read(writing, count, logits.reshape(self.vocab_size))

    def _read(self, writing: Writing, count: int, logits: Tensor | None) -> None:
        """So many tokens of a prompt were read; `logits` (V,) are the last one's, if they are wanted."""
        writing.length += count
        if self.rows_alike or writing.length % self._pass == 0:
            self._name_blocks(writing)
        if writing.reading:
            return
        if writing.length == len(writing.known):
            if not self._tell_scores(writing):
                return
            if writing.most == 0:
                self._leave(writing)
                self._end(writing, "length")
            else:
                assert logits is not None
                self._take_token(writing, logits)
        if writing in self._running:
            self._join(writing)

    def _score(self, writing: Writing, logits: Tensor) -> Tensor:
        """Keeps the log-probabilities of the prompt's tokens that follow those just read, of their logits (T, V);
        returns the last row.
        """
        ids, start = writing.text.ids, writing.length
        count = min(logits.shape[0], len(ids) - 1 - start)
        again = len(writing.scores) - 1 - start  # rows that are known from before the text gave its memory back
        if count > max(again, 0):
            values = logits.narrow(0, 0, count).log_softmax(-1)  # (T, V)
            following = int32_tensor(ids[start + 1 : start + 1 + count], self.device).reshape(count, 1)
            chosen = values.gather(1, following.to("int64")).reshape(count).tolist()
            tops: list[list[tuple[int, float]]] = [[] for _ in range(count)]
            if most := min(writing.text.scored or 0, self.vocab_size):
                best, which = (found.tolist() for found in values.topk(most, -1))  # (T, most)
                tops = [list(zip(*row, strict=True)) for row in zip(which, best, strict=True)]
            writing.scores += list(zip(chosen, tops, strict=True))[max(again, 0) :]
        return logits.narrow(0, logits.shape[0] - 1, 1)

    def _tell_scores(self, writing: Writing) -> bool:
        """Emits the log-probabilities of the prompt's tokens, if asked for. False for NaN, which ends the text."""
        text = writing.text
        if text.scored is None:
            return True
        if any(logprob is not None and math.isnan(logprob) for logprob, _ in writing.scores):
            self._leave(writing)
            text.emit(error_event(not_a_number()))
            return False
        tokens = []
        for place, (token, (logprob, top)) in enumerate(zip(text.ids, writing.scores, strict=True)):
            named = tuple(
                {"id": id, "text": self.tokenizer.token_bytes(id).decode("utf-8", "replace"), "logprob": value}
                for id, value in top
            )
            tokens.append(Token("", token, place, logprob, named))
        text.emit(Item(0, {"tokens": tokens}))
        return True

    def _shareable(self, writing: Writing) -> int:
        """How many tokens of a text need not be read if blocks hold them; the last one's logits are needed."""
        if writing.scoring or not self._by_token:
            return 0
        most = min(writing.prompt_end, len(writing.known) - 1)
        return most // self._block * self._block if self.rows_alike else most // self._pass * self._pass

    def _share(self, writing: Writing) -> None:
        """Takes blocks that hold what the text reads next, instead of reading it."""
        step, most = (self._block if self.rows_alike else self._pass), self._shareable(writing)
        size = self._block
        while writing.length % step == 0 and writing.length < most and len(writing.blocks) * size == writing.length:
            names, before = [], writing.names[-1] if writing.names else writing.root
            for start in range(writing.length, writing.length + step, self._block):
                before = name_of(before, writing.known[start : start + self._block])
                names.append(before)
            if any(self._pool.known(name) is None for name in names):
                return
            writing.blocks += [block for name in names if (block := self._pool.share(name)) is not None]
            writing.names += names
            writing.length += step
            if writing.first:
                writing.reused += step
                self.reused_tokens += step

    def _name_blocks(self, writing: Writing) -> None:
        """Lets other texts find the blocks that are full."""
        for part in range(len(writing.names), writing.length // self._block):
            before = writing.names[-1] if writing.names else writing.root
            writing.names.append(name_of(before, writing.known[part * self._block : (part + 1) * self._block]))
            self._pool.name(writing.blocks[part], writing.names[-1])

    def _step(self, pieces: list[Piece]) -> None:
        """One step of the texts whose prompts were read, and pieces of prompts in the same pass."""
        for writing in sorted(self._decoding, key=lambda writing: writing.order):
            if writing.place is not None:
                self._reserve(writing, writing.length + 1)
        for writing, count in pieces:
            if writing in self._running:  # and has not given its memory back
                self._reserve(writing, writing.length + count)
        pieces = [piece for piece in pieces if piece[0] in self._running]
        decoding = list(self._decoding)
        count = len(decoding)
        if not count and not pieces:
            return
        guesses = self._guesses(decoding) if self._lookup else {}
        tokens = [writing.known[writing.length] for writing in decoding]
        places = [writing.length for writing in decoding]
        for which, found in guesses.items():
            for further, token in enumerate(found, 1):
                self._cache.place(len(tokens), 0, decoding[which].blocks)
                tokens.append(token)
                places.append(decoding[which].length + further)
        used = len(tokens)
        run = self._read_together(pieces) if pieces else self._step_of(used)
        logits = run(tokens, places)  # (B, V), then one of each piece
        for row in range(count, used):
            self._cache.place(row, 0, [0])
        self.steps += bool(count)
        scores, first = logits.unbind(0), count
        drawn = self._draw(decoding, scores)
        for which, writing in enumerate(decoding):
            self._take_row(writing, scores[which], drawn.get(which))
            if guessed := guesses.get(which):
                self._take_guesses(writing, guessed, scores[first : first + len(guessed)])
                first += len(guessed)
        ends = iter(scores[used:])
        for writing, tokens_read in pieces:
            wanted = writing.length + tokens_read == len(writing.known)
            self._read(writing, tokens_read, next(ends) if wanted else None)

    def _step_of(self, used: int) -> Callable[[list[int], list[int]], Tensor]:
        """Runs the step for tokens and positions of `used` rows → logits (B, V)."""
        whole = -(-used // self.rows_multiple) * self.rows_multiple
        run = self._steps.get(whole)
        if run is None:
            run = self._steps[whole] = self._stepper(whole)
        rest = [0] * (whole - used)  # rows for nobody: their table says block 0
        return lambda tokens, places: run([*tokens, *rest, *places, *rest])

    def _read_together(self, pieces: Sequence[Piece]) -> Callable[[list[int], list[int]], Tensor]:
        """Runs a pass of rows as in a step, and of pieces of prompts → logits of the rows, then of the last token of
        each piece that ends its text so far.
        """

        def run(tokens: list[int], places: list[int]) -> Tensor:
            tokens, places, used = list(tokens), list(places), len(tokens)
            known: dict[int, Any] = {}
            rotary_positions: list[RotaryPosition] = [(place,) * 3 for place in places]
            parts, wanted = [(row, 1) for row in range(used)], list(range(used))
            for which, (writing, count) in enumerate(pieces):
                self._cache.place(self._places + which, 0, writing.blocks)
                parts.append((self._places + which, count))
                tokens += writing.known[writing.length : writing.length + count]
                known |= writing.text.known
                rotary_positions += positions_within(writing.rotary_positions, writing.length, count)
                places += range(writing.length, writing.length + count)
                rotary_positions += [(place,) * 3 for place in places[len(rotary_positions) :]]
                if writing.length + count == len(writing.known):
                    wanted.append(len(tokens) - 1)
            cache = self._cache.packed(parts, wanted or [0])
            grids = any(writing.rotary_positions for writing, _ in pieces)
            with no_grad():
                rows = int32_tensor(self._plain(tokens, known), self.device).reshape(len(tokens), 1)
                logits = self.model.forward_cached(
                    rows,
                    int32_tensor(places, self.device),
                    cache,
                    last_only=True,
                    **_pictures(tokens, known, 0, rotary_positions if grids else ()),
                )
            return logits.reshape(-1, self.vocab_size)

        return run

    def _guesses(self, decoding: Sequence[Writing]) -> dict[int, list[int]]:
        """How texts, by their place, may go on after the token that they read next: for rows that are left."""
        left, found = self.most_rows - len(decoding), {}
        for which, writing in enumerate(decoding):
            again = writing.length + 1 < len(writing.known)  # it is read anew and knows its tokens
            if writing.guesses is None or again:
                continue
            share = -(-left // (len(decoding) - which))
            room = min(len(writing.blocks) * self._block, self.capacity) - writing.length - 1
            tokens = writing.guesses.guess(self._plain(writing.known, writing.text.known), min(share, room))
            if tokens:
                found[which] = tokens
                left -= len(tokens)
        return found

    def _draw(self, decoding: Sequence[Writing], scores: Sequence[Tensor]) -> dict[int, Callable[[], int]]:
        """What gives the next tokens of texts, by their place: on a device that works beside the host all draws begin
        before the first is waited for."""
        if self.device.backend.host_visible:
            return {}
        rows, samplers = {}, {}
        for which, writing in enumerate(decoding):
            if writing.sampler is not None and writing.sampler.plain and writing.length + 1 == len(writing.known):
                rows[which], samplers[which] = scores[which], writing.sampler
                writing.sampler.start(scores[which])
        tokens = finished(list(samplers.values()), list(rows.values()))
        if tokens is None:
            return {which: partial(samplers[which].finish, rows[which], again=True) for which in rows}
        return {which: partial(int, token) for which, token in zip(rows, tokens, strict=True)}

    def _take_guesses(self, writing: Writing, tokens: Sequence[int], scores: Sequence[Tensor]) -> None:
        """A text has read guessed tokens, too: those that are its own stay. `scores` has the logits (V,) after each."""
        right = 0
        while right < len(tokens) and writing.place is not None and writing.known[writing.length] == tokens[right]:
            self._take_row(writing, scores[right])
            right += 1
        self.guessed_tokens += len(tokens)
        self.accepted_tokens += right
        assert writing.guesses is not None
        writing.guesses.learn(len(writing.known), len(tokens), right)

    def _take_row(self, writing: Writing, scores: Tensor, drawn: Callable[[], int] | None = None) -> None:
        """A text has read a token, and `scores` (V,) are its logits; `drawn` gives its next token, if it was drawn."""
        writing.length += 1
        if self.rows_alike and writing.length % self._block == 0:
            self._name_blocks(writing)
        if writing.length == len(writing.known):  # else it is read anew, and its next token is known
            self._take_token(writing, scores, drawn)

    def _take_token(self, writing: Writing, logits: Tensor, drawn: Callable[[], int] | None = None) -> None:
        """Chooses the next token of a text for logits (V,), where it was not drawn."""
        text, words, sampler = writing.text, writing.words, writing.sampler
        assert sampler is not None
        try:
            token = sampler.sample(logits) if drawn is None else drawn()
            if token in text.stops:
                self._leave(writing)
                self._end(writing, "stop")
                return
            sampler.accept((token,))
            event = words.write(token) if text.options.logprobs is None else words.write_scored(token, logits)
        except Exception as error:  # of this text alone: NaN …
            self._leave(writing)
            text.emit(error_event(error))
            return
        self.new_tokens += 1
        writing.known.append(token)
        text.emit(event)
        ending = words.ending(writing.form) or ("context" if words.count == writing.most else None)
        if ending:
            self._leave(writing)
            self._end(writing, ending)

    def _end(self, writing: Writing, reason: str) -> None:
        """Tells the end of a text."""
        results: dict[str, Any] = {"prompt_tokens": len(writing.text.ids), "new_tokens": 0}
        if writing.sampler is not None:
            words = writing.words
            if rest := words.finish():
                writing.text.emit(rest)
            results |= {"new_tokens": words.count, "seed": writing.sampler.seed, "reused_tokens": writing.reused}
            if words.stop_string is not None:
                results["stop_string"] = words.stop_string
        writing.text.emit(Done(reason, results))

    # -- rows and memory

    def _reserve(self, writing: Writing, length: int) -> bool:
        """Blocks for the first `length` tokens of a text. False if it had to give back its own instead."""
        taken = len(writing.blocks)
        while len(writing.blocks) * self._block < length:
            block = self._pool.take()
            if block is not None:
                writing.blocks.append(block)
                continue
            last = max(self._running, key=lambda writing: writing.order)
            self._preempt(last)
            if last is writing:
                return False
        self._allocate()
        if writing.place is not None:
            self._cache.place(writing.place, taken, writing.blocks[taken:])
        return True

    def _preempt(self, writing: Writing) -> None:
        """A text gives its memory back and waits. What it has read is read anew, unless blocks still hold it."""
        self._leave(writing)
        self.preempted += 1
        writing.length, writing.blocks, writing.names, writing.first = 0, [], [], False
        written = len(writing.known) > len(writing.text.ids)
        # The last token is read in a step: its logits choose the next one.
        writing.prompt_end = len(writing.known) - 1 if written and self.rows_alike else len(writing.text.ids)
        self._wait(writing)

    def _leave(self, writing: Writing) -> None:
        """A text runs no longer; what its blocks hold stays of use for prompts that begin alike."""
        self._running.remove(writing)
        if writing.place is not None:
            last = self._decoding.pop()
            if last is not writing:
                self._decoding[writing.place] = last
                last.place = writing.place
                self._cache.place(last.place, 0, last.blocks)
            self._cache.place(len(self._decoding), 0, [0])
            writing.place = None
        self._pool.release(writing.blocks)

    def _join(self, writing: Writing) -> None:
        """A text whose prompt was read takes part in the next steps."""
        writing.place = len(self._decoding)
        self._decoding.append(writing)
        self._cache.place(writing.place, 0, writing.blocks)

    def _allocate(self) -> None:
        """The memory of all texts, when the first one comes."""
        if self._cache is None:
            like = new_cache(self.model, 1, self._cache_type, texts=1)
            # The rows of a step; then pieces of prompts.
            self._cache = like.paged(2 * self._places, self._blocks + 1, self._block, self.capacity)
            self._prompt = self._cache.beside(1)

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
        """(of how many rows a step must have a multiple, 1, TOGETHER or, with tensor cores, 4 * TOGETHER, and how many
        it may have, at most `rows`), so that no row depends on their number. Products of many rows may sum in another
        order than those of few.
        """
        few, wide = 2 * TOGETHER, 4 * TOGETHER
        most = max(few, -(-rows // TOGETHER) * TOGETHER)
        if self.device.backend.tensor_cores:
            most = max(wide, -(-rows // wide) * wide)
        cache = new_cache(self.model, 2, self._cache_type, texts=most)
        ids = [(7919 * row + 13) % self.vocab_size for row in range(most)]

        def logits(count: int) -> bytes:
            """The bytes of the logits of the first rows, at most `few`."""
            with no_grad():
                tokens = int32_tensor(ids[:count], self.device).reshape(count, 1)
                places = int32_tensor([0] * count, self.device)
                y = self.model.forward_cached(tokens, places, cache.first(count), last_only=False)
                return bytes(y.narrow(0, 0, min(count, few)).contiguous().data_view())

        known = logits(few)
        multiple = next((TOGETHER for count in PROBED if not known.startswith(logits(count))), 1)
        if rows <= few or logits(most) == known:
            return multiple, rows
        if self.device.backend.tensor_cores:  # more rows of one tile take hardly more time
            tile = logits(wide)
            if all(logits(count) == tile for count in range(2 * wide, most + 1, wide)):
                return wide, rows
        good, bad = few, most
        while bad - good > TOGETHER:
            middle = (good + bad) // 2 // TOGETHER * TOGETHER
            good, bad = (middle, bad) if logits(middle) == known else (good, middle)
        log.info("fewer texts together", extra={"fields": {"rows": good, "asked": rows, "why": SAME_IN_COMPANY}})
        return multiple, good

    def _passes_alike(self) -> bool:
        """Whether a token's keys and values do not depend on the number of tokens that are read with it."""
        total = min(sum(PASSES) + self.most_rows, self.capacity)  # as many as there are in a pass
        ids = [(7919 * place + 13) % self.vocab_size for place in range(total)]

        def read(sizes: Sequence[int]) -> bytes:
            """The keys and values of the tokens, read in passes of these sizes."""
            cache, start = new_cache(self.model, total, self._cache_type, texts=1), 0
            with no_grad():
                while start < total:
                    part = ids[start : start + (sizes[0] if sizes else total)]
                    place, sizes = int32_tensor([start], self.device), sizes[1:]
                    self.model.forward_cached(int32_tensor(part, self.device), place, cache.text(0), last_only=True)
                    start += len(part)
            memories = [cache.memory] if hasattr(cache, "memory") else cache.memories
            return b"".join(memory.reshape(-1)._storage.read() for memory in memories)

        return read((*PASSES, self.most_rows)) == read((total,))
