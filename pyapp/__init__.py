"""pyapp: machine learning in Python, in a browser tab and natively.

>>> import pyapp
>>> x = pyapp.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
>>> (x @ x).sum().backward()
>>> x.grad
tensor([[ 7., 11.],
        [ 9., 13.]])
"""

import sys

if sys.platform != "emscripten":  # first of all: until then Ctrl-C shows a traceback
    from . import interrupts as _interrupts

    if _interrupts.is_command():
        _interrupts.end_quietly()

import importlib
import os
from typing import TYPE_CHECKING, Any

from ._index import TOP_LEVEL as _TOP_LEVEL
from .engine import *  # noqa: F403
from .engine import bool_ as bool  # noqa: F401
from .engine import ops as _ops
from .engine.ops._index import FUNCTION_MODULES as _FUNCTIONS
from .engine.ops._index import METHOD_MODULES as _METHODS
from .engine.tensor import Tensor as _Tensor

if TYPE_CHECKING:
    from .engine.ops._index import *  # noqa: F403

__version__ = "0.1.0"
_ELSEWHERE = {name: module for module, names in _TOP_LEVEL.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    """Functions of other modules, and the modules themselves, imported on first use."""
    if name in _FUNCTIONS:
        found = globals()[name] = _ops.declared(name).public
        return found
    if name in _ELSEWHERE:
        found = globals()[name] = getattr(importlib.import_module(f".{_ELSEWHERE[name]}", __name__), name)
        return found
    if name in _METHODS and name[-1] == "_" != name[0]:  # torch has these methods as functions too
        return getattr(_Tensor, name, None) or _method(name)
    if name.startswith("_foreach_"):
        found = importlib.import_module(".foreach", __name__).function_of(name)
        if found is not None:
            return found
    if name[:1] != "_" or name in ("_C", "__config__", "_dynamo", "_inductor", "_utils"):
        try:
            return importlib.import_module(f".{name}", __name__)
        except ModuleNotFoundError as error:
            if error.name != f"{__name__}.{name}":
                raise  # the module is there, but one that it imports is not
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=_NearNames(name))


class _NearNames:
    """The names among which Python looks for the one that was meant: it looks at 750 at most."""

    def __init__(self, name: str) -> None:
        self._size = len(name)

    def __dir__(self) -> list[str]:
        return [name for name in __dir__() if -2 <= len(name) - self._size <= 2]  # abs may be a tensor's here


def _method(name: str) -> Any:
    importlib.import_module(f".engine.ops.{_METHODS[name]}", __name__)
    return getattr(_Tensor, name)


def __dir__() -> list[str]:
    files = {entry.partition(".")[0] for folder in __path__ for entry in os.listdir(folder)}  # noqa: F405
    modules = {name for name in files if name[0] != "_"}
    return sorted({*globals(), *modules, *_FUNCTIONS, *_ELSEWHERE})
