"""Sources of bytes: a file, bytes in memory, or any object with `name`, `size` and `read`.

Readers read only the bytes that they need, so opening a 10 GB file reads only its header. The page defines a source
over a picked File or a handle of the browser's private file system.
"""

from __future__ import annotations

import ctypes
import errno
import os
import stat
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from io import FileIO
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol, TypeAlias, runtime_checkable

from pyapp.errors import FileFormatError

DOCUMENT_LIMIT = 64 << 20  # bytes of a text that is read whole
READ_LIMIT = 1 << 30  # bytes per system call: Linux stops short of 2 GiB


@runtime_checkable
class ByteSource(Protocol):
    """Random access to `size` bytes called `name`.

    `read(offset, length)` gives exactly `length` bytes (bytes or a memoryview). A source may also have
    `read_into(offset, view)`, which fills a writable memoryview of bytes without an intermediate copy,
    `mapped(offset, length)`, which gives the address of the bytes in memory and the memory's owner (or None), and
    `close()`.
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
        """Does nothing: the bytes belong to the caller."""


class PartSource:
    """`size` bytes of another source from `start` on. It closes nothing: the other source has its owner."""

    def __init__(self, source: ByteSource, start: int, size: int) -> None:
        check_range(source, start, size)
        self.name = f"{source.name} (from byte {start:,} on)"
        self._source, self._start, self.size = source, start, size

    def read(self, offset: int, length: int) -> bytes | memoryview:
        check_range(self, offset, length)
        return self._source.read(self._start + offset, length)

    def read_into(self, offset: int, view: memoryview) -> None:
        check_range(self, offset, len(view))
        read_into(self._source, self._start + offset, view)

    def mapped(self, offset: int, length: int) -> tuple[int, object] | None:
        """As FileSource.mapped."""
        check_range(self, offset, length)
        mapped = getattr(self._source, "mapped", None)
        found: tuple[int, object] | None = mapped and mapped(self._start + offset, length)
        return found


# The kinds of os.stat for paths that are not regular files.
_OTHER_KINDS = (
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


def open_regular(path: str | os.PathLike[str]) -> FileIO:
    """Opens a regular file for reading, unbuffered.

    A pipe or device would block, or never end: FileFormatError. OSError as open() raises.
    """

    def opener(name: str, flags: int) -> int:
        # Without O_NONBLOCK, opening a pipe waits for its writer.
        return os.open(name, flags | getattr(os, "O_NONBLOCK", 0))

    if "\0" in os.fspath(path):
        raise FileNotFoundError(errno.ENOENT, "No such file or directory", os.fspath(path).replace("\0", "\\0"))
    if os.name == "nt" and os.path.isdir(path):  # the system says "permission denied"
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), os.fspath(path))
    file = open(path, "rb", buffering=0, opener=opener)
    mode = os.fstat(file.fileno()).st_mode
    for is_kind, what in _OTHER_KINDS:
        if is_kind(mode):
            file.close()
            raise FileFormatError(
                f"this is {what}, not a file", where=os.fspath(path), hint="Save its content to a file, and give that"
            )
    return file


class FileSource:
    """A regular file on disk, read by position; safe to share between threads. A context manager.

    `mapped(offset, length)` gives the file's bytes as mapped memory (natively only). The mapping is private: writes
    never reach the file; pages are shared with other processes until they are written to. With `mapping=False` it gives
    None, and tensors are read into new memory. A mapped file must not be shortened or overwritten in place while
    tensors use it; replacing it by renaming, as pyapp's writers do, is safe.
    """

    def __init__(self, path: str | os.PathLike[str], *, mapping: bool = True) -> None:
        if not os.fspath(path):  # Path would make the present folder of it
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), "")
        self.path = Path(path)
        self.name = str(self.path)
        self._file = open_regular(self.path)
        self.size = os.fstat(self._file.fileno()).st_size
        self._lock = threading.Lock()
        self._mapping = mapping and sys.platform != "emscripten"
        self._memory: tuple[int, Any] | None = None  # address and owner of the whole file
        self._map: Any = None  # the mapping that the owner keeps
        self._given: Counter[tuple[int, int]] = Counter()  # how often each range was mapped

    def mapped(self, offset: int, length: int) -> tuple[int, object] | None:
        """(address, owner) of a range of the file in memory; None if it cannot be mapped.

        The owner keeps the memory alive, also after the source is closed.
        """
        check_range(self, offset, length)
        if not self._mapping or os.fstat(self._file.fileno()).st_size < offset + length:
            return None
        with self._lock:
            if self._memory is None:
                self._map = _map_file(self._file.fileno(), self.size)
                self._mapping = self._map is not None
                if self._map is not None:
                    owner: Any = (ctypes.c_char * self.size).from_buffer(self._map)  # keeps the mapping
                    self._memory = ctypes.addressof(owner), owner
            if self._memory is None:
                return None
            self._given[offset, length] += 1
            return self._memory[0] + offset, self._memory[1]

    def forget(self, offset: int, length: int) -> None:
        """Gives the memory of a range that was mapped once, and is not used any more, back to the system."""
        if not hasattr(self._map, "madvise") or self._given[offset, length] != 1:
            return  # a tensor that somebody else has mapped may have been written
        import mmap  # natively only

        first, last = -(-offset // mmap.PAGESIZE) * mmap.PAGESIZE, (offset + length) // mmap.PAGESIZE * mmap.PAGESIZE
        if first < last:
            self._map.madvise(mmap.MADV_DONTNEED, first, last - first)

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
        self._memory = self._map = None  # tensors keep the owner as long as they need it

    def __enter__(self) -> FileSource:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _map_file(descriptor: int, size: int) -> Any:
    """A private copy-on-write mapping of a file; None if the system refuses."""
    import mmap  # natively only

    try:
        if os.name == "posix":
            # Without MAP_NORESERVE, Linux refuses a file that is larger than memory and swap together.
            flags = mmap.MAP_PRIVATE | getattr(mmap, "MAP_NORESERVE", 0x4000 if sys.platform == "linux" else 0)
            return mmap.mmap(descriptor, size, flags=flags, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        return mmap.mmap(descriptor, size, access=mmap.ACCESS_COPY)
    except (OSError, ValueError):  # a file system without mappings, or a file that has been shortened
        return None


def open_source(source: AnySource, *, mapping: bool = True) -> ByteSource:
    """A ByteSource from a path or from bytes; a ByteSource is returned unchanged.

    Raises OSError as open() does (FileNotFoundError, IsADirectoryError, PermissionError) and TypeError for anything
    else.
    """
    if isinstance(source, (bytes, bytearray, memoryview)):
        return BytesSource(source)
    if isinstance(source, (str, os.PathLike)):
        return FileSource(source, mapping=mapping)
    if isinstance(source, ByteSource):
        return source
    raise TypeError(f"expected a path, bytes or a ByteSource (name, size, read), got {type(source).__name__}")


def close_source(source: ByteSource) -> None:
    """Closes a source, if it has `close`."""
    close = getattr(source, "close", None)
    if close is not None:
        close()


@contextmanager
def opened_source(source: AnySource) -> Iterator[ByteSource]:
    """A context manager: the ByteSource of a path or of bytes, which is closed at the end; a given one stays open."""
    found = open_source(source)
    try:
        yield found
    finally:
        if found is not source:
            close_source(found)


def name_of(file: Any) -> str:
    """What errors call a path or a ByteSource."""
    return os.fspath(file) if isinstance(file, str | os.PathLike) else str(getattr(file, "name", "file"))


def read_whole(source: ByteSource, limit: int = DOCUMENT_LIMIT) -> bytes:
    """All of a small file. FileFormatError for one of more than `limit` bytes."""
    if source.size > limit:
        raise FileFormatError(
            f"the file has {source.size:,} bytes, expected at most {limit:,}", where=source.name,
            hint="It is another file, or damaged: download it again",
        )  # fmt: skip
    return bytes(source.read(0, source.size))


def looks_like_text(head: bytes) -> bool:
    """Whether the beginning of a file is UTF-8 text without control characters."""
    try:
        text = head.decode("utf-8")
    except UnicodeDecodeError as error:
        if error.reason != "unexpected end of data":
            return False
        text = head[: error.start].decode("utf-8")  # cut inside a character
    return bool(text) and all(sign.isprintable() or sign in "\t\r\n\f\ufeff" for sign in text)


def read_into(source: ByteSource, offset: int, view: memoryview) -> None:
    """Fills `view` (writable bytes) from `offset` on, without a second copy if the source supports it."""
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
