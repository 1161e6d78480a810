"""Errors name the public function that the user called and its arguments, wherever they were raised. The handlers cost
nothing until an error is raised.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Iterable
from types import CodeType, FunctionType
from typing import Any

from ..errors import (
    ArgumentError,
    ArgumentIndexError,
    ArgumentTypeError,
    OperationError,
    OperationNotImplementedError,
)
from .native import INDEX_OUT_OF_RANGE
from .out_arguments import into_out

# Conversions of built-in errors. Others pass unchanged: errors of files, of the user's Python code. Of MemoryErrors,
# only NumPy's text is replaced.
_KINDS: dict[type[Exception], type[OperationError]] = {
    ValueError: ArgumentError,
    OverflowError: ArgumentError,
    ZeroDivisionError: ArgumentError,
    KeyError: ArgumentError,
    TypeError: ArgumentTypeError,
    AttributeError: ArgumentTypeError,  # an argument is not a tensor
    IndexError: ArgumentIndexError,
    RuntimeError: OperationError,
    NotImplementedError: OperationNotImplementedError,
}
MISTAKES: tuple[type[Exception], ...] = (*_KINDS, OperationError, MemoryError)
_PACKAGE = __name__.split(".")[0] + "."
ASKS: set[CodeType] = set()  # of functions whose handlers give themselves to `tell`


class NotDense(OperationNotImplementedError):
    """Raised by a tensor that is not dense when its memory is read: operations need not ask first. `run` gives the
    result of an operation for such tensors, or NotImplemented.
    """

    run: Callable[[str, Iterable[Any], dict[str, Any]], Any]


def tell(
    error: Exception, name: str, args: Iterable[Any], kwargs: dict[str, Any], function: Callable[..., Any] | None = None
) -> Any:
    """Sets the error's function name and call. The outermost function, which the user called, is the last to do so.
    Call it in `except MISTAKES as error:`, before `raise`: unless it gives the result, for tensors that are not dense
    and for old forms of calls; and of a `function` that got other objects with `__torch_function__`.
    """
    if isinstance(error, NotDense) and (found := error.run(name, args, kwargs)) is not NotImplemented:
        return found
    from .old_forms import ask_others, old_form  # late, as below

    if function is not None and (found := ask_others(function, args, kwargs, ASKS)) is not NotImplemented:
        return found
    if isinstance(error, (TypeError, AttributeError)) and (form := old_form(name, args, kwargs)) is not None:
        warn(form[0])
        return form[1]()
    from .error_words import PREFIX, TOO_LARGE, described_call, plain  # late: most visits of the page have no error

    name = name.lstrip("_")
    call = described_call(name, args, kwargs, INDEX_OUT_OF_RANGE in str(error))
    if isinstance(error, OperationError):
        if error.call is None:
            error.what = PREFIX.sub("", error.what, count=1)
        error.where, error.call = name, call
        error.args = (error.message,)
        return None
    if isinstance(error, (MemoryError, ValueError)) and TOO_LARGE.match(str(error)):
        raise MemoryError(f"{name}: there is no memory for the result, or for a step on the way; in {call}") from None
    kind = _KINDS.get(type(error))
    if kind is None and type(error).__module__.startswith("numpy"):
        kind = next((_KINDS[base] for base in (IndexError, ValueError, TypeError) if isinstance(error, base)), None)
    if kind is None:
        return None
    raised = kind(plain(error), where=name, call=call).with_traceback(error.__traceback__)
    raise raised from error.__cause__


def raised_inside(error: Exception) -> bool:
    """Whether the package raised an error, and not yet as one of its own kinds: not the user's code that it called."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    inside = trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(_PACKAGE)
    return inside and not isinstance(error, OperationError)


def describe(value: object) -> str:
    """An argument in an error message: a tensor's dtype, shape and device, anything else itself."""
    from .error_words import described  # late, as above

    return described(value)


def named(function: Any, name: str | None = None) -> Any:
    """Wraps a function so that its errors have `name`."""
    name = name or function.__name__

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return into_out(function, args, kwargs) if "out" in kwargs else function(*args, **kwargs)
        except MISTAKES as error:
            if (found := tell(error, name, args, kwargs, call)) is None:
                raise
            return found

    functools.update_wrapper(call, function)
    call.__name__ = name
    return call


_NAMED = named(len).__code__
ASKS.add(_NAMED)


def unnamed(function: Any) -> Any:
    """Undo `named`, for wrappers that add the name themselves."""
    while getattr(function, "__code__", None) is _NAMED:
        function = function.__wrapped__
    return function


def names_itself(function: Callable[..., Any]) -> Callable[..., Any]:
    """Marks a function that adds the name to its errors itself, because it is called so often that a wrapper costs
    time.
    """
    function.names_itself = True  # type: ignore[attr-defined]
    return function


def name_methods(owner: type, names: Iterable[str]) -> None:
    """Wraps the plain functions among a class's methods so that their errors have the methods' names."""
    for name in names:
        method = vars(owner)[name]
        if type(method) is not FunctionType or name == "__getattr__":
            continue
        public_name = method.__name__ if name.startswith("__") and method.__name__.isidentifier() else name
        public_name = public_name.strip("_") if public_name.startswith("__") else public_name
        if public_name != method.__name__ or not hasattr(method, "names_itself"):
            setattr(owner, name, names_itself(named(method, public_name)))


def warn(text: str) -> None:
    """Warns at the line of the user's code that called the package."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    warnings.warn(text, stacklevel=level)
