"""The types of results of several parts, by the names of their functions, as in torch.return_types."""

from __future__ import annotations

import importlib
from typing import Any

from .engine.ops import declared
from .engine.ops._index import FUNCTION_MODULES
from .engine.return_types import KINDS

_PREFIX = "linalg_"


def _as_torchs(name: str) -> Any:
    """The type, which can be made of one sequence of all parts, and counts them."""
    kind: Any = KINDS[name]
    if not hasattr(kind, "n_fields"):
        count = kind.n_fields = kind.n_sequence_fields = len(kind._fields)
        kind.n_unnamed_fields = 0

        def new(cls: type, *parts: Any) -> Any:
            if len(parts) != count and len(parts) == 1:
                parts = tuple(parts[0])
            if len(parts) != count:
                raise TypeError(f"return_types.{name}: takes {count} parts, got {len(parts)}")
            return tuple.__new__(cls, parts)

        kind.__new__ = new
        kind.__reduce__ = lambda self: (_remade, (name, tuple(self)))
    return kind


def _remade(name: str, parts: tuple[Any, ...]) -> Any:
    """A result in a pickle, of a type that was asked for here."""
    return _as_torchs(name)(parts) if name in KINDS else __getattr__(name)(parts)


def __getattr__(name: str) -> Any:
    if name not in KINDS:  # the module of the function makes its type
        if name in FUNCTION_MODULES:
            declared(name)
        elif name.startswith(_PREFIX):
            importlib.import_module(".linalg", __package__)
    if name in KINDS:
        return _as_torchs(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
