"""Base of the readers of models whose tensors lie in several files."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, NoReturn, TypeVar

from .checkpoint import Checkpoint, TensorInfo
from .source import AnySource, ByteSource, close_source, open_source

if TYPE_CHECKING:
    from pyapp.engine.device import Device
    from pyapp.engine.tensor import Tensor

File = TypeVar("File", bound=Checkpoint)


class SeveralFiles(Checkpoint):
    """A subclass stores the file of each tensor in `_file_of`, and all files but `source` in `_others`."""

    WORD: str  # what a file is called in errors

    def __init__(self, source: ByteSource) -> None:
        super().__init__(source)
        self._others: list[Checkpoint] = []
        self._file_of: dict[str, Checkpoint] = {}

    @property
    def size(self) -> int:
        return self.source.size + sum(file.source.size for file in self._others)

    @abstractmethod
    def _broken(self, what: str) -> NoReturn:
        """Raises FileFormatError about these files."""

    def _open(self, name: str, find: Callable[[str], AnySource], reader: Callable[[ByteSource], File]) -> File:
        """Opens another file, which `find(name)` returns."""
        try:
            source = open_source(find(name))
        except (FileNotFoundError, KeyError):
            self._broken(f"the {self.WORD} {name!r} is missing")
        try:
            file = reader(source)
        except BaseException:
            close_source(source)
            raise
        self._others.append(file)
        return file

    def _read(self, info: TensorInfo, finite: bool, device: Device | None) -> Tensor:
        return self._file_of[info.name]._read(info, finite, device)

    def read_bytes(self, name: str) -> bytes | memoryview:
        return self._file_of[name].read_bytes(name)

    def _place(self, name: str) -> tuple[ByteSource, int, int] | None:
        return self._file_of[name]._place(name)

    def _close_others(self) -> None:
        for file in self._others:
            file.close()

    def close(self) -> None:
        self._close_others()
        super().close()
