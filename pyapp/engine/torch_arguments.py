"""torch's and NumPy's names for the arguments of public functions: taken at the border, in one wrapper.

A function's first argument, called x here, is torch's `input`; `axis` and `keepdims` stand for `dim` and `keepdim`.
"""

from __future__ import annotations

import functools
from types import FunctionType
from typing import Any

from .op import _NUMPY_NAMES, Op, named_first
from .user_errors import MISTAKES, named, tell, unnamed

_OWN = {"x", "a", "weights"}  # what the first argument is called here where torch says `input`


def by_torch_names(function: Any, name: str, arguments: tuple[str, ...] = (), also: str | None = None) -> Any:
    """A function whose errors bear `name`, and that takes its first arguments by torch's names too (`arguments`, or
    `input` and `other`), the first one by `also` as well, and `axis` for `dim`; anything else as it is.
    """
    if also is not None:
        return _also(by_torch_names(function, name, arguments), also)
    if isinstance(function, Op):
        return function.call if name == function.name else named(function.call, name)
    if type(function) is not FunctionType:
        return function
    function = unnamed(function)
    code = function.__code__
    first = code.co_varnames[0] if code.co_argcount else ""
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    usual = tuple((theirs, ours) for theirs, ours in _NUMPY_NAMES if ours in known)
    names = arguments or (("input", "other") if first in _OWN else ())
    if not usual and not names:
        return named(function, name)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if kwargs:
                for theirs, ours in usual:
                    if theirs in kwargs:
                        kwargs[ours] = kwargs.pop(theirs)
                if args or first not in kwargs:
                    args = named_first(name, names, args, kwargs)
            return function(*args, **kwargs)
        except MISTAKES as error:
            tell(error, name, args, kwargs)
            raise

    call.__name__ = name
    return call


def _also(function: Any, first: str) -> Any:
    """A function that takes its first argument by one more name."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not args and first in kwargs:
            args = (kwargs.pop(first),)
        return function(*args, **kwargs)

    return call


_ACCEPTED = frozenset(("layout", "memory_format", "pin_memory"))


def as_factory(function: Any) -> Any:
    """A function that makes tensors, with torch's settings about memory: accepted, and without effect, as every tensor
    is made dense and row by row. Where it does not know `device` and `requires_grad` itself, with those, too.
    """
    body = function
    while hasattr(body, "__wrapped__"):
        body = body.__wrapped__
    code = getattr(body, "__code__", None)
    known = () if code is None else code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    lacks = [name for name in ("device", "requires_grad") if name not in known]

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            return function(*args)
        for name in _ACCEPTED & kwargs.keys():
            del kwargs[name]
        more = {name: kwargs.pop(name) for name in lacks if name in kwargs}
        made = function(*args, **kwargs)
        if more.get("device") is not None:
            made = made.to(device=more["device"])
        return made.requires_grad_() if more.get("requires_grad") else made

    return call
