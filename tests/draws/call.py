"""A drawn call, and what families of calls share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pyapp
from pyapp import Tensor
from pyapp.nn import functional as F

from .operands import Draw, Operand

FAMILIES: dict[str, Callable[[Draw], Call]] = {}


@dataclass
class Call:
    """function(*tensors of the operands) → a tensor or several. `changed`: the operand that it writes in place."""

    name: str
    operands: list[Operand]
    function: Callable[..., Any]
    learns: bool = True
    tolerance: float = 0.0  # of results, beside their largest; 0: by dtype
    absolute: float = 0.0  # beside that
    changed: int | None = None
    details: dict[str, Any] = field(default_factory=dict)
    exact_reference: bool = False  # the reference has the operands' dtypes


def family(function: Callable[[Draw], Call]) -> Callable[[Draw], Call]:
    FAMILIES[function.__name__] = function
    return function


def method(name: str) -> Callable[..., Any]:
    def call(x: Tensor, *args: Any, **named: Any) -> Any:
        found = getattr(pyapp, name, None) or getattr(F, name)
        return found(x, *args, **named)

    return call


def broadcast(d: Draw, shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape that broadcasts to this one."""
    if d.chance(0.5):
        return shape
    found = tuple(1 if d.chance(0.4) else n for n in shape)
    return found[d.below(len(found) + 1) :] if d.chance(0.4) else found


def dims(d: Draw, rank: int) -> Any:
    """None, a dim or several."""
    if rank == 0 or d.chance(0.15):
        return None
    if d.chance(0.5):
        return d.below(rank) - (rank if d.chance(0.4) else 0)
    return tuple(int(i) for i in d.random.permutation(rank)[: 1 + d.below(rank)])


_REFERENCE = [False]


@contextmanager
def computing_reference() -> Iterator[None]:
    """`reference` is true inside."""
    _REFERENCE[0] = True
    try:
        yield
    finally:
        _REFERENCE[0] = False


def reference() -> bool:
    """Whether the reference is computed."""
    return _REFERENCE[0]
