"""torch's and NumPy's names for the arguments of public functions, converted in one wrapper.

The first argument, called x in the engine, is torch's `input`; `axis` and `keepdims` are `dim` and `keepdim`.
"""

from __future__ import annotations

import functools
from types import FunctionType
from typing import Any

from .device import cpu, get_default_device
from .dtype import as_dtype
from .memory_format import layout, preserve_format, strided
from .op import _NUMPY_NAMES, ASK, Op, named_first
from .out_arguments import into_out
from .shape import dense_layout, kept_strides
from .tensor import Tensor, make
from .user_errors import ASKS, MISTAKES, named, tell, unnamed

FIRST = {"x", "a", "weights"}  # the engine's names of the argument that torch calls `input`


def by_torch_names(function: Any, name: str, arguments: tuple[str, ...] = (), also: str | None = None) -> Any:
    """Wraps a function: its errors have `name`, and it accepts torch's names for its first arguments (`arguments`, or
    `input` and `other`), `also` for the first one, and `axis` for `dim`. Other objects are returned unchanged.
    """
    if isinstance(function, Op):
        if also is None:
            return function.call if name == function.name else named(function.call, name)
        function = function.call
    if type(function) is not FunctionType:
        return function
    function = unnamed(function)
    code = function.__code__
    first = code.co_varnames[0] if code.co_argcount else ""
    known = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    usual = tuple((theirs, ours) for theirs, ours in _NUMPY_NAMES if ours in known)
    names = arguments or (("input", "other") if first in FIRST else ())
    asks = name not in _UNASKED

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if ASK and asks and (result := ASK[0](call, args, kwargs)) is not NotImplemented:
                return result
            if kwargs:
                if "out" in kwargs:
                    return into_out(call, args, kwargs)
                if not args and also in kwargs:
                    args = (kwargs.pop(also),)
                for theirs, ours in usual:
                    if theirs in kwargs:
                        kwargs[ours] = kwargs.pop(theirs)
                if names and (args or first not in kwargs):
                    args = named_first(name, names, args, kwargs)
            return function(*args, **kwargs)
        except MISTAKES as error:
            if (found := tell(error, name, args, kwargs, call)) is None:
                raise
            return found

    call.__name__ = name
    ASKS.add(call.__code__)  # type: ignore[attr-defined]
    call.asks_classes = True  # type: ignore[attr-defined]
    return call


_UNASKED = frozenset(("is_tensor",))  # functions that tell tensors from what acts as one
_OF_ZEROS = ("zeros", "zeros_like", "empty", "empty_like")  # which may be sparse
MEMORY_SETTINGS = frozenset(("layout", "memory_format", "pin_memory"))


def as_factory(function: Any) -> Any:
    """Wraps a function that creates tensors so that it accepts torch's settings of memory, of which `memory_format`
    alone has an effect. Adds `device` and `requires_grad` if the function does not have them.
    """
    body = function
    while hasattr(body, "__wrapped__"):
        body = body.__wrapped__
    code = getattr(body, "__code__", None)
    known = () if code is None else code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
    takes_dtype = "dtype" in known
    lacks = [name for name in ("device", "requires_grad") if name not in known]

    def placed(made: Any, args: tuple[Any, ...]) -> Any:
        """Where new tensors are, if the function does not know and does not follow a tensor."""
        place = get_default_device()
        if place is cpu or "device" not in lacks or any(isinstance(x, Tensor) for x in args):
            return made
        return made.to(device=place)

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not kwargs:
            return placed(function(*args), args)
        if "out" in kwargs:
            out, given = kwargs["out"], kwargs.get("dtype")
            more = {"dtype": out.dtype} if takes_dtype and isinstance(out, Tensor) else {}
            if more and given is not None and as_dtype(given) is not out.dtype:
                raise RuntimeError(f"{call.__name__}: dtype is {as_dtype(given)} and that of out {out.dtype}")
            learns = kwargs.pop("requires_grad", False)
            made = into_out(call, args, {**more, **kwargs})
            return made.requires_grad_() if learns else made
        order, kept = kwargs.get("memory_format"), kwargs.get("layout", strided)
        if kept is not strided and kept is not None:
            if call.__name__ not in _OF_ZEROS or not isinstance(kept, layout):
                raise RuntimeError(f"{call.__name__}: makes strided tensors, not {kept!r:.40}; use to_sparse() of it")
            return call(*args, **{**kwargs, "layout": strided}).to_sparse(layout=kept)
        for name in MEMORY_SETTINGS & kwargs.keys():
            del kwargs[name]
        if order is not None:
            learns = kwargs.pop("requires_grad", False)
            made = call(*args, **kwargs)
            made = made.to(memory_format=order)
            return made.requires_grad_() if learns else made
        more = {name: kwargs.pop(name) for name in lacks if name in kwargs}
        made = function(*args, **kwargs)
        made = made.to(device=more["device"]) if more.get("device") is not None else placed(made, args)
        return made.requires_grad_() if more.get("requires_grad") else made

    vars(call).pop("asks_classes", None)  # the function within does, which knows fewer settings
    return _in_order(call, function) if function.__name__.endswith("_like") else call


def _in_order(call: Any, plain: Any) -> Any:
    """Wraps a function that makes a tensor like its first argument: the dims have the order in memory that those of the
    argument have, unless `memory_format` says another one. `plain`: the same for no arguments by name."""

    @functools.wraps(call)
    def like(*args: Any, **kwargs: Any) -> Any:
        x = args[0] if args else kwargs.get("input")
        if not isinstance(x, Tensor) or not x.dense:
            return call(*args, **kwargs)
        if x.strides == dense_layout(x._shape)[1]:
            return call(*args, **kwargs) if kwargs else plain(*args)  # which is where x is
        kept = kept_strides(x._shape, x.strides) if kwargs.get("memory_format") in (None, preserve_format) else None
        made = call(*args, **kwargs)
        if kept is None or type(made) is not Tensor or made.dtype.is_quantized:
            return made
        turned = make(made._storage, made._shape, kept, made.dtype, made.offset)  # its values have no places yet
        return turned.requires_grad_() if made._requires_grad else turned

    return like
