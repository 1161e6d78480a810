"""Where bytes come from: a file, bytes in memory, or anything with `name`, `size` and `read`.

A reader never asks for more than it needs, so a 10 GB file costs its header. The page brings its own source over a
picked File or a handle of the browser's private file system.
"""

from __future__ import annotations

import os
import threading
from pathlib import Path
from types import TracebackType
from typing import Protocol, TypeAlias, runtime_checkable

from pyapp.errors import FileFormatError

DOCUMENT_LIMIT = 64 << 20  # bytes of a text that is read whole
READ_LIMIT = 1 << 30  # bytes per system call: Linux stops short of 2 GiB


@runtime_checkable
class ByteSource(Protocol):
    """Random access to `size` bytes called `name`.

    `read(offset, length)` gives exactly `length` bytes (bytes or a memoryview). A source may also have
    `read_into(offset, view)`, which fills a writable memoryview of bytes without an intermediate copy, and `close()`.
    """

    name: str
    size: int

    def read(self, offset: int, length: int) -> bytes | memoryview: ...


AnySource: TypeAlias = "str | os.PathLike[str] | bytes | bytearray | memoryview | ByteSource"


class BytesSource:
    """Bytes in memory; reads are views, not copies."""

    def __init__(self, data: bytes | bytearray | memoryview, name: str = "<bytes>") -> None:
        self.name = name
        self._view = memoryview(data).cast("B").toreadonly()
        self.size = len(self._view)

    def read(self, offset: int, length: int) -> memoryview:
        check_range(self, offset, length)
        return self._view[offset : offset + length]

    def read_into(self, offset: int, view: memoryview) -> None:
        view[:] = self.read(offset, len(view))

    def close(self) -> None:
        """Nothing to close: the caller's bytes stay his."""


class FileSource:
    """A file on disk, read by position; safe to share between threads. A context manager."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.name = str(self.path)
        self._file = open(self.path, "rb", buffering=0)
        self.size = os.fstat(self._file.fileno()).st_size
        self._lock = threading.Lock()

    def read(self, offset: int, length: int) -> bytes | memoryview:
        check_range(self, offset, length)
        data = bytearray(length)
        self.read_into(offset, memoryview(data))
        return memoryview(data).toreadonly()

    def read_into(self, offset: int, view: memoryview) -> None:
        check_range(self, offset, len(view))
        with self._lock:
            self._file.seek(offset)
            done = 0
            while done < len(view):
                count = self._file.readinto(view[done : done + READ_LIMIT])
                if not count:
                    raise FileFormatError(
                        f"the file ended at byte {offset + done:,} while being read; it had {self.size:,} bytes before",
                        where=self.name,
                        hint="Something shortened it meanwhile: wait until it is complete, then open it again",
                    )
                done += count

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> FileSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def open_source(source: AnySource) -> ByteSource:
    """A ByteSource from a path, from bytes, or as it is.

    Raises OSError as open() does (FileNotFoundError, IsADirectoryError, PermissionError) and TypeError for anything
    else.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return BytesSource(source)
    if isinstance(source, (str, os.PathLike)):
        return FileSource(source)
    if isinstance(source, ByteSource):
        return source
    raise TypeError(f"expected a path, bytes or a ByteSource (name, size, read), got {type(source).__name__}")


def close_source(source: ByteSource) -> None:
    """Closes a source that can be closed."""
    close = getattr(source, "close", None)
    if close is not None:
        close()


def read_whole(source: ByteSource, limit: int = DOCUMENT_LIMIT) -> bytes:
    """All of a small file. FileFormatError for one of more than `limit` bytes."""
    if source.size > limit:
        raise FileFormatError(
            f"the file has {source.size:,} bytes, expected at most {limit:,}", where=source.name,
            hint="It is another file, or damaged: download it again",
        )  # fmt: skip
    return bytes(source.read(0, source.size))


def read_into(source: ByteSource, offset: int, view: memoryview) -> None:
    """Fills `view` (writable bytes) from `offset` on, without a second copy where the source can."""
    direct = getattr(source, "read_into", None)
    if direct is not None:
        direct(offset, view)
    elif len(view):
        view[:] = source.read(offset, len(view))


def check_range(source: ByteSource, offset: int, length: int) -> None:
    """FileFormatError unless bytes offset .. offset + length lie inside the source."""
    if offset < 0 or length < 0 or offset + length > source.size:
        raise FileFormatError(
            f"cannot read {length:,} bytes at byte {offset:,}: there are {source.size:,} bytes",
            where=source.name,
            hint="The file is incomplete: download or copy it again",
        )
