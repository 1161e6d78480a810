"""Functions of tensors by torch's names for their first arguments, where their own source calls them otherwise."""

from __future__ import annotations

import functools
import importlib
from types import FunctionType
from typing import Any

from .mistakes import MISTAKES, named, names_itself, tell, unnamed
from .op import _NUMPY_NAMES, Op, named_first
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


def rename_methods() -> None:
    """torch's names for the arguments of Tensor's methods; ops see to theirs themselves."""
    for name in {*_ALONG_DIM, *_NAMES}:
        method = Tensor.__dict__.get(name)
        if type(method) is FunctionType:
            setattr(Tensor, name, names_itself(by_torch_names(method, name)))


_ALONG_DIM = """
    all any amax amin argmax argmin argsort chunk cummax cummin cumprod cumsum gather index_select kthvalue log_softmax
    logsumexp max mean median min narrow norm prod quantile softmax sort split squeeze std sum topk unbind unsqueeze var
""".split()


def by_torch_names(function: Any, name: str | None = None, also: str | None = None) -> Any:
    """A function whose errors bear its name, and that takes its first arguments by torch's names too, the first one by
    `also` as well, and `axis` for `dim`; anything else as it is.
    """
    if also is not None:
        return _also(by_torch_names(function, name), also)
    if isinstance(function, Op) and name not in (None, function.name):
        return named(function, name)
    if type(function) is not FunctionType:
        return function
    own = function.__name__
    name = name or own
    function = unnamed(function)
    first = function.__code__.co_varnames[0] if function.__code__.co_argcount else ""
    usual = _NUMPY_NAMES if name in _ALONG_DIM or own in ("cat", "stack") else ()
    names = _NAMES.get(name) or _NAMES.get(own) or (("input", "other") if first in _OWN else ())
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


def method_as_function(name: str) -> Any:
    """A method of Tensor by its name; None where there is none."""
    from . import ops

    module = ops.module_of_method(name)
    if module is not None:
        importlib.import_module(f".ops.{module}", __package__)
    return getattr(Tensor, name, None)


def rename_in(room: dict[str, Any], names: list[str], also: str | None = None) -> None:
    """Gives the functions of a module torch's names."""
    for name in names:
        room[name] = by_torch_names(room[name], name, also)


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
