"""Numbers and conditions of programs that torch may trace: here every size is an int, and every condition is known."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from .engine.ops import tensor
from .engine.tensor import Tensor


class _Symbol:
    def __init__(self, *_: Any) -> None:
        raise NotImplementedError(f"{type(self).__name__}: pyapp has no symbolic numbers; sizes are Python's")


class SymInt(_Symbol):
    """torch's symbolic integers, for isinstance(): there are none here."""


class SymFloat(_Symbol):
    """torch's symbolic floats, for isinstance(): there are none here."""


class SymBool(_Symbol):
    """torch's symbolic truth values, for isinstance(): there are none here."""


sym_int, sym_float, sym_max, sym_min = math.trunc, float, max, min


def sym_not(a: Any) -> bool:
    """not a."""
    return not a


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """t if b, else f."""
    return t if b else f


def _assert(condition: Any, message: Any = "") -> None:
    """AssertionError with the message unless the condition (a bool, or a tensor of one element) holds."""
    if not condition:
        raise AssertionError(message)


def _assert_async(x: Tensor, message: str = "") -> None:
    """RuntimeError if the tensor's element is zero."""
    if not x:
        raise RuntimeError(message or "_assert_async: the element is zero")


def _check(cond: Any, message: Callable[[], str] | None = None) -> None:
    """RuntimeError, with the text that `message` gives, unless the condition holds."""
    _check_with(RuntimeError, cond, message)


def _check_with(kind: type[Exception], cond: Any, message: Callable[[], str] | None = None) -> None:
    """The same with another kind of error."""
    if not isinstance(cond, bool):
        raise TypeError(f"_check: the condition is a bool, not {type(cond).__name__}")
    if not cond:
        raise kind(str(message()) if callable(message) else "a condition that _check was given does not hold")


def _check_index(cond: Any, message: Callable[[], str] | None = None) -> None:
    """The same with IndexError."""
    _check_with(IndexError, cond, message)


def _check_value(cond: Any, message: Callable[[], str] | None = None) -> None:
    """The same with ValueError."""
    _check_with(ValueError, cond, message)


def _check_type(cond: Any, message: Callable[[], str] | None = None) -> None:
    """The same with TypeError."""
    _check_with(TypeError, cond, message)


def _check_is_size(i: int, message: Callable[[], str] | None = None, *, max: int | None = None) -> None:
    """RuntimeError unless the number is a size, at most `max`."""
    _check(i >= 0 and (max is None or i <= max), message)


def _shape_as_tensor(input: Tensor) -> Tensor:
    """The sizes as an int64 tensor."""
    return tensor(list(input.shape), dtype="int64")


__top_level__ = [
    "SymBool", "SymFloat", "SymInt", "_assert", "_assert_async", "_check", "_check_index", "_check_is_size",
    "_check_type", "_check_value", "_check_with", "_shape_as_tensor", "sym_float", "sym_int", "sym_ite", "sym_max",
    "sym_min", "sym_not",
]  # fmt: skip
