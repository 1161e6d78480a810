"""Functions of tensors by torch's names for their first arguments, where their own source calls them otherwise."""

from __future__ import annotations

import functools
from types import FunctionType
from typing import Any

from .mistakes import MISTAKES, named, tell
from .op import Op, named_first
from .tensor import Tensor

_NAMES: dict[str, tuple[str, ...]] = {
    "addmm": ("input", "mat1", "mat2"),
    "baddbmm": ("input", "batch1", "batch2"),
    "bmm": ("input", "mat2"),
    "broadcast_to": ("input", "size"),
    "dot": ("input", "tensor"),
    "mm": ("input", "mat2"),
    "mv": ("input", "vec"),
    "outer": ("input", "vec2"),
    "solve": ("A", "B"),
    "solve_triangular": ("A", "B"),
    "reshape": ("input", "shape"),
    "split": ("tensor", "split_size_or_sections"),
}
_OWN = {"x", "a", "weights"}  # what the first argument is called here where torch says `input`


def by_torch_names(function: Any, name: str | None = None, also: str | None = None) -> Any:
    """A function whose errors bear its name, and that takes its first arguments by torch's names too, the first one by
    `also` as well; anything else as it is.
    """
    if also is not None:
        return _also(by_torch_names(function, name), also)
    if isinstance(function, Op) and name not in (None, function.name):
        return named(function, name)
    if type(function) is not FunctionType:
        return function
    name = name or function.__name__
    first = function.__code__.co_varnames[0] if function.__code__.co_argcount else ""
    if first not in _OWN and name not in _NAMES:
        return named(function, name)
    names = _NAMES.get(name, ("input", "other"))

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if kwargs and (args or first not in kwargs):
                args = named_first(name, names, args, kwargs)
            return function(*args, **kwargs)
        except MISTAKES as error:
            tell(error, name, args, kwargs)
            raise

    return call


def _also(function: Any, first: str) -> Any:
    """A function that takes its first argument by one more name."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not args and first in kwargs:
            args = (kwargs.pop(first),)
        return function(*args, **kwargs)

    return call


def over_shape(function: Any) -> Any:
    """layer_norm and rms_norm, which the engine has over the last dim, with torch's `normalized_shape` as well."""
    name: str = function.__name__
    body: Any = function.definition if isinstance(function, Op) else function

    @functools.wraps(body)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            given = args[1] if len(args) > 1 else kwargs.get("normalized_shape")
            if given is None or isinstance(given, Tensor):
                return function(*args, **kwargs)
            from .ops import normalization

            return getattr(normalization, name)(*named_first(name, ("input",), args, kwargs), **kwargs)
        except MISTAKES as error:
            tell(error, name, args, kwargs)
            raise

    return call


def rename_in(room: dict[str, Any], names: list[str], also: str | None = None) -> None:
    """Gives the functions of a module torch's names."""
    for name in names:
        room[name] = by_torch_names(room[name], name, also)


_ACCEPTED = frozenset(("layout", "memory_format", "pin_memory"))


def as_factory(function: Any) -> Any:
    """A function that makes tensors, with torch's settings about memory: accepted, and without effect, as every tensor
    is made dense and row by row.
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if kwargs:
            for name in _ACCEPTED & kwargs.keys():
                del kwargs[name]
        return function(*args, **kwargs)

    return call
