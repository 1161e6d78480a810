"""Delay the import of NumPy's linear algebra until its first use: it takes a third of `import numpy` in a browser.

NumPy imports numpy.linalg for four functions of its polynomials and matrices, and with it a library of two megabytes
and its own type annotations.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

NAME = "numpy.linalg"
ASKED_EARLY = frozenset(("eigvals", "inv", "lstsq", "matrix_power"))
"""What other modules of NumPy take from it when they are imported."""


class LateLinalg(ModuleType):
    """Replaces numpy.linalg until its first use. Any name except those of ASKED_EARLY, and any submodule, imports the
    real one.
    """

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        if name in ASKED_EARLY and sys.modules.get(NAME) is self:
            return _later(name)
        return getattr(_real(), name)


class _Finder(MetaPathFinder, Loader):
    """Makes the first import of numpy.linalg a LateLinalg."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == NAME:
            return ModuleSpec(NAME, self, is_package=True)
        if fullname.startswith(f"{NAME}."):
            return ModuleSpec(fullname, _Loaded())
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return LateLinalg(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """It is empty."""


class _Loaded(Loader):
    """A submodule of the real numpy.linalg, which may be imported already."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        _real()
        module = importlib.import_module(spec.name)
        self._spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._spec


def _real() -> ModuleType:
    if isinstance(sys.modules.get(NAME), LateLinalg):
        del sys.modules[NAME]
        sys.meta_path[:] = [finder for finder in sys.meta_path if not isinstance(finder, _Finder)]
    return importlib.import_module(NAME)


def _later(name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(_real(), name)(*args, **kwargs)

    call.__name__ = name
    return call


def defer_linalg() -> None:
    """Call it before NumPy is imported; it has no effect afterwards."""
    if "numpy" not in sys.modules:
        sys.meta_path.insert(0, _Finder())
