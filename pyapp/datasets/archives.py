"""Read tar archives, packed or not, one file after another: what an archive may make a reader read and keep has limits,
because a small one may announce names of gigabytes.
"""

from __future__ import annotations

import gzip
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from pyapp.errors import FileFormatError

try:
    import bz2
    import lzma
except ImportError:  # Pythons may be built without them, as browsers' are
    bz2 = lzma = None  # type: ignore[assignment]

HEAD_LIMIT = 1 << 20  # bytes between two files: their names and other properties
WHOLE_LIMIT = 1 << 30  # bytes of a dataset's archive when it is unpacked
MEMBERS = 1 << 18
PACKED: dict[bytes, Callable[[Any], Any]] = {b"\x1f\x8b": gzip.open}
if bz2 is not None:
    PACKED |= {b"BZh": bz2.open, b"\xfd7zXZ\0": lzma.open}


# What Python's libraries raise for damaged archives, and for those that are packed in ways that they do not know.
DAMAGED = (
    tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, ValueError, LookupError, OSError, NotImplementedError,
    RuntimeError, *(() if lzma is None else (lzma.LZMAError,)),
)  # fmt: skip


def members(path: Path, is_wanted: Callable[[str], bool], limit: int) -> Iterator[tuple[str, bytes]]:
    """(name, content) of the files of a tar archive whose names are wanted, in its order. FileFormatError for a damaged
    archive, and for such a file of more than `limit` bytes.
    """
    for archive, member in tar_members(path, WHOLE_LIMIT):
        if not member.isreg() or not is_wanted(member.name):
            continue
        if member.size > limit:
            what = f"{member.name:.100} with {member.size:,} bytes, at most {limit:,} are read"
            raise _refused(what, str(path))
        try:
            file = archive.extractfile(member)
            data = file.read() if file else b""
        except DAMAGED as error:
            raise damaged(error, path) from error
        yield member.name, data


def tar_members(path: Path, most: int) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """The archive and each of its members, which is read or unpacked before the next one is asked for. FileFormatError
    for a damaged archive, and for one of more than `most` bytes when it is unpacked.
    """
    try:
        with _unpacking(path) as plain:
            stream: Any = _Metered(plain, str(path), most)
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                for count, member in enumerate(archive):
                    if count >= MEMBERS:
                        raise _refused(f"more than {MEMBERS:,} files", str(path))
                    archive.members = []  # type: ignore[attr-defined]  # which it would keep
                    stream.allow(member.size)
                    yield archive, member
    except FileFormatError:
        raise
    except DAMAGED as error:
        raise damaged(error, path) from error


def is_tar(path: Path) -> bool:
    """Whether a file begins as a tar archive does, packed or not."""
    try:
        with _unpacking(path) as plain:
            head = plain.read(tarfile.BLOCKSIZE)
            if head != bytes(tarfile.BLOCKSIZE):  # else it has no files
                tarfile.TarInfo.frombuf(head, "utf-8", "surrogateescape")
    except DAMAGED:
        return False
    return True


@contextmanager
def _unpacking(path: Path) -> Iterator[IO[bytes]]:
    """The unpacked bytes of a file."""
    with open(path, "rb") as raw:
        head = raw.read(6)
        raw.seek(0)
        opened = next((opened for start, opened in PACKED.items() if head.startswith(start)), None)
        yield raw if opened is None else opened(raw)


def damaged(error: Exception, path: Path) -> FileFormatError:
    return FileFormatError(f"the archive is damaged ({error!s:.100})", where=str(path), hint="Download it again")


def _refused(what: str, where: str) -> FileFormatError:
    return FileFormatError(f"the archive has {what}", where=where, hint="Download it again")


class _Metered:
    """A stream that gives no more bytes than were allowed."""

    def __init__(self, stream: IO[bytes], where: str, most: int) -> None:
        self._stream, self._where, self._most = stream, where, most
        self._given, self._allowed = 0, HEAD_LIMIT

    def allow(self, count: int) -> None:
        """Allows so many bytes of a file, and the head of the next one."""
        self._allowed = self._given + max(count, 0) + HEAD_LIMIT

    def read(self, count: int) -> bytes:
        found = self._stream.read(count)
        self._given += len(found)
        if self._given > self._most:
            raise _refused(f"more than {self._most:,} bytes", self._where)
        if self._given > self._allowed:
            raise _refused(f"a head of more than {HEAD_LIMIT:,} bytes", self._where)
        return found
