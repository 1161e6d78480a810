"""The ops, by subject. A module is imported on the first use of one of its functions or Tensor methods; the modules of
Python's operators are imported at once.
"""

import importlib
from typing import TYPE_CHECKING, Any

from ..declare import FUNCTIONS
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


def _method_of(self: Tensor, name: str) -> Any:
    """A method whose module is not imported yet."""
    module = METHOD_MODULES.get(name)
    if module is None:
        raise AttributeError(f"'Tensor' object has no attribute {name!r}")
    importlib.import_module("." + module, __name__)
    return object.__getattribute__(self, name)


Tensor.__getattr__ = _method_of  # type: ignore[attr-defined]
_OWN = "size stride item tolist numpy data_view array __bool__ __index__ __int__ __float__ backward".split()
name_methods(Tensor, _OWN)  # public methods of tensor.py and autograd.py: their errors have their names
