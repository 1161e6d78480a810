"""Write a text for each source with a model that has an encoder and a decoder: greedily, or by beam search.

The options are those of generation_config.json, with the meaning that they have in transformers' `generate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from math import inf, isfinite
from typing import Any, Literal

from pyapp.engine import Tensor, no_grad, ops
from pyapp.errors import OptionError
from pyapp.nn.sequence_to_sequence import CachedMemory, Decoding, SequenceToSequence

MOST_BEAMS = 64
MOST_TOKENS = 1 << 16
HIDDEN = -1e9  # the score of what may not be chosen
USUAL_LENGTH = 256  # new tokens, where nothing says how many


@dataclass(frozen=True)
class SearchOptions:
    """num_beams: hypotheses of a text; 1 is greedy. max_new_tokens; min_new_tokens: before these no end.

    length_penalty: a finished text's score is its log-probability divided by its length to this power. early_stopping:
    True ends when there are num_beams finished texts, False when the best open one is not likely to be better, "never"
    when it cannot be. no_repeat_ngram_size: no sequence of so many tokens occurs twice; 0: any may.
    repetition_penalty: above 1, tokens that occurred become less likely. forced_bos_token_id: the first new token,
    forced_eos_token_id: the last one of a text of the largest length. bad_words_ids: token sequences that never occur.
    """

    decoder_start_token_id: int
    eos_token_ids: tuple[int, ...]
    num_beams: int = 1
    max_new_tokens: int = USUAL_LENGTH
    min_new_tokens: int = 0
    length_penalty: float = 1.0
    early_stopping: bool | Literal["never"] = False
    no_repeat_ngram_size: int = 0
    repetition_penalty: float = 1.0
    forced_bos_token_id: int | None = None
    forced_eos_token_id: int | None = None
    bad_words_ids: tuple[tuple[int, ...], ...] = ()

    def __post_init__(self) -> None:
        ranges = {
            "num_beams": (1, MOST_BEAMS), "max_new_tokens": (1, MOST_TOKENS), "min_new_tokens": (0, MOST_TOKENS),
            "no_repeat_ngram_size": (0, MOST_TOKENS),
        }  # fmt: skip
        for name, (low, high) in ranges.items():
            value = getattr(self, name)
            if type(value) is not int or not low <= value <= high:
                raise OptionError(f"{value!r:.40} is not a whole number from {low} to {high:,}", where=name)
        for name in ("length_penalty", "repetition_penalty"):
            value = getattr(self, name)
            if type(value) not in (int, float) or not isfinite(value) or abs(value) > 100:
                raise OptionError(f"{value!r:.40} is not a number up to 100", where=name)
        if self.repetition_penalty <= 0:
            raise OptionError(f"{self.repetition_penalty!r:.40} is not above 0", where="repetition_penalty")
        if self.early_stopping not in (True, False, "never"):
            raise OptionError(f"{self.early_stopping!r:.40} is none of true, false and never", where="early_stopping")
        for ids in (self.eos_token_ids, *self.bad_words_ids, *((i,) for i in self._forced())):
            if not ids or any(type(number) is not int or number < 0 for number in ids):
                raise OptionError(f"{ids!r:.60} are no token ids", where="token ids")

    def _forced(self) -> list[int]:
        given = (self.decoder_start_token_id, self.forced_bos_token_id, self.forced_eos_token_id)
        return [number for number in given if number is not None]

    @classmethod
    def from_files(
        cls, config: Mapping[str, Any], generation: Mapping[str, Any], given: Mapping[str, Any]
    ) -> SearchOptions:
        """From config.json, over it generation_config.json, over both the options `given`, of which None counts as not
        given. OptionError for an unknown option.
        """
        known = {field.name for field in fields(cls)} - {"eos_token_ids"}
        unknown = [name for name in given if name not in known]
        if unknown:
            raise OptionError(
                f"{unknown[0]!r:.60} is no option", where="options", hint=f"Options: {', '.join(sorted(known))}"
            )
        found = {name: value for source in (config, generation) for name, value in source.items() if value is not None}
        values = {name: found[name] for name in known if name in found}
        if "max_new_tokens" not in values and type(found.get("max_length")) is int and found["max_length"] > 1:
            values["max_new_tokens"] = found["max_length"] - 1  # the first token of the decoder counts there
        if "min_new_tokens" not in values and type(found.get("min_length")) is int:
            values["min_new_tokens"] = max(found["min_length"] - 1, 0)
        values |= {name: value for name, value in given.items() if value is not None}
        ends = found.get("eos_token_id")
        if ends is None:
            raise OptionError("the configuration does not say the model's eos_token_id", where="eos_token_id")
        start = values.get("decoder_start_token_id", found.get("bos_token_id"))
        if start is None:
            raise OptionError("it is missing in the configuration", where="decoder_start_token_id")
        words = values.get("bad_words_ids") or ()
        if not isinstance(words, list | tuple) or not all(isinstance(word, list | tuple) for word in words):
            raise OptionError(f"{words!r:.60} is no list of lists of ids", where="bad_words_ids")
        for name in ("forced_eos_token_id",):
            if isinstance(values.get(name), list):
                values[name] = values[name][0] if values[name] else None
        values |= {
            "decoder_start_token_id": start,
            "eos_token_ids": tuple(ends) if isinstance(ends, list) else (ends,),
            "bad_words_ids": tuple(tuple(word) for word in words),
        }
        return cls(**values)

    def within(self, most: int) -> SearchOptions:
        """The options for a decoder of at most `most` tokens."""
        return replace(self, max_new_tokens=min(self.max_new_tokens, most - 1))


def search(
    model: SequenceToSequence, ids: Tensor, attention_mask: Tensor | None, options: SearchOptions
) -> Iterator[list[list[int]] | None]:
    """Sources ids (B, S) int32 → at last the texts: token ids without the first one, ending with an end token if they
    ended. Before that None after every step, so that the caller can do other work or stop.
    """
    model.check(ids, attention_mask)
    options = options.within(model.most)
    with no_grad():
        encoded = model.encode(ids, attention_mask)  # (B, S, D)
        memory = CachedMemory(encoded, attention_mask, options.num_beams, options.max_new_tokens)
        kind = _Greedy if options.num_beams == 1 else _Beams
        state, decoding = kind(ids.shape[0], options), Decoding(model, memory)
    while True:
        with no_grad():
            logits = decoding.step([row[-1] for row in state.rows]).to("float32")  # (R, V)
            order = state.advance(logits)
        if order is None:
            yield state.texts()
            return
        with no_grad():
            memory.advance(order)
        yield None


class _Greedy:
    """One text for each source: the most likely token at each step."""

    def __init__(self, batch: int, options: SearchOptions) -> None:
        self.options = options
        self.rows = [[options.decoder_start_token_id] for _ in range(batch)]
        self._ended = [False] * batch

    def advance(self, logits: Tensor) -> list[int] | None:
        """Takes the next tokens; returns the rows that go on, or None at the end."""
        chosen = _processed(logits, self.rows, self.options).argmax(-1).tolist()
        for i, token in enumerate(chosen):
            if self._ended[i]:
                self.rows[i].append(self.options.eos_token_ids[0])  # computed for nothing, beside the open ones
                continue
            self.rows[i].append(token)
            self._ended[i] = token in self.options.eos_token_ids
        done = all(self._ended) or len(self.rows[0]) > self.options.max_new_tokens
        return None if done else list(range(len(self.rows)))

    def texts(self) -> list[list[int]]:
        return [_upto_end(row[1:], self.options.eos_token_ids) for row in self.rows]


@dataclass(frozen=True)
class _Finished:
    score: float = HIDDEN
    tokens: tuple[int, ...] = ()
    ended: bool = False


class _Beams:
    """The hypotheses of all sources, `num_beams` for each: open ones (rows, scores) and finished ones."""

    def __init__(self, batch: int, options: SearchOptions) -> None:
        self.options, self.batch, self.beams = options, batch, options.num_beams
        self.rows = [[options.decoder_start_token_id] for _ in range(batch * self.beams)]
        self._scores = [[0.0, *[HIDDEN] * (self.beams - 1)] for _ in range(batch)]
        self._finished = [[_Finished()] * self.beams for _ in range(batch)]
        self._improvable = [True] * batch
        self._kept = max(2, 1 + len(options.eos_token_ids)) * self.beams

    def advance(self, logits: Tensor) -> list[int] | None:
        """Extends all hypotheses; returns for each new row the old one that it extends, or None at the end."""
        words = logits.shape[-1]
        chances = _processed(logits.log_softmax(-1), self.rows, self.options)  # (R, V)
        before = ops.tensor(self._scores, dtype="float32", device=logits.device).unsqueeze(-1)  # (B, beams, 1)
        total = (chances.reshape(self.batch, self.beams, words) + before).reshape(self.batch, self.beams * words)
        best, places = total.topk(min(self._kept, self.beams * words), -1)
        length = len(self.rows[0])  # of the new tokens after this step
        order, rows, all_end = [], [], True
        for i, (scores, found) in enumerate(zip(best.tolist(), places.tolist(), strict=True)):
            beams, tokens = [place // words for place in found], [place % words for place in found]
            full = length >= self.options.max_new_tokens
            ends = [full or token in self.options.eos_token_ids for token in tokens]
            texts = [[*self.rows[i * self.beams + beam], token] for beam, token in zip(beams, tokens, strict=True)]
            self._finish(i, scores, texts, ends, length)
            still = [score + HIDDEN * end for score, end in zip(scores, ends, strict=True)]
            chosen = sorted(range(len(still)), key=lambda n, still=still: -still[n])[: self.beams]  # type: ignore[misc]
            self._scores[i] = [still[n] for n in chosen]
            order += [i * self.beams + beams[n] for n in chosen]
            rows += [texts[n] for n in chosen]
            all_end = all_end and all(ends)
            self._improvable[i] = self._improvable[i] and self._may_improve(i, length)
        self.rows = rows
        every = all(one.ended for finished in self._finished for one in finished)
        done = not any(self._improvable) or (every and self.options.early_stopping is True) or all_end
        return None if done else order

    def _finish(self, i: int, scores: list[float], texts: list[list[int]], ends: list[bool], length: int) -> None:
        """Keeps the best of the finished texts and those among the first `num_beams` that end now."""
        full = self.options.early_stopping is True and all(one.ended for one in self._finished[i])
        merged = list(self._finished[i])
        for n in range(min(self.beams, len(texts))):
            if ends[n] and not full and self._improvable[i]:
                score = scores[n] / length**self.options.length_penalty
                merged.append(_Finished(score, tuple(texts[n][1:]), True))
        self._finished[i] = sorted(merged, key=lambda one: -one.score)[: self.beams]

    def _may_improve(self, i: int, length: int) -> bool:
        """Whether the best open text may become better than the worst finished one."""
        finished, penalty = self._finished[i], self.options.length_penalty
        most = self.options.max_new_tokens if self.options.early_stopping == "never" and penalty > 0 else length
        worst = min(one.score for one in finished)
        return any(self._scores[i][0] / most**penalty > (worst if one.ended else HIDDEN) for one in finished)

    def texts(self) -> list[list[int]]:
        found = []
        for i, finished in enumerate(self._finished):
            best = finished[0] if finished[0].ended else None
            found.append(list(best.tokens) if best is not None else self.rows[i * self.beams][1:])
        return [_upto_end(row, self.options.eos_token_ids) for row in found]


def _upto_end(tokens: list[int], ends: Sequence[int]) -> list[int]:
    return next((tokens[: i + 1] for i, token in enumerate(tokens) if token in ends), tokens)


# -- changes of the scores before a token is chosen


def _processed(scores: Tensor, rows: Sequence[Sequence[int]], options: SearchOptions) -> Tensor:
    """scores (R, V) of the next tokens of `rows`, as the options change them."""
    made = len(rows[0]) - 1  # new tokens so far
    last = made == options.max_new_tokens - 1 and options.forced_eos_token_id is not None
    forced = options.forced_eos_token_id if last else options.forced_bos_token_id if made == 0 else None
    if forced is not None:
        only = ops.full(scores.shape, -inf, dtype=scores.dtype, device=scores.device)
        only[:, _inside(forced, scores)] = 0.0
        return only
    if options.repetition_penalty != 1.0:
        scores = _less_likely(scores, rows, options.repetition_penalty)
    banned = [_repeats(row, options.no_repeat_ngram_size) | _bad(row, options.bad_words_ids) for row in rows]
    if made < options.min_new_tokens:
        banned = [found | set(options.eos_token_ids) for found in banned]
    return _hidden(scores, banned)


def _hidden(scores: Tensor, banned: Sequence[set[int]]) -> Tensor:
    """scores with minus infinity for the banned tokens of each row."""
    pairs = [(i, token) for i, found in enumerate(banned) for token in found if token < scores.shape[1]]
    if not pairs:
        return scores
    scores = scores.clone()
    where: list[Any] = [ops.tensor(list(part)).to("int64").to(scores.device) for part in zip(*pairs, strict=True)]
    scores[where[0], where[1]] = -inf
    return scores


def _less_likely(scores: Tensor, rows: Sequence[Sequence[int]], penalty: float) -> Tensor:
    """The repetition penalty (Keskar et al. 2019, arXiv 1909.05858) on the tokens of each row."""
    index = ops.tensor([list(row) for row in rows]).to("int64").to(scores.device)  # (R, T)
    found = ops.gather(scores, 1, index)
    changed = ops.where(found < 0, found * penalty, found / penalty)
    return ops.scatter(scores, 1, index, changed)


def _repeats(row: Sequence[int], size: int) -> set[int]:
    """The tokens that would repeat a sequence of `size` tokens."""
    if size < 1 or len(row) + 1 < size:
        return set()
    end = tuple(row[len(row) - size + 1 :])
    return {row[i + size - 1] for i in range(len(row) - size + 1) if tuple(row[i : i + size - 1]) == end}


def _bad(row: Sequence[int], words: Sequence[Sequence[int]]) -> set[int]:
    """The tokens that would complete one of the sequences."""
    return {word[-1] for word in words if tuple(row[len(row) - len(word) + 1 :]) == tuple(word[:-1])}


def _inside(token: int, scores: Tensor) -> int:
    if token >= scores.shape[1]:
        raise OptionError(f"token {token} is none of {scores.shape[1]}", where="forced token")
    return token
