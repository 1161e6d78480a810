"""Results of several parts: named tuples that print as torch's return_types, by the name of the function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from .tensor import Tensor

Kind = TypeVar("Kind", bound=type)
KINDS: dict[str, type] = {}  # by the name of the function, once its module is imported


class Found(NamedTuple):
    """Values, and their indices along a dim (int64)."""

    values: Tensor
    indices: Tensor


def printed_as(name: str) -> Callable[[Kind], Kind]:
    """A decorator of a named tuple: its texts begin with the name."""

    def decorate(kind: Kind) -> Kind:
        def text(self: Any) -> str:
            parts = ",\n".join(f"{field}={part!r}" for field, part in zip(self._fields, self, strict=True))
            return f"pyapp.return_types.{name}(\n{parts})"

        kind.__repr__ = text  # type: ignore[assignment]
        KINDS[name] = kind
        return kind

    return decorate


def found(name: str) -> type[Found]:
    """The kind of Found that a function of that name gives. Pickles and copies are as of Found."""
    body = {"__slots__": (), "__module__": __name__, "__reduce__": lambda self: (Found, tuple(self))}
    made: type[Found] = printed_as(name)(type(name, (Found,), body))
    return made
