"""The settings of generation: sampling and stopping, with their ranges and defaults."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from numbers import Integral, Real
from typing import Any

from pyapp.errors import OptionError

SEEDS = 1 << 64


@dataclass(frozen=True)
class SamplingOptions:
    """The settings of sampling and stopping. OptionError, with the name of the setting, for a value out of its range.

    - temperature: 0 takes the most likely token, 1 samples with the model's probabilities; higher is more random.
    - top_k: only the k most likely tokens; 0: all.
    - top_p: only the most likely tokens that together have this probability; 1: all (Holtzman et al., 2020).
    - min_p: only tokens with at least this fraction of the highest probability; 0: all.
    - repetition_penalty: above 1, tokens that have occurred become less likely (Keskar et al., 2019).
    - seed: the same seed gives the same draws; None: a new one each time.
    - max_new_tokens: the largest number of new tokens; None: until the context is full.
    - stop: texts that end the generation; they are not part of the result.
    """

    temperature: float = 0.8
    top_k: int = 0
    top_p: float = 0.9
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    seed: int | None = None
    max_new_tokens: int | None = 288
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
