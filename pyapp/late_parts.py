"""Imports from the parts of the page's Python that are fetched after its start (scripts/archive_parts.py).

Tasks that need these parts wait for them before they begin. This finder is for every other import: Python cannot wait
for a promise there, so the browser fetches the part at once, and the worker stands still meanwhile.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from .errors import LatePartError


class LateParts(MetaPathFinder):
    """The finder after Python's own. `parts` is the worker's: `find(module)` (the missing part that has the module, an
    object with `url` and `sha256`, or nothing), `read(url)` and `install(part, bytes)`.
    """

    def __init__(self, parts: Any) -> None:
        self._parts = parts

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        part = self._parts.find(fullname)
        if part is None:
            return None
        data = self._parts.read(part.url)
        if data is None:
            raise LatePartError(
                f"a part of the program could not be loaded, which has the module {fullname}", where=part.url,
                hint="Check your connection, then try again",
            )  # fmt: skip
        if hashlib.sha256(data.to_bytes()).hexdigest() != part.sha256:
            raise LatePartError(
                "a downloaded part of the program is damaged", where=part.url,
                hint="Reload the page. If that does not help, the copy on the server is damaged",
            )  # fmt: skip
        self._parts.install(part, data)
        return PathFinder.find_spec(fullname, path, target)


def find_late_parts(parts: Any) -> None:
    """Imports find modules of the page's later parts, before Pyodide's own finders say that there are none."""
    sys.meta_path.insert(sys.meta_path.index(PathFinder) + 1, LateParts(parts))
