"""Base of the readers of GGML's files before GGUF: a stream of little-endian int32, texts and tensors."""

from __future__ import annotations

from abc import abstractmethod
from math import prod
from typing import NoReturn

from pyapp.errors import FileFormatError

from .checkpoint import TensorInfo
from .ggml_file import GgmlFile
from .source import ByteSource

HEADER_BYTES = 1 << 16  # read at once
NUMBER_LIMIT = 1 << 20  # of a hyper-parameter
PIECE_LIMIT = 1 << 10  # bytes
NAME_LIMIT = 256  # bytes
TENSORS_LIMIT = 1 << 14
SIZE_LIMIT = 1 << 30


class GgmlStream(GgmlFile):
    """Reads such a stream from a given byte on; tensors are read as in GGUF files."""

    def __init__(self, source: ByteSource, at: int) -> None:
        super().__init__(source)
        self._at = at
        self._head = b""
        self._head_at = 0

    @abstractmethod
    def _tensor(self) -> None:
        """Reads the entry of the current tensor and skips its data."""

    def _tensors(self) -> None:
        while self._at < self.source.size:
            self._tensor()
        if not self.tensors:
            self._broken("there is no tensor in the file")
        self._head = b""

    def _header(self, rank_limit: int) -> tuple[str, int, list[int]]:
        """Name, type and sizes (columns first) of the current tensor."""
        rank = self._int32("a tensor's rank", 1, rank_limit)
        length = self._int32("the length of a tensor's name", 1, NAME_LIMIT)
        code = self._int32("a tensor's type", 0, NUMBER_LIMIT)
        sizes = [self._int32("a tensor's size", 1, SIZE_LIMIT) for _ in range(rank)]
        return self._take(length, "a tensor's name").decode("utf-8", "replace"), code, sizes

    def _add(self, name: str, sizes: list[int], layout: tuple[str, int, int]) -> None:
        """Registers the tensor whose data begin here, in blocks (dtype, values, bytes), and skips the data."""
        dtype, values, nbytes = layout
        if sizes[0] % values:
            self._broken(f"tensor {name!r} of {dtype} has rows of {sizes[0]:,} values, not whole blocks")
        if name in self.tensors or len(self.tensors) >= TENSORS_LIMIT:
            self._broken(f"the tensor {name!r} appears twice, or there are more than {TENSORS_LIMIT:,}")
        begin, size = self._at, prod(sizes) // values * nbytes
        self._skip(size, f"tensor {name!r}")
        self._begins[name] = begin, size
        self.tensors[name] = TensorInfo(name, dtype, tuple(reversed(sizes)), size)

    def _broken(self, what: str) -> NoReturn:
        raise FileFormatError(what, where=self.source.name, hint="Download the file again")

    def _take(self, count: int, what: str) -> bytes:
        """The next bytes; reads ahead."""
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
