"""torch.nn.modules.utils: one number for each dim."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any


def _ntuple(count: int, name: str = "") -> Callable[[Any], tuple[Any, ...]]:
    """A function that repeats a number `n` times, or makes a tuple of an iterable."""

    def each(value: Any) -> tuple[Any, ...]:
        return tuple(value) if isinstance(value, Iterable) else (value,) * count

    return each


_single, _pair, _triple, _quadruple = (_ntuple(count) for count in (1, 2, 3, 4))

__all__ = ["_ntuple", "_pair", "_quadruple", "_single", "_triple"]
