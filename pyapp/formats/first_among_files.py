"""The first file of a model in several, when all of them are given by name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePosixPath

from .source import ByteSource


class FirstAmongFiles:
    """The ByteSource of an index, or of the first part of a GGUF file in several, that is one of `files`, by their
    paths, as a browser hands out those of a folder: the reader finds the shards or the other parts among them.
    """

    def __init__(self, path: str, files: Mapping[str, ByteSource]) -> None:
        self.file = files[path]
        self.name, self.size = self.file.name, self.file.size
        self._path, self._files = PurePosixPath(path), files

    def read(self, offset: int, length: int) -> bytes | memoryview:
        return self.file.read(offset, length)

    def beside(self, name: str) -> ByteSource:
        """The file of this name in the same folder. KeyError without one."""
        return self._files[str(self._path.with_name(name))]

    def close(self) -> None:
        """Who gave the files closes them."""
