"""NumPy, imported at the first use of one of its names.

In the browser `import numpy` takes 0.4 s, and the path from a model file to its first token does not need it.
"""

from __future__ import annotations

import importlib
import types
from typing import TYPE_CHECKING, Any


class LazyModule(types.ModuleType):
    """A proxy that imports its module on the first use of an attribute, and caches each attribute."""

    def __getattr__(self, attribute: str) -> Any:
        if attribute.startswith("__") and attribute != "__version__":
            raise AttributeError(attribute)
        value = getattr(importlib.import_module(self.__name__), attribute)
        self.__dict__[attribute] = value
        return value


if TYPE_CHECKING:
    import numpy as np
else:
    np = LazyModule("numpy")

__all__ = ["LazyModule", "np"]
