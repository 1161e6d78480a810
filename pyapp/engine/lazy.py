"""What is imported at its first use: NumPy, and the public names of packages.

In the browser `import numpy` takes 0.4 s, and the path from a model file to its first token does not need it.
"""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any


class LazyModule(types.ModuleType):
    """A proxy that imports its module on the first use of an attribute, and caches each attribute."""

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__") and attribute != "__version__":
            raise AttributeError(attribute)
        value = getattr(importlib.import_module(self.__name__), attribute)
        self.__dict__[attribute] = value
        return value


def late_names(package: str, names: Mapping[str, str], modules: Sequence[str] = ()) -> Callable[[str], Any]:
    """The `__getattr__` of a package that imports its names at their first use. `names` has, by the module in the
    package, the names that come from it, with spaces between them; `modules` are names of modules themselves.
    """
    module_of = {name: module for module, some in names.items() for name in some.split()}

    def found(name: str) -> Any:
        if name in modules:
            return importlib.import_module(f".{name}", package)
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(importlib.import_module(f".{module_of[name]}", package), name)
        setattr(sys.modules[package], name, value)
        return value

    return found


if TYPE_CHECKING:
    import numpy as np
else:
    np = LazyModule("numpy")

__all__ = ["LazyModule", "late_names", "np"]
