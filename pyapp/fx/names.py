"""Names: of functions as a program writes them, and of nodes in a graph."""

from __future__ import annotations

import builtins
import importlib
import keyword
import re
from collections.abc import Callable
from typing import Any

from ..engine.tensor import Tensor
from ..overrides import resolve_name

PACKAGE = __name__.partition(".")[0]
MODULES = ("", ".nn.functional", ".linalg", ".fft", ".special")  # whose functions are shown by these names
_ILLEGAL = re.compile(r"[^0-9a-zA-Z_]+")
_SUFFIX = re.compile(r"(.*)_(\d+)$")
_known: dict[int, str] = {}


def name_of_function(function: Any) -> str:
    """The public name of a function or class: "pyapp.nn.functional.relu", "operator.add"; of one of a program its
    module and name."""
    name = getattr(function, "__name__", None)
    if name is None:
        raise RuntimeError(f"a node calls {function!r}, which has no name")
    if getattr(builtins, name, None) is function:
        return str(name)
    if function is Tensor:
        return f"{PACKAGE}.Tensor"
    found = resolve_name(function)
    if found is not None:
        return found.replace("torch", PACKAGE, 1)
    for module in MODULES:
        if getattr(importlib.import_module(PACKAGE + module), name, None) is function:
            return f"{PACKAGE}{module}.{name}"
    place = getattr(function, "__module__", None) or ""
    return f"{'operator' if place == '_operator' else place}.{name}"


def base_name(target: Callable[..., Any] | str) -> str:
    """The name of a node before it is made unique: of its function, method, module or attribute."""
    name = target if isinstance(target, str) else target.__name__
    if name.startswith("__") and name.endswith("__"):
        name = name[2:-2]
    return re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower() if name.lower() != name else name


class Namespace:
    """Names that are in use."""

    def __init__(self) -> None:
        self._used: set[str] = set()
        self._counts: dict[str, int] = {}

    def create_name(self, candidate: str) -> str:
        """The candidate as a name of Python that is not in use, with a number where that needs one."""
        name = _ILLEGAL.sub("_", candidate) or "_unnamed"
        if name[0].isdigit():
            name = f"_{name}"
        match = _SUFFIX.match(name)
        base, number = (match[1], int(match[2])) if match else (name, 0)
        if name not in self._used and not _is_taken(name):
            self._used.add(name)
            self._counts[base] = max(self._counts.get(base, 0), number)
            return name
        number = max(self._counts.get(base, 0), number)
        while True:
            number += 1
            name = f"{base}_{number}"
            if name not in self._used and not _is_taken(name):
                break
        self._used.add(name)
        self._counts[base] = number
        return name

    def take(self, name: str) -> None:
        """Keeps a name from being given."""
        self._used.add(name)


def _is_taken(name: str) -> bool:
    """Whether a variable of that name would hide something of Python, or of this package."""
    return keyword.iskeyword(name) or hasattr(builtins, name) or name in (PACKAGE, "operator", "inf", "nan", "self")


__all__ = ["MODULES", "PACKAGE", "Namespace", "base_name", "name_of_function"]
