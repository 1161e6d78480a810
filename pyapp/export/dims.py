"""Sizes that may differ from call to call."""

from __future__ import annotations

from typing import Any


class UserError(RuntimeError):
    """A program that cannot be exported, and why."""


class Dim:
    """A size that may differ from call to call: `Dim("batch", min=1, max=64)`. Dims of one name are equal. In place of
    one, `Dim.AUTO` and `Dim.DYNAMIC` are any size, `Dim.STATIC` and None that of the example."""

    AUTO: Any
    DYNAMIC: Any
    STATIC: Any = None

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not name.isidentifier():
            raise AssertionError(f"Dim: a name is a word, not {name!r}")
        self.__name__ = name
        self.min, self.max = 0 if min is None else min, max
        if max is not None and self.min > max:
            raise ValueError(f"Dim {name}: min={min} is above max={max}")

    def __repr__(self) -> str:
        return f"Dim({self.__name__!r}, min={self.min}{'' if self.max is None else f', max={self.max}'})"


Dim.AUTO = Dim("AUTO")
Dim.DYNAMIC = Dim("DYNAMIC")
ANY = (Dim.AUTO, Dim.DYNAMIC)


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """A Dim for each name."""
    return tuple(Dim(name, min=min, max=max) for name in names)
