"""What GGML's files before GGUF share: a stream of little-endian int32, texts and tensors, without offsets."""

from __future__ import annotations

from abc import abstractmethod
from typing import NoReturn

from pyapp.errors import FileFormatError

from .checkpoint import Checkpoint
from .gguf import GgufFile
from .source import ByteSource

HEADER_BYTES = 1 << 16  # read at once


class GgmlStream(GgufFile):
    """Reads such a stream from a byte on; tensors are read as GGUF's are."""

    def __init__(self, source: ByteSource, at: int) -> None:
        Checkpoint.__init__(self, source)
        self._at = at
        self._head = b""
        self._head_at = 0
        self._start = 0
        self._begins: dict[str, tuple[int, int]] = {}

    @abstractmethod
    def _tensor(self) -> None:
        """Reads the entry of the tensor at hand; leaves its data unread."""

    def _tensors(self) -> None:
        while self._at < self.source.size:
            self._tensor()
        if not self.tensors:
            self._broken("there is no tensor in the file")
        self._head = b""

    def _broken(self, what: str) -> NoReturn:
        raise FileFormatError(what, where=self.source.name, hint="Download the file again")

    def _take(self, count: int, what: str) -> bytes:
        """The next bytes, read ahead."""
        end = self._at + count
        if end > self.source.size:
            self._broken(f"the file is truncated in {what}, at byte {self.source.size:,}")
        if not self._head_at <= self._at <= end <= self._head_at + len(self._head):
            length = min(max(count, HEADER_BYTES), self.source.size - self._at)
            self._head, self._head_at = bytes(self.source.read(self._at, length)), self._at
        first = self._at - self._head_at
        self._at = end
        return self._head[first : first + count]

    def _skip(self, count: int, what: str) -> None:
        if self._at + count > self.source.size:
            self._broken(f"the file is truncated in {what}, at byte {self.source.size:,}")
        self._at += count

    def _int32(self, what: str, low: int, high: int) -> int:
        at = self._at
        value = int.from_bytes(self._take(4, what), "little", signed=True)
        if not low <= value <= high:
            self._broken(f"{what} at byte {at:,} is {value:,}, expected {low:,} to {high:,}")
        return value

    def _bytes(self, what: str, limit: int) -> bytes:
        return self._take(self._int32(what, 0, limit), what)
