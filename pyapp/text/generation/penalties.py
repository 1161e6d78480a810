"""Changes of logits that depend on the tokens so far: bias, penalties, tokens that may not come, or must.

The definitions are those of transformers' logits processors, and of OpenAI's API for frequency and presence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from math import inf

from pyapp.engine.device import Device, cpu
from pyapp.engine.dtype import bool_
from pyapp.engine.ops import full, where, zeros
from pyapp.engine.tensor import Tensor
from pyapp.errors import OptionError
from pyapp.text.generation.options import SamplingOptions


class Repetitions:
    """The tokens that would repeat a sequence of `size` tokens, after the tokens so far."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._last: tuple[int, ...] = ()
        self._next: dict[tuple[int, ...], frozenset[int]] = {}  # what has followed size - 1 tokens

    def accept(self, token: int) -> None:
        if len(self._last) == self._size - 1:
            self._next[self._last] = self._next.get(self._last, frozenset()) | {token}
        self._last = (*self._last, token)[1 - self._size :] if self._size > 1 else ()

    def forbidden(self) -> frozenset[int]:
        return self._next.get(self._last, frozenset())

    def copy(self) -> Repetitions:
        """A text that goes on from here by itself."""
        other = Repetitions(self._size)
        other._last, other._next = self._last, dict(self._next)
        return other


class Endings:
    """The tokens that may not end `words`, sequences of tokens that never come, after the tokens so far."""

    def __init__(self, words: Sequence[Sequence[int]]) -> None:
        self._always = frozenset(word[0] for word in words if len(word) == 1)
        self._words = [(tuple(word[:-1]), word[-1]) for word in words if len(word) > 1]
        self._most = max((len(begin) for begin, _ in self._words), default=0)
        self._last: tuple[int, ...] = ()

    def accept(self, token: int) -> None:
        self._last = (*self._last, token)[-self._most :] if self._most else ()

    def forbidden(self) -> frozenset[int]:
        found = {end for begin, end in self._words if self._last[-len(begin) :] == begin}
        return self._always | found if found else self._always

    def copy(self) -> Endings:
        other = Endings.__new__(Endings)
        vars(other).update(vars(self))
        return other


class Penalties:
    """The logits of a bias, penalties, and tokens that may not come, or must; the settings are those of
    SamplingOptions. `ends` are the tokens that end a text.

    Two dense tensors (V,) hold what is added before and after the repetition penalty; a new token changes single
    numbers of them.
    """

    def __init__(
        self, vocab_size: int, device: Device = cpu, *, logit_bias: Sequence[tuple[int, float]] = (),
        repetition_penalty: float = 1.0, frequency_penalty: float = 0.0, presence_penalty: float = 0.0,
        no_repeat_ngram: int = 0, suppress_tokens: Collection[int] = (), begin_suppress_tokens: Collection[int] = (),
        bad_words_ids: Sequence[Sequence[int]] = (), forced_bos_token_id: int | None = None,
        forced_eos_token_id: int | None = None, min_new_tokens: int = 0, min_length: int = 0,
        max_new_tokens: int | None = None, ends: Collection[int] = (),
    ) -> None:  # fmt: skip
        self._size = vocab_size
        self._frequency, self._presence = float(frequency_penalty), float(presence_penalty)
        self._repetition = float(repetition_penalty)
        self._bias: Tensor | None = None
        if logit_bias:
            self._bias = zeros(vocab_size, device=device)  # (V,)
            for token, value in logit_bias:
                if token >= vocab_size:
                    raise OptionError(f"the model has no token {token}: it has {vocab_size}", where="logit_bias")
                self._write(self._bias, token, value)
        self._seen = zeros(vocab_size, dtype=bool_, device=device) if self._repetition != 1 else None  # (V,)
        self._counts: Counter[int] | None = Counter() if self._frequency or self._presence else None
        self._sequences: list[Repetitions | Endings] = [Repetitions(no_repeat_ngram)] if no_repeat_ngram else []
        self._sequences += [Endings(bad_words_ids)] if bad_words_ids else []
        self._never, self._not_first = frozenset(suppress_tokens), frozenset(begin_suppress_tokens)
        self._least, self._shortest = min_new_tokens, min_length
        self._ends = frozenset(ends if min_new_tokens or min_length else ())
        self._made = self._length = 0  # new tokens so far, and with those of the prompt
        self._forced = {} if forced_bos_token_id is None else {0: forced_bos_token_id}  # by the number of new tokens
        if forced_eos_token_id is not None and max_new_tokens:
            self._forced[max_new_tokens - 1] = forced_eos_token_id
        forced = {"forced_bos_token_id": forced_bos_token_id, "forced_eos_token_id": forced_eos_token_id}
        for name, number in forced.items():
            if number is not None and number >= vocab_size:
                raise OptionError(f"the model has no token {number}: it has {vocab_size}", where=name)
        self._forbidden: frozenset[int] = frozenset()
        late = self._counts is not None or self._sequences or self._never or self._not_first or self._ends
        self._late = zeros(vocab_size, device=device) if late else None  # (V,)
        self._forbid()

    @classmethod
    def of(
        cls, options: SamplingOptions, vocab_size: int, device: Device = cpu, ends: Collection[int] = ()
    ) -> Penalties:  # fmt: skip
        return cls(
            vocab_size, device, logit_bias=options.logit_bias, repetition_penalty=options.repetition_penalty,
            frequency_penalty=options.frequency_penalty, presence_penalty=options.presence_penalty,
            no_repeat_ngram=options.no_repeat_ngram, suppress_tokens=options.suppress_tokens,
            begin_suppress_tokens=options.begin_suppress_tokens, bad_words_ids=options.bad_words_ids,
            forced_eos_token_id=options.forced_eos_token_id, min_new_tokens=options.min_new_tokens,
            min_length=options.min_length, max_new_tokens=options.max_new_tokens, ends=ends,
        )  # fmt: skip

    def copy(self) -> Penalties:
        """Those of a text that goes on from here by itself."""
        other = Penalties.__new__(Penalties)
        vars(other).update(vars(self))
        other._seen = None if self._seen is None else self._seen.clone()
        other._late = None if self._late is None else self._late.clone()
        other._counts = None if self._counts is None else self._counts.copy()
        other._sequences = [sequence.copy() for sequence in self._sequences]
        return other

    def accept(self, ids: Iterable[int], prompt: bool = False) -> None:
        """Records tokens; those of the prompt do not count for frequency and presence."""
        for token in ids:
            if self._seen is not None:
                self._write(self._seen, token, True)
            for sequence in self._sequences:
                sequence.accept(token)
            self._length += 1
            self._made += not prompt
            if self._counts is not None and not prompt:
                self._counts[token] += 1
                self._write_late(token)
        self._forbid()

    def _forbid(self) -> None:
        """Writes what may not come next."""
        now = self._never
        for sequence in self._sequences:
            found = sequence.forbidden()
            now = now | found if now else found
        if self._made == 0 and self._not_first:
            now = now | self._not_first
        if self._ends and (self._made < self._least or self._length < self._shortest):
            now = now | self._ends
        before, self._forbidden = self._forbidden, now
        if now is not before:
            for token in before ^ now:
                if token < self._size:
                    self._write_late(token)

    @property
    def forbids(self) -> bool:
        """Whether some tokens may not come now."""
        return bool(self._forbidden)

    def apply(self, logits: Tensor) -> Tensor:
        """The changed logits (V,) of logits (V,) float32, which stay as they are."""
        if self._bias is not None:
            logits = logits + self._bias
        if self._seen is not None:
            penalised = where(logits < 0, logits * self._repetition, logits / self._repetition)
            logits = where(self._seen, penalised, logits)
        if self._made in self._forced:
            logits = full((self._size,), -inf, device=logits.device)
            self._write(logits, self._forced[self._made], 0.0)
            return logits
        return logits if self._late is None else logits + self._late

    def _write_late(self, token: int) -> None:
        assert self._late is not None
        count = self._counts[token] if self._counts is not None else 0
        value = -(self._frequency * count + self._presence * (count > 0))
        self._write(self._late, token, -inf if token in self._forbidden else value)

    @staticmethod
    def _write(tensor: Tensor, token: int, value: float) -> None:
        tensor.narrow(0, token, 1).assign([value])
