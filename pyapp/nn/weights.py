"""Weights: tensors by path, read from files or created, with their shapes checked, and a list of missing and unused
ones.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..engine import Tensor, no_grad
from ..engine.device import Device, as_device
from ..engine.dtype import DType, as_dtype
from ..engine.ops import empty
from ..errors import ModelError
from ..formats.opening import open_checkpoint
from .module import Module
from .parameter import Parameter
from .state import Renames, all_tensors, renamed

__all__ = ["Weights"]

# The names of a norm's weight and bias in older files.
NORM_RENAMES = {"gamma": "weight", "beta": "bias"}

Init = Callable[[Tensor], Any] | float


class Weights:
    """A view of tensors below a prefix: `(weights / "layers" / 0).get("weight", (8, 4))` reads "layers.0.weight".

    source: a mapping of tensors, a path, a checkpoint with `tensors` and `read(name)` (formats.open_checkpoint), a list
    of these, or nothing, for a model whose parameters are all created. renames: parts of the source's names and their
    names here, {"gamma": "weight"}, or a function of a name. dtype, device: of what `get` returns; None: as in the
    source. All views share the record of the tensors that were read, and the parameters.

    >>> weights = nn.Weights(["a.safetensors", "b.safetensors"], dtype="float32")
    >>> w = (weights / "head").get("weight", (10, 64), init=nn.init.xavier_uniform_)  # read, or created

    With an `init`, `get` returns a Parameter, the same one each time: `parameters()` has them for an optimiser,
    `state_dict()` by path, `created()` the paths that the source lacks. TypeError for other sources, ModelError for two
    tensors with one name.
    """

    def __init__(
        self, source: Any = None, prefix: str = "", renames: Renames | None = None, *, dtype: Any = None,
        device: Any = None,
    ) -> None:  # fmt: skip
        self.prefix = prefix
        self.dtype: DType | None = None if dtype is None else as_dtype(dtype)
        self.device: Device | None = None if device is None else as_device(device)
        self._names: dict[str, tuple[Any, str]] = {}  # the name here → the source and the name there
        self._taken: set[str] = set()
        self._parameters: dict[str, Tensor] = {}
        self._created: list[str] = []
        given = list(source) if isinstance(source, (list, tuple)) else [] if source is None else [source]
        for part in map(_opened, given):
            names: Iterable[str] = part if isinstance(part, Mapping) else part.tensors
            for name in names:
                known = renamed(name, renames or {})
                if known in self._names:
                    other, own = self._names[known]
                    twice = f"{_called(other, own)} and {_called(part, name)} are both {known!r}"
                    raise ModelError(f"{twice} after renaming" if renames else twice)
                self._names[known] = part, name

    def __truediv__(self, part: str | int) -> Weights:
        """The view below a part of the path."""
        below = object.__new__(Weights)
        below.__dict__.update(self.__dict__)
        below.prefix = self._path(str(part))
        return below

    at = __truediv__

    def to(self, dtype: Any = None, device: Any = None) -> Weights:
        """The same view with another dtype or device of what it returns."""
        other = object.__new__(Weights)
        other.__dict__.update(self.__dict__)
        other.dtype = self.dtype if dtype is None else as_dtype(dtype)
        other.device = self.device if device is None else as_device(device)
        return other

    def _path(self, name: str) -> str:
        return f"{self.prefix}.{name}" if self.prefix else name

    def _below(self, paths: Iterable[str]) -> list[str]:
        """The paths below the prefix, without it."""
        start = self.prefix + "." if self.prefix else ""
        return [path[len(start) :] for path in paths if path.startswith(start)]

    def names(self) -> list[str]:
        """The names of the source's tensors below the prefix, without it."""
        return self._below(self._names)

    def __contains__(self, name: object) -> bool:
        return self._path(str(name)) in self._names

    def get(
        self, name: str, shape: tuple[int, ...] | None = None, init: Init | None = None, *, dtype: Any = None,
        device: Any = None,
    ) -> Tensor:  # fmt: skip
        """The tensor of that name and shape. With `init` (a function that fills a tensor, such as
        `nn.init.xavier_uniform_`, or a number) a Parameter, which is created if the source lacks it.

        ModelError names the path, both shapes, and similar names.
        """
        if init is not None and not callable(init) and not isinstance(init, (int, float)):
            raise TypeError(f"Weights.get: init is a function that fills a tensor, or a number, not {init!r:.50}")
        path = self._path(name)
        found = self._parameters.get(path)
        if found is None and init is not None and path not in self._names:
            found = self._create(path, shape, init, dtype, device)
        read = self._read(path) if found is None else found
        if shape is not None and read.shape != tuple(shape):
            raise ModelError(f"tensor {path!r} has the shape {tuple(read.shape)}, expected {tuple(shape)}")
        if found is not None:
            return found
        self._taken.add(path)
        kind = self.dtype if dtype is None else as_dtype(dtype)
        place = self.device if device is None else as_device(device)
        read = read.to(kind) if kind is not None else read
        read = read.to(place) if place is not None else read
        if init is None:
            return read
        trainable = read.dtype.is_floating_point
        made: Tensor = Parameter(read.detach().clone(), requires_grad=trainable)
        self._parameters[path] = made
        return made

    def _read(self, path: str) -> Tensor:
        if path not in self._names:
            near = self.names()[:8]
            hint = f"There are {', '.join(near)}" if near else f"Nothing lies below {self.prefix or 'the top'!r}"
            raise ModelError(f"there is no tensor {path!r}", hint=hint)
        source, own = self._names[path]
        return source[own] if isinstance(source, Mapping) else source.read(own)

    def _create(self, path: str, shape: tuple[int, ...] | None, init: Init, dtype: Any, device: Any) -> Tensor:
        if shape is None:
            raise ModelError(f"tensor {path!r} is not in the source, and without a shape it cannot be created")
        values = empty(*shape, dtype=self.dtype if dtype is None else dtype)
        with no_grad():
            if callable(init):
                init(values)
            else:
                values.fill_(init)
        place = self.device if device is None else as_device(device)
        made: Tensor = Parameter(values if place is None else values.to(place))
        self._parameters[path] = made
        self._created.append(path)
        return made

    def parameters(self) -> list[Tensor]:
        """The parameters below the prefix that `get` made, in the order of their creation."""
        start = self.prefix + "." if self.prefix else ""
        return [parameter for path, parameter in self._parameters.items() if path.startswith(start)]

    def state_dict(self) -> dict[str, Tensor]:
        """These parameters by path, without the prefix: what `pyapp.save` and `write_safetensors` write, and a later
        `Weights` reads.
        """
        return {name: self._parameters[self._path(name)].detach() for name in self._below(self._parameters)}

    def created(self) -> list[str]:
        """The paths below the prefix of parameters that the source lacks."""
        return [self._path(name) for name in self._below(self._created)]

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


def _opened(source: Any) -> Any:
    """A mapping or an open checkpoint. TypeError."""
    if isinstance(source, (str, os.PathLike)):
        return open_checkpoint(source)
    if isinstance(source, Mapping) or hasattr(source, "tensors"):
        return source
    raise TypeError(f"Weights: takes a mapping of tensors, a path or an open checkpoint, not {type(source).__name__}")


def _called(source: Any, name: str) -> str:
    """A tensor's name and, if it has one, its file's."""
    file = getattr(getattr(source, "source", None), "name", None)
    return f"{name!r} of {file}" if file else repr(name)
