"""Imports fetch the part of the page's Python that has a module, once, and say which one could not be fetched."""

from __future__ import annotations

import hashlib
import importlib
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyapp.errors import LatePartError
from pyapp.late_parts import LateParts, find_late_parts

MODULE = "a_module_that_comes_later"


class Parts:
    """As the worker's: one part, with MODULE, which is unpacked into a folder."""

    def __init__(self, folder: Path, data: bytes | None) -> None:
        self.folder, self.data = folder, data
        self.sha256 = hashlib.sha256(b"value = 3").hexdigest()
        self.installed: list[str] = []

    def find(self, module: str) -> Any:
        missing = module == MODULE and not self.installed
        return SimpleNamespace(name="later", url="later.whl", sha256=self.sha256) if missing else None

    def read(self, url: str) -> Any:
        return None if self.data is None else SimpleNamespace(to_bytes=lambda: self.data)

    def install(self, part: Any, data: Any) -> None:
        self.installed.append(part.name)
        (self.folder / f"{MODULE}.py").write_bytes(data.to_bytes())


def test_an_import_fetches_its_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    parts = Parts(tmp_path, None)
    find_late_parts(parts)
    with pytest.raises(LatePartError, match=f"could not be loaded, which has the module {MODULE}"):
        importlib.import_module(MODULE)
    parts.data = b"value = 4"
    with pytest.raises(LatePartError, match="damaged"):
        importlib.import_module(MODULE)
    parts.data = b"value = 3"
    assert importlib.import_module(MODULE).value == 3 and parts.installed == ["later"]
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("a_module_that_never_comes")
    assert sum(isinstance(finder, LateParts) for finder in sys.meta_path) == 1
    del sys.modules[MODULE]
