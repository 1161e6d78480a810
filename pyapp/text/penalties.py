"""Changes of logits that depend on the tokens so far: bias, penalties, forbidden repetitions.

The definitions are those of transformers' logits processors, and of OpenAI's API for frequency and presence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from math import inf

from pyapp.engine.device import Device, cpu
from pyapp.engine.dtype import bool_
from pyapp.engine.ops import where, zeros
from pyapp.engine.tensor import Tensor
from pyapp.errors import OptionError
from pyapp.text.options import SamplingOptions


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


class Penalties:
    """The logits of a bias, penalties and forbidden repetitions; the settings are those of SamplingOptions.

    Two dense tensors (V,) hold what is added before and after the repetition penalty; a new token changes single
    numbers of them.
    """

    def __init__(
        self, vocab_size: int, device: Device = cpu, *, logit_bias: Sequence[tuple[int, float]] = (),
        repetition_penalty: float = 1.0, frequency_penalty: float = 0.0, presence_penalty: float = 0.0,
        no_repeat_ngram: int = 0,
    ) -> None:  # fmt: skip
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
        self._repetitions = Repetitions(no_repeat_ngram) if no_repeat_ngram else None
        self._forbidden: frozenset[int] = frozenset()
        late = self._counts is not None or self._repetitions is not None
        self._late = zeros(vocab_size, device=device) if late else None  # (V,)

    @classmethod
    def of(cls, options: SamplingOptions, vocab_size: int, device: Device = cpu) -> Penalties:
        return cls(
            vocab_size, device, logit_bias=options.logit_bias, repetition_penalty=options.repetition_penalty,
            frequency_penalty=options.frequency_penalty, presence_penalty=options.presence_penalty,
            no_repeat_ngram=options.no_repeat_ngram,
        )  # fmt: skip

    def copy(self) -> Penalties:
        """Those of a text that goes on from here by itself."""
        other = Penalties.__new__(Penalties)
        vars(other).update(vars(self))
        other._seen = None if self._seen is None else self._seen.clone()
        other._late = None if self._late is None else self._late.clone()
        other._counts = None if self._counts is None else self._counts.copy()
        other._repetitions = None if self._repetitions is None else self._repetitions.copy()
        return other

    def accept(self, ids: Iterable[int], prompt: bool = False) -> None:
        """Records tokens; those of the prompt do not count for frequency and presence."""
        for token in ids:
            if self._seen is not None:
                self._write(self._seen, token, True)
            if self._repetitions is not None:
                self._repetitions.accept(token)
            if self._counts is not None and not prompt:
                self._counts[token] += 1
                self._write_late(token)
        if self._repetitions is not None:
            before, self._forbidden = self._forbidden, self._repetitions.forbidden()
            for token in before ^ self._forbidden:
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
        return logits if self._late is None else logits + self._late

    def _write_late(self, token: int) -> None:
        assert self._late is not None
        count = self._counts[token] if self._counts is not None else 0
        value = -(self._frequency * count + self._presence * (count > 0))
        self._write(self._late, token, -inf if token in self._forbidden else value)

    @staticmethod
    def _write(tensor: Tensor, token: int, value: float) -> None:
        tensor.narrow(0, token, 1).assign([value])
