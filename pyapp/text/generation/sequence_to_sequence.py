"""Write a text for each source with a model that has an encoder and a decoder: greedily, or by beam search.

The options are those of generation_config.json, with the meaning that they have in transformers' `generate`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from math import isfinite
from typing import Any, Literal

from pyapp.dataclass import dataclass
from pyapp.engine import Tensor, no_grad
from pyapp.engine.ops.sampling import peaks
from pyapp.errors import OptionError, check_settings
from pyapp.nn.sequence_to_sequence.sequence_to_sequence import CachedMemory, Decoding, SequenceToSequence
from pyapp.text.generation.beams import BeamSearch
from pyapp.text.generation.penalties import Penalties
from pyapp.text.tokenization.post_processor import LARGEST_ID

MOST_BEAMS = 64
MOST_TOKENS = 1 << 16
USUAL_LENGTH = 256  # new tokens, where nothing says how many


@dataclass(frozen=True)
class SearchOptions:
    """num_beams: hypotheses of a text; 1 is greedy. max_new_tokens; min_new_tokens: before these no end.

    length_penalty: a finished text's score is its log-probability divided by its length to this power. early_stopping:
    True ends when there are num_beams finished texts, False when the best open one is not likely to be better, "never"
    when it cannot be. no_repeat_ngram_size: no sequence of so many tokens occurs twice; 0: any may.
    repetition_penalty: above 1, tokens that occurred become less likely. forced_bos_token_id: the first new token,
    forced_eos_token_id: the last one of a text of the largest length. bad_words_ids: token sequences that never occur;
    suppress_tokens: tokens that never do; begin_suppress_tokens: that are not the first new one. prompt_ids: tokens
    that the decoder reads before decoder_start_token_id.
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
    suppress_tokens: tuple[int, ...] = ()
    begin_suppress_tokens: tuple[int, ...] = ()
    prompt_ids: tuple[int, ...] = ()

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
        single = (*self._forced(), *self.suppress_tokens, *self.begin_suppress_tokens, *self.prompt_ids)
        for ids in (self.eos_token_ids, *self.bad_words_ids, *((i,) for i in single)):
            if not ids or any(type(number) is not int or not 0 <= number < LARGEST_ID for number in ids):
                raise OptionError(f"{ids!r:.60} are not token ids", where="token ids")

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
        known = {field.name for field in fields(cls)} - {"eos_token_ids", "prompt_ids"}
        check_settings(given, sorted(known))
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
            raise OptionError(f"{words!r:.60} is not a list of lists of ids", where="bad_words_ids")
        for name in ("forced_eos_token_id",):
            if isinstance(values.get(name), list):
                values[name] = values[name][0] if values[name] else None
        values |= {
            "decoder_start_token_id": start,
            "eos_token_ids": tuple(ends) if isinstance(ends, list) else (ends,),
            "bad_words_ids": tuple(tuple(word) for word in words),
        }
        for name in ("suppress_tokens", "begin_suppress_tokens"):
            ids = values.get(name) or ()
            if not isinstance(ids, list | tuple):
                raise OptionError(f"{ids!r:.60} is not a list of ids", where=name)
            values[name] = tuple(ids)
        return cls(**values)

    def within(self, most: int) -> SearchOptions:
        """The options for a decoder of at most `most` tokens."""
        return replace(self, max_new_tokens=min(self.max_new_tokens, most - 1 - len(self.prompt_ids)))


def search(
    model: SequenceToSequence, ids: Tensor, attention_mask: Tensor | None, options: SearchOptions
) -> Iterator[list[list[int]] | None]:
    """Sources ids (B, S) int32, or what else the model reads → at last the texts: token ids without the first one,
    ending with an end token if they ended. Before that None after every step, so that the caller can do other work or
    stop.
    """
    model.check_source(ids, attention_mask)
    options = options.within(model.written or model.most)
    with no_grad():
        encoded = model.encode(ids, attention_mask)  # (B, S, D)
        mask = model.source_mask(attention_mask, ids, encoded)
        memory = CachedMemory(encoded, mask, options.num_beams, options.max_new_tokens + len(options.prompt_ids))
        kind = _Greedy if options.num_beams == 1 else _Beams
        state, decoding = kind(ids.shape[0], options), Decoding(model, memory)
    for token in options.prompt_ids:
        with no_grad():
            decoding.step([token] * memory.rows)
            memory.advance()
        yield None
    while True:
        with no_grad():
            try:
                logits = decoding.step(list(state.tokens)).to("float32")  # (R, V)
            except IndexError as error:  # later tokens are those of the logits
                what = f"the model has no token {options.decoder_start_token_id:,}"
                raise OptionError(what, where="decoder_start_token_id") from error
            order = state.advance(logits)
        if order is None:
            yield state.texts()
            return
        with no_grad():
            memory.advance(order)
        yield None


class _Rules:
    """beams.Rules of the options."""

    def __init__(self, options: SearchOptions) -> None:
        self._options = options
        self._penalties: Penalties | None = None  # made for the first scores: they tell the vocabulary

    def apply(self, scores: Tensor) -> Tensor:
        if self._penalties is None:
            options = self._options
            self._penalties = Penalties(
                scores.shape[0], scores.device, repetition_penalty=options.repetition_penalty,
                no_repeat_ngram=options.no_repeat_ngram_size, suppress_tokens=options.suppress_tokens,
                begin_suppress_tokens=options.begin_suppress_tokens, bad_words_ids=options.bad_words_ids,
                forced_bos_token_id=options.forced_bos_token_id, forced_eos_token_id=options.forced_eos_token_id,
                min_new_tokens=options.min_new_tokens, max_new_tokens=options.max_new_tokens,
                ends=options.eos_token_ids,
            )  # fmt: skip
            self._penalties.accept((options.decoder_start_token_id,), prompt=True)
        return self._penalties.apply(scores)

    def accept(self, token: int) -> str | None:
        if self._penalties is not None:
            self._penalties.accept((token,))
        return None

    def copy(self) -> _Rules:
        other = _Rules(self._options)
        other._penalties = None if self._penalties is None else self._penalties.copy()
        return other


class _Greedy:
    """One text for each source: the most likely token at each step. `tokens` has the last one of each."""

    def __init__(self, batch: int, options: SearchOptions) -> None:
        self._options = options
        self.tokens = [options.decoder_start_token_id] * batch
        self._texts: list[list[int]] = [[] for _ in range(batch)]
        self._rules = [_Rules(options) for _ in range(batch)]
        self._ended = [False] * batch

    def advance(self, logits: Tensor) -> list[int] | None:
        """Takes the next tokens; returns the rows that go on, or None at the end."""
        # The ended ones are computed for nothing, beside the open ones.
        going = [i for i, ended in enumerate(self._ended) if not ended]
        best = peaks([self._rules[i].apply(logits[i]) for i in going])
        for i, token in zip(going, best, strict=True):
            self.tokens[i] = token
            self._rules[i].accept(token)
            self._texts[i].append(token)
            self._ended[i] = token in self._options.eos_token_ids or len(self._texts[i]) >= self._options.max_new_tokens
        return None if all(self._ended) else list(range(len(self.tokens)))

    def texts(self) -> list[list[int]]:
        return self._texts


class _Beams:
    """Beam search; `tokens` has the last token of each row, `num_beams` rows for each source."""

    def __init__(self, batch: int, options: SearchOptions) -> None:
        self._beams = options.num_beams
        self.tokens = [options.decoder_start_token_id] * (batch * self._beams)
        self._search = BeamSearch(
            [_Rules(options) for _ in range(batch)], options.num_beams, options.max_new_tokens, options.eos_token_ids,
            options.length_penalty, options.early_stopping,
        )  # fmt: skip

    def advance(self, logits: Tensor) -> list[int] | None:
        """Extends all hypotheses; returns for each new row the old one that it extends, or None at the end."""
        if not self._search.advance(logits, self._beams):
            return None
        order = list(range(len(self.tokens)))  # a row that has no text stays
        for i, texts in enumerate(self._search.open):
            for place, text in enumerate(texts):
                order[i * self._beams + place] = i * self._beams + text.parent
                self.tokens[i * self._beams + place] = text.tokens[-1]
        return order

    def texts(self) -> list[list[int]]:
        return [self._search.best(i)[0].tokens for i in range(len(self._search.open))]
