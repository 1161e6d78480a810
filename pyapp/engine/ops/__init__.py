"""The ops, by subject. A module is imported on the first use of one of its functions or Tensor methods; the modules of
Python's operators are imported at once.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ..declare import FUNCTIONS, METHODS
from ..op import RESERVED
from ..tensor import Tensor
from ..user_errors import name_methods
from . import index, operators  # noqa: F401
from ._index import FUNCTION_MODULES, METHOD_MODULES, OP_MODULES
from .linalg import products as _products  # noqa: F401

if TYPE_CHECKING:
    from ._index import *  # noqa: F403

__all__ = list(FUNCTION_MODULES)
RESERVED.update((name, f"{__name__}.{module}") for name, module in OP_MODULES.items())


def declared(name: str) -> Any:
    """The declaration of a public name; imports its module."""
    if name not in FUNCTIONS:
        importlib.import_module("." + FUNCTION_MODULES[name], __name__)
    return FUNCTIONS[name]


def __getattr__(name: str) -> Any:
    if name not in FUNCTION_MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found = globals()[name] = declared(name).value
    return found


def __dir__() -> list[str]:
    return [*globals(), *FUNCTION_MODULES]


class _Later:
    """A method of Tensor, or a property, whose module is imported when it is first asked for."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, tensor: Tensor | None, owner: type) -> Any:
        importlib.import_module("." + METHOD_MODULES[self.name], __name__)  # replaces this one
        return getattr(owner if tensor is None else tensor, self.name)


for _name in METHOD_MODULES.keys() - METHODS.keys():
    setattr(Tensor, _name, _Later(_name))
_OWN = "size stride item tolist numpy data_view array __bool__ __index__ __int__ __float__ backward".split()
name_methods(Tensor, _OWN)  # public methods of tensor.py and autograd.py: their errors have their names
