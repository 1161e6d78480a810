"""Which token comes next: options, a seeded stream of random numbers, and the sampling kernel.

The draws come from Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): the same seed
gives the same draws on every platform, with no NumPy.
"""

from __future__ import annotations

import math
import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

from pyapp.engine import ops
from pyapp.engine.dtype import int32
from pyapp.engine.tensor import Tensor
from pyapp.errors import KernelError, ModelError, OptionError

WORD = 0xFFFFFFFF
SEEDS = 1 << 64


@dataclass(frozen=True)
class SamplingOptions:
    """How to choose tokens and when to stop. Raises OptionError, naming the setting, for a value out of its range.

    temperature: 0 takes the likeliest token; 1 the model's own probabilities; higher is wilder.
    top_k: only the k likeliest tokens; 0: all. top_p: only the likeliest tokens that together have this probability; 1:
    all. min_p: only tokens at least this fraction as likely as the likeliest; 0: all. repetition_penalty: above 1,
    tokens that occurred in the prompt or text become less likely (Keskar et al., 2019). seed: the same seed gives the
    same text; None draws one. max_new_tokens: at most so many; None: until the context is full. stop: texts that end
    the generation; they are not part of the result.
    """

    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 0.9
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    max_new_tokens: int | None = 256
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_number("temperature", self.temperature, 0, 100)
        check_number("top_k", self.top_k, 0, 1 << 31, whole=True)
        check_number("top_p", self.top_p, 0, 1)
        check_number("min_p", self.min_p, 0, 1)
        check_number("repetition_penalty", self.repetition_penalty, 0.01, 100)
        if self.seed is not None:
            check_number("seed", self.seed, 0, SEEDS - 1, whole=True)
        if self.max_new_tokens is not None:
            check_number("max_new_tokens", self.max_new_tokens, 1, 1 << 31, whole=True)
        object.__setattr__(self, "stop", check_stop(self.stop))

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> SamplingOptions:
        """From JSON values; unknown names are refused."""
        known = [entry.name for entry in fields(cls)]
        for name in values:
            if name not in known:
                raise OptionError("no such setting", where=name, hint=f"Settings are: {', '.join(known)}")
        return cls(**values)

    @property
    def greedy(self) -> bool:
        return self.temperature == 0


def check_number(name: str, value: object, low: float, high: float, whole: bool = False) -> None:
    kind = "a whole number" if whole else "a number"
    fits = isinstance(value, Integral if whole else Real) and not isinstance(value, bool)
    if not fits or not low <= value <= high:  # type: ignore[operator]
        raise OptionError(f"must be {kind} from {low:g} to {high:g}, not {value!r}", where=name)


def check_stop(value: object) -> tuple[str, ...]:
    texts = (value,) if isinstance(value, str) else value
    if not isinstance(texts, Sequence) or not all(isinstance(text, str) and text for text in texts):
        raise OptionError(f"must be texts of at least one character, not {value!r:.80}", where="stop")
    return tuple(texts)


def philox(counter: int, key: int) -> tuple[int, int, int, int]:
    """Four random 32-bit words of Philox4x32-10 for a 128-bit counter and a 64-bit key."""
    c0, c1, c2, c3 = (counter >> shift & WORD for shift in (0, 32, 64, 96))
    k0, k1 = key & WORD, key >> 32 & WORD
    for _ in range(10):
        first, second = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        c0, c1, c2, c3 = second >> 32 ^ c1 ^ k0, second & WORD, first >> 32 ^ c3 ^ k1, first & WORD
        k0, k1 = k0 + 0x9E3779B9 & WORD, k1 + 0xBB67AE85 & WORD
    return c0, c1, c2, c3


class Uniform:
    """Draws from [0, 1): those of the kernel `random_uniform` for the same seed, in order."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._count = 0
        self._words: tuple[int, ...] = ()

    def draw(self) -> float:
        block, word = divmod(self._count, 4)
        if word == 0:
            self._words = philox(block, self.seed)
        self._count += 1
        return (self._words[word] >> 8) * 2.0**-24


class Sampler:
    """Chooses tokens by `options`; `seed` is the one in use. `limit`: the most tokens that prompt and text may have."""

    def __init__(self, options: SamplingOptions, limit: int) -> None:
        self.options = options
        # A drawn seed stays below 2^53, so that JavaScript can hold it exactly.
        self.seed = secrets.randbelow(1 << 53) if options.seed is None else int(options.seed)
        self._uniform = Uniform(self.seed)
        self._history: Tensor | None = None
        self._history_view: memoryview | None = None
        self._count = 0
        if options.repetition_penalty != 1:
            self._history = Tensor.from_buffer(bytes(4 * limit), (limit,), int32)
            self._history_view = self._history.data_view()

    def accept(self, ids: Iterable[int]) -> None:
        """Remembers tokens of the prompt or text for the repetition penalty."""
        if self._history_view is None:
            return
        for token in ids:
            self._history_view[self._count] = token
            self._count += 1

    def sample(self, logits: Tensor) -> int:
        """The next token for logits (V,) float32. Raises ModelError where they are not numbers."""
        options = self.options
        history = None if self._history is None or not self._count else self._history[: self._count]
        uniform = 0.0 if options.greedy else self._uniform.draw()
        try:
            return ops.sample(
                logits,
                history,
                uniform,
                temperature=float(options.temperature),
                top_k=int(options.top_k),
                top_p=float(options.top_p),
                min_p=float(options.min_p),
                penalty=float(options.repetition_penalty),
            )
        except KernelError as error:
            if any(map(math.isnan, logits.data_view())):
                raise ModelError(
                    "the model's output is not a number (NaN): its weights are damaged",
                    hint="Download or export the model again",
                ) from error
            raise
