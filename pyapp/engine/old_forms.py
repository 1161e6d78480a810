"""Calls with the factors before the tensors, which torch still takes with a warning: x.add_(0.1, y) for
x.add_(y, alpha=0.1).
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Container, Iterable
from numbers import Number
from types import CodeType
from typing import Any

from .out_arguments import into_out
from .tensor import Tensor

_FACTOR = {"add": "alpha", "sub": "alpha", "addcmul": "value", "addcdiv": "value"}
_TENSORS = {"add": 1, "sub": 1, "addcmul": 2, "addcdiv": 2}
_PACKAGE = __name__.partition(".")[0]
_PRODUCTS = ("addmm", "addmv", "addr", "addbmm", "baddbmm")


def ask_others(
    function: Callable[..., Any], args: Iterable[Any], kwargs: dict[str, Any], asks: Container[CodeType]
) -> Any:
    """What arguments that are no tensors, but have `__torch_function__`, give for a call that failed, or what it gives
    with `out` beside it, which the function does not know; NotImplemented: there are none, or a function of the package
    made the call: the one that the user called asks them."""
    given = tuple(args)
    if "out" in kwargs and "'out'" in str(sys.exc_info()[1]):
        return into_out(function, given, kwargs)
    for value in (*given, *kwargs.values()):
        for each in value if isinstance(value, (list, tuple)) else (value,):
            if hasattr(type(each), "__torch_function__") and not isinstance(each, Tensor):
                if _is_inner(asks):
                    return NotImplemented
                return importlib.import_module(".subclasses", __package__).ask(function, given, kwargs)
    return NotImplemented


def _is_inner(asks: Container[CodeType]) -> bool:
    """Whether another public function made the call that failed: the user called that one."""
    frame = sys._getframe(4)  # of what called the function, whose handler called user_errors.tell, and that ask_others
    while frame.f_globals.get("__name__", "").partition(".")[0] == _PACKAGE:
        if frame.f_code in asks:
            return True
        if frame.f_back is None:
            break
        frame = frame.f_back
    return False


def old_form(name: str, args: Iterable[Any], kwargs: dict[str, Any]) -> tuple[str, Callable[[], Any]] | None:
    """A warning, and the call in the new form; None for all other calls."""
    base, given = name.rstrip("_"), list(args)
    if kwargs or base not in _FACTOR and base not in _PRODUCTS:
        return None
    if base in _PRODUCTS and isinstance(given[0], Number):  # the function's form: beta, x, alpha, two tensors
        given[:2] = given[1::-1]
    kinds = ["n" if isinstance(x, Number) else "t" if isinstance(x, Tensor) else "" for x in given]
    first = 1
    while first < len(kinds) and kinds[first] == "n":
        first += 1
    factors, tensors = given[1:first], given[first:]
    names = ["beta", "alpha"] if base in _PRODUCTS else [_FACTOR[base]]
    fits = kinds[0] == "t" and all(kind == "t" for kind in kinds[first:])
    if not fits or not 0 < len(factors) <= len(names) or len(tensors) != _TENSORS.get(base, 2):
        return None
    settings = dict(zip(names, factors, strict=False))
    shown = ", ".join(f"{key}={value}" for key, value in settings.items())
    warning = f"{name}: factors before the tensors are deprecated; give {shown} after them"
    return warning, lambda: getattr(given[0], name)(*tensors, **settings)
