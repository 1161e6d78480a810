"""Weights: tensors of a file by path, with their shapes checked, and a list of missing and unused ones."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

from ..engine import Tensor, no_grad
from ..errors import ModelError
from .module import Module
from .state import Renames, all_tensors, renamed

__all__ = ["Weights"]

# The names of a norm's weight and bias in older files.
NORM_RENAMES = {"gamma": "weight", "beta": "bias"}


class Weights:
    """A view of a source below a prefix: `(weights / "layers" / 0).get("weight", (8, 4))` reads "layers.0.weight".

    source: a mapping of tensors, or a checkpoint with `tensors` and `read(name)` (formats.open_checkpoint). renames:
    parts of the source's names and their names here, {"gamma": "weight"}, or a function of a name. All views of a
    source share the record of the tensors that were read.
    """

    def __init__(self, source: Any, prefix: str = "", renames: Renames | None = None) -> None:
        if not isinstance(source, Mapping) and not hasattr(source, "tensors"):
            what = f"the path {str(source)!r}" if isinstance(source, str | os.PathLike) else type(source).__name__
            raise TypeError(
                f"Weights: takes a mapping of tensors or an open checkpoint, not {what}; "
                "open a file with pyapp.formats.open_checkpoint(path), or read it with pyapp.load(path)"
            )
        self.prefix = prefix
        self._source = source
        names: Iterable[str] = source if isinstance(source, Mapping) else source.tensors
        self._names: dict[str, str] = {}
        for name in names:
            known = renamed(name, renames or {})
            if known in self._names:
                raise ModelError(f"{name!r} and {self._names[known]!r} are both {known!r} after renaming")
            self._names[known] = name
        self._taken: set[str] = set()

    def __truediv__(self, part: str | int) -> Weights:
        """The view below a part of the path."""
        below = object.__new__(Weights)
        below.__dict__.update(self.__dict__)
        below.prefix = self._path(str(part))
        return below

    at = __truediv__

    def _path(self, name: str) -> str:
        return f"{self.prefix}.{name}" if self.prefix else name

    def names(self) -> list[str]:
        """The names below the prefix, without it."""
        start = self.prefix + "." if self.prefix else ""
        return [name[len(start) :] for name in self._names if name.startswith(start)]

    def __contains__(self, name: object) -> bool:
        return self._path(str(name)) in self._names

    def get(self, name: str, shape: tuple[int, ...] | None = None, dtype: Any = None) -> Tensor:
        """The tensor of that name and shape. ModelError names the path, both shapes, and similar names."""
        path = self._path(name)
        if path not in self._names:
            near = self.names()[:8]
            hint = f"There are {', '.join(near)}" if near else f"Nothing lies below {self.prefix or 'the top'!r}"
            raise ModelError(f"there is no tensor {path!r}", hint=hint)
        own = self._names[path]
        found: Tensor = self._source[own] if isinstance(self._source, Mapping) else self._source.read(own)
        if shape is not None and found.shape != tuple(shape):
            raise ModelError(f"tensor {path!r} has the shape {found.shape}, expected {tuple(shape)}")
        self._taken.add(path)
        return found if dtype is None else found.to(dtype)

    def load(self, module: Module, strict: bool = True) -> tuple[list[str], list[str]]:
        """Copies the tensors below the prefix into a module; returns (missing, unexpected) names, with the prefix. With
        `strict` either raises ModelError.
        """
        own = all_tensors(module)
        missing = [self._path(name) for name in own if name not in self]
        unexpected = [self._path(name) for name in self.names() if name not in own]
        if strict and (missing or unexpected):
            raise ModelError(f"missing tensors: {_listed(missing)}; unexpected: {_listed(unexpected)}")
        with no_grad():
            for name, target in own.items():
                if name in self:
                    target.copy_(self.get(name, target.shape).to(target.device))
        return missing, unexpected

    def left_over(self) -> list[str]:
        """Names below the prefix that were not read, with the prefix."""
        return [path for name in self.names() if (path := self._path(name)) not in self._taken]

    def finish(self) -> None:
        """ModelError if a tensor was not read."""
        rest = self.left_over()
        if rest:
            raise ModelError(f"unexpected tensors: {_listed(rest)}")

    def __repr__(self) -> str:
        return f"<Weights below {self.prefix or 'the top'!r}: {len(self.names())} tensors>"


def _listed(names: list[str]) -> str:
    shown = ", ".join(names[:12]) or "none"
    return shown if len(names) <= 12 else f"{shown} and {len(names) - 12} more"
