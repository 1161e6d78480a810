"""torch.nn.functional: the functions of layers and losses, imported from their files on first use.

An error names the function that the user called.
"""

from __future__ import annotations

import importlib
from types import FunctionType
from typing import Any

from ..engine.torch_arguments import by_torch_names
from ..engine.user_errors import named
from ._index import FUNCTIONS

_FILE_OF = {name: file for file, names in FUNCTIONS.items() for name in names.split()}
__all__ = [*_FILE_OF]


def __getattr__(name: str) -> Any:
    if name not in _FILE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    file = _FILE_OF[name]
    function = given = getattr(importlib.import_module(f".{file}", __package__), name)
    if file.startswith("losses."):
        from .losses.reduction import takes_old_reduction  # late: losses need not be there

        function = takes_old_reduction(function, name)
    if not hasattr(function, "names_itself"):
        function = by_torch_names(function, name) if isinstance(function, FunctionType) else named(function, name)
    found = globals()[name] = function
    if isinstance(found, FunctionType) and found is not given:  # a wrapper of this file
        found.__module__, found.__qualname__ = __name__, name  # where pickle finds it
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
