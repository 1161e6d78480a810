"""Errors name the public function that the user called and its arguments, wherever they were raised. The handlers cost
nothing until an error is raised.
"""

from __future__ import annotations

import functools
import re
import reprlib
import sys
import warnings
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import Any

from ..errors import (
    ArgumentError,
    ArgumentIndexError,
    ArgumentTypeError,
    OperationError,
    OperationNotImplementedError,
)
from .device import Device
from .dtype import DType
from .native import INDEX_OUT_OF_RANGE
from .out_arguments import into_out
from .tensor import Tensor

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
# What NumPy says of arrays that no memory holds.
_TOO_LARGE = re.compile(r"^(?:array is too big|Maximum allowed (?:dimension|size)|Unable to allocate)")
# "softmax: ", of an operation inside; "softmax() ", of Python where arguments do not fit; a function inside of another.
_PREFIX = re.compile(r"^(?:[A-Za-z_][\w.]*(?:\(\))?: |(?:[\w.]|<\w+>)+\(\) )")
_NO_TENSOR = re.compile(r"^'(\w+)' object has no attribute '\w+'$")
# What Python and NumPy say of arguments that are of another kind, in the words of this package.
_PLAIN = (
    (r"^'(\w+)' object is not iterable$", r"takes a list or tuple where it got \1"),
    (r"^'(\w+)' object is not subscriptable$", r"takes a list or tuple where it got \1"),
    (r"^'(\w+)' object cannot be interpreted as an integer$", r"takes a whole number where it got \1"),
    (r"^invalid literal for int\(\) with base 10: (.*)$", r"takes a whole number where it got \1"),
    (r"^(?:argument )?must be .*real number, not '?(\w+)'?$", r"takes a number where it got \1"),
    (r"^could not convert string to float: (.*)$", r"takes a number where it got \1"),
    (r"^'\W+' not supported between instances of '(\w+)' and '(\w+)'$", r"cannot compare \1 with \2"),
    (r"^unsupported operand type\(s\) for .+: '(\w+)' and '(\w+)'$", r"cannot combine \1 with \2"),
    (r"^unhashable type: '(\w+)'$", r"does not take a \1 there"),
    (r"^(?:tuple|list) index out of range$", "there is no such dim, or too few dims or values"),
    (r"^(?:not enough|too many) values to unpack.*$", "there are too few or too many dims or values"),
    (r"^Python int too large to convert to C \w+$", "a number does not fit into 64 bits"),
    (r"^Python integer (-?\d+) out of bounds for (\w+)$", r"\1 does not fit into \2"),
    (r"^(?:float |integer )?(?:division|modulo|division or modulo) by zero$", "divides by zero"),
    (r"^The truth value of an (?:empty )?array .*$", "takes one number where it got several, or none"),
    (r"^shape mismatch: value array of shape (\(.*\)) could not be broadcast to indexing result of shape (\(.*?\))",
     r"values of shape \1 do not fit places of shape \2"),
    (r"^ufunc '\w+' (?:not supported|did not contain) .*$|^The DType .* could not be promoted .*$",
     "does not exist for these dtypes"),
    (r"^axis -?\d+ is out of bounds for array of dimension (\d+)$", r"there is no such dim: there are \1"),
    (r"^cannot reshape array of size (\d+) into shape (.*)$", r"\1 elements do not fit the shape \2"),
    (r"^array is not broadcastable to correct shape$", "the shapes do not fit together"),
    (r"^object of too small depth for desired array$", "takes tensors with at least one dim"),
)  # fmt: skip
_PACKAGE = __name__.split(".")[0] + "."
_LONGEST_CALL = 400


class NotDense(OperationNotImplementedError):
    """Raised by a tensor that is not dense when its memory is read: operations need not ask first. `run` gives the
    result of an operation for such tensors, or NotImplemented.
    """

    run: Callable[[str, Iterable[Any], dict[str, Any]], Any]


def tell(error: Exception, name: str, args: Iterable[Any], kwargs: dict[str, Any]) -> Any:
    """Sets the error's function name and call. The outermost function, which the user called, is the last to do so.
    Call it in `except MISTAKES as error:`, before `raise`: unless it gives the result, for tensors that are not dense.
    """
    if isinstance(error, NotDense) and (found := error.run(name, args, kwargs)) is not NotImplemented:
        return found
    name = name.lstrip("_")
    call = describe_call(name, args, kwargs, INDEX_OUT_OF_RANGE in str(error))
    if isinstance(error, OperationError):
        if error.call is None:
            error.what = _PREFIX.sub("", error.what, count=1)
        error.where, error.call = name, call
        error.args = (error.message,)
        return None
    if isinstance(error, (MemoryError, ValueError)) and _TOO_LARGE.match(str(error)):
        raise MemoryError(f"{name}: there is no memory for the result, or for a step on the way; in {call}") from None
    kind = _KINDS.get(type(error))
    if kind is None and type(error).__module__.startswith("numpy"):
        kind = next((_KINDS[base] for base in (IndexError, ValueError, TypeError) if isinstance(error, base)), None)
    if kind is None:
        return None
    raised = kind(_what(error), where=name, call=call).with_traceback(error.__traceback__)
    raise raised from error.__cause__


def raised_inside(error: Exception) -> bool:
    """Whether the package raised an error, and not yet as one of its own kinds: not the user's code that it called."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    inside = trace is not None and trace.tb_frame.f_globals.get("__name__", "").startswith(_PACKAGE)
    return inside and not isinstance(error, OperationError)


def _what(error: Exception) -> str:
    if isinstance(error, KeyError):
        return f"there is no {error}"
    stranger = _NO_TENSOR.match(str(error))
    if stranger and stranger[1] != "Tensor":
        return f"takes a tensor where it got a {stranger[1]}"
    text = _PREFIX.sub("", str(error), count=1)
    for told, plain in _PLAIN:
        text = re.sub(told, plain, text)
    return text or type(error).__name__


def describe_call(name: str, args: Iterable[Any], kwargs: dict[str, Any], ranges: bool = False) -> str:
    """The call as source text, with tensors as their dtype, shape and device; with `ranges` the least and the greatest
    number too of those that may be indices."""

    def told(value: Any) -> str:
        text = _brief(value)
        if not ranges or not isinstance(value, Tensor) or not value.numel() or value.device.type != "cpu":
            return text
        return text if value.dtype.category != 1 else f"{text} from {value.min().item()} to {value.max().item()}"

    given = [told(value) for value in args] + [f"{key}={told(value)}" for key, value in kwargs.items()]
    text = ", ".join(given)
    return f"{name}({text if len(text) <= _LONGEST_CALL else text[:_LONGEST_CALL] + ' ...'})"


def describe(value: object) -> str:
    """An argument in an error message: a tensor's dtype, shape and device, anything else itself."""
    if isinstance(value, Tensor):
        kind = "" if value.dense else "sparse "
        return f"{kind}{value.dtype.name}{list(value.shape)} on {value.device}"
    try:
        return repr(value)
    except RecursionError:  # lists in lists
        return reprlib.repr(value)


def _brief(value: Any, depth: int = 0) -> str:
    if isinstance(value, Tensor):
        return describe(value)
    if isinstance(value, (list, tuple)) and depth < 3:
        shown = [_brief(part, depth + 1) for part in value[:6]] + ["..."] * (len(value) > 6)
        return ("[{}]" if isinstance(value, list) else "({})" if len(value) != 1 else "({},)").format(", ".join(shown))
    if isinstance(value, (str, int, float, bool, type(None), slice)) or depth >= 3:
        text = (
            (reprlib.repr(value) if isinstance(value, (list, tuple)) else repr(value))[:80]
            if not isinstance(value, str)
            else repr(value[:60])
        )
        return text
    if isinstance(value, (DType, Device)):
        return str(value)
    if hasattr(value, "shape") and hasattr(value, "dtype"):
        return f"{type(value).__name__} {value.dtype}{list(value.shape)}"
    return getattr(value, "__name__", None) or f"<{type(value).__name__}>"


def named(function: Any, name: str | None = None) -> Any:
    """Wraps a function so that its errors have `name`."""
    name = name or function.__name__

    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return into_out(function, args, kwargs) if "out" in kwargs else function(*args, **kwargs)
        except MISTAKES as error:
            if (found := tell(error, name, args, kwargs)) is None:
                raise
            return found

    functools.update_wrapper(call, function)
    call.__name__ = name
    return call


_NAMED = named(len).__code__


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
