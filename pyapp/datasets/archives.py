"""Read files of tar archives, packed by gzip or not, without unpacking them to disk: what an archive may make a reader
read and keep has limits, because a small one may announce names of gigabytes.
"""

from __future__ import annotations

import gzip
import tarfile
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from pyapp.errors import FileFormatError

HEAD_LIMIT = 1 << 20  # bytes between two files: their names and other properties
WHOLE_LIMIT = 1 << 30  # bytes of an archive when it is unpacked
MEMBERS = 1 << 18
GZIP = b"\x1f\x8b"


def members(path: Path, is_wanted: Callable[[str], bool], limit: int) -> Iterator[tuple[str, bytes]]:
    """(name, content) of the files of an archive whose names are wanted, in its order. FileFormatError for a damaged
    archive, and for such a file of more than `limit` bytes.
    """
    try:
        with open(path, "rb") as raw:
            packed = raw.read(2) == GZIP
            raw.seek(0)
            stream = _Metered(gzip.GzipFile(fileobj=raw) if packed else raw, str(path))
            with tarfile.open(fileobj=stream, mode="r|") as archive:
                for count, member in enumerate(archive):
                    if count >= MEMBERS:
                        raise _refused(f"more than {MEMBERS:,} files", str(path))
                    archive.members = []  # which it would keep
                    stream.allow(member.size)
                    if not member.isreg() or not is_wanted(member.name):
                        continue
                    if member.size > limit:
                        what = f"{member.name:.100} with {member.size:,} bytes, at most {limit:,} are read"
                        raise _refused(what, str(path))
                    file = archive.extractfile(member)
                    yield member.name, file.read() if file else b""
    except FileFormatError:
        raise
    except (tarfile.TarError, EOFError, zlib.error, ValueError, OSError) as error:
        raise FileFormatError(
            f"the archive is damaged ({error!s:.100})", where=str(path), hint="Download it again"
        ) from error


def _refused(what: str, where: str) -> FileFormatError:
    return FileFormatError(f"the archive has {what}", where=where, hint="Download it again")


class _Metered:
    """A stream that gives no more bytes than were allowed."""

    def __init__(self, stream: Any, where: str) -> None:
        self._stream, self._where = stream, where
        self._given, self._allowed = 0, HEAD_LIMIT

    def allow(self, count: int) -> None:
        """Allows so many bytes of a file, and the head of the next one."""
        self._allowed = self._given + max(count, 0) + HEAD_LIMIT

    def read(self, count: int) -> bytes:
        found: bytes = self._stream.read(count)
        self._given += len(found)
        if self._given > WHOLE_LIMIT:
            raise _refused(f"more than {WHOLE_LIMIT:,} bytes", self._where)
        if self._given > self._allowed:
            raise _refused(f"a head of more than {HEAD_LIMIT:,} bytes", self._where)
        return found
