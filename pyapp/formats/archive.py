"""Read untrusted zip archives: members by byte range, nothing unpacked to disk.

Source of the format: APPNOTE.TXT 6.3.10 of PKWARE. The standard library's reader does not fit: it reads a directory of
any size, has no byte ranges and does not detect overlapping members. Only the archives of NumPy and PyTorch are
accepted: one disk, no encryption, members stored or deflated, the directory right before the end record.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import NoReturn

from pyapp.dataclass import dataclass
from pyapp.errors import FileFormatError

from .source import ByteSource, check_range, read_into

MEMBERS_LIMIT = 1 << 17
DIRECTORY_LIMIT = 32 << 20  # bytes
INFLATED_LIMIT = 4 << 30  # bytes of one deflated member
RATIO_LIMIT = 1032  # the highest compression ratio of deflate
CHUNK = 1 << 18  # bytes inflated together
HINT = "The file is damaged, or not what it claims to be: download it again"

# Of a directory's entry: signature, flags, method, crc, compressed and full size, lengths of name, extra and comment,
# offset of the local header.
_CENTRAL = struct.Struct("<4s4x2H4x3L3H8xL")
_LOCAL = struct.Struct("<4s2x2H16x2H")  # signature, flags, method, lengths of name and extra
_END = struct.Struct("<4s4H2LH")
_END64 = struct.Struct("<4sQ4x2L4Q")
_LOCATOR = struct.Struct("<4sLQL")


@dataclass(frozen=True, slots=True)
class _Member:
    """One entry of the directory. `header` is the offset of its local header, `end` the offset of the next part of the
    file.
    """

    name: str
    raw_name: bytes
    deflated: bool
    crc: int
    compressed: int
    size: int
    header: int
    end: int


class Member:
    """A member's uncompressed bytes as a ByteSource. Stored ones are read in place; a deflated one is inflated from
    its start for every read, in small pieces.
    """

    def __init__(self, source: ByteSource, member: _Member) -> None:
        self.name = f"{source.name} ({member.name[:100]})"
        self.size = member.size
        self.crc = member.crc
        self._source = source
        self._member = member
        self._start = _data_start(source, member)

    def read(self, offset: int, length: int) -> bytes | memoryview:
        check_range(self, offset, length)
        if not self._member.deflated:
            return self._source.read(self._start + offset, length)
        data = bytearray(length)
        self._inflate(offset, memoryview(data))
        return bytes(data)

    def read_into(self, offset: int, view: memoryview) -> None:
        check_range(self, offset, len(view))
        if self._member.deflated:
            self._inflate(offset, view)
        else:
            read_into(self._source, self._start + offset, view)

    def mapped(self, offset: int, length: int) -> tuple[int, object] | None:
        """As FileSource.mapped, for a stored member of an archive that can be mapped."""
        check_range(self, offset, length)
        mapped = None if self._member.deflated else getattr(self._source, "mapped", None)
        found: tuple[int, object] | None = mapped and mapped(self._start + offset, length)
        return found

    def forget(self, offset: int, length: int) -> None:
        """As FileSource.forget."""
        if hasattr(self._source, "forget"):
            self._source.forget(self._start + offset, length)

    def _inflate(self, offset: int, view: memoryview) -> None:
        """Fills `view` from `offset` on; the bytes before are inflated and dropped."""
        made = 0
        for piece in self._inflated(offset + len(view)):
            first = max(offset - made, 0)
            if first < len(piece):
                view[made + first - offset : made + len(piece) - offset] = piece[first:]
            made += len(piece)

    def _inflated(self, end: int) -> Iterator[bytes]:
        """The member's bytes up to `end`, in pieces of at most CHUNK bytes, none of them empty."""
        engine = zlib.decompressobj(-15)
        taken = made = 0
        waiting = b""
        while made < end:
            if not waiting:
                count = min(CHUNK, self._member.compressed - taken)
                if engine.eof or not count:
                    _broken(f"the member ends after {made:,} of its {self.size:,} bytes", self.name)
                waiting = bytes(self._source.read(self._start + taken, count))
                taken += count
            try:
                piece = engine.decompress(waiting, min(CHUNK, end - made))
            except zlib.error as error:
                _broken(f"the compressed data are damaged: {error}", self.name)
            waiting = engine.unconsumed_tail
            made += len(piece)
            if piece:
                yield piece

    def pieces(self, offset: int, size: int) -> Iterator[bytes]:
        """The bytes from `offset` to the end in pieces of `size`; the last may be shorter. After the last piece,
        FileFormatError if the checksum of all bytes differs from the directory's.
        """
        if self._member.deflated:
            source = self._inflated(self.size)
        else:
            source = (bytes(self.read(at, min(CHUNK, self.size - at))) for at in range(0, self.size, CHUNK))
        crc, skipped, waiting = 0, 0, bytearray()
        for piece in source:
            crc = zlib.crc32(piece, crc)
            first = min(offset - skipped, len(piece))
            skipped += first
            waiting += piece[first:]
            while len(waiting) >= size:
                yield bytes(waiting[:size])
                del waiting[:size]
        if waiting:
            yield bytes(waiting)
        self.check(crc)

    def check(self, crc: int) -> None:
        """FileFormatError unless `crc`, the checksum of all bytes, is the directory's."""
        if crc != self.crc:
            _broken(f"the checksum of its bytes is {crc:08x}, expected {self.crc:08x}", self.name)


class Archive:
    """The members of a zip archive by name, in the directory's order. Only the directory is read.

    FileFormatError for broken archives; for more members, a larger directory or a higher compression ratio than
    possible; for two members of the same name or place; for names that are paths out of the folder.
    """

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        count, size, start = _find_directory(source)
        self._members = _read_directory(source, count, size, start)

    @property
    def names(self) -> list[str]:
        return list(self._members)

    def size(self, name: str) -> int:
        return self._members[name].size

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def open(self, name: str) -> Member:
        return Member(self.source, self._members[name])


def _broken(what: str, where: str, hint: str = HINT) -> NoReturn:
    raise FileFormatError(what, where=where, hint=hint)


def _find_directory(source: ByteSource) -> tuple[int, int, int]:
    """The number of members, and the directory's size and offset."""
    length = min(source.size, _END.size + 0xFFFF)
    tail = bytes(source.read(source.size - length, length))
    at = tail.rfind(b"PK\5\6")
    while at >= 0:
        if at + _END.size <= length and at + _END.size + int.from_bytes(tail[at + 20 : at + 22], "little") == length:
            break
        at = tail.rfind(b"PK\5\6", 0, at)
    if at < 0:
        _broken("the zip archive is damaged or truncated: its end, which lists the content, is missing", source.name)
    _, disk, first_disk, here, count, size, start, _ = _END.unpack_from(tail, at)
    end = source.size - length + at
    locator = end - _LOCATOR.size
    if locator >= 0:
        signature, disk64, place, disks = _LOCATOR.unpack(source.read(locator, _LOCATOR.size))
        if signature == b"PK\6\7":
            if place != locator - _END64.size or disk64 or disks > 1:
                _broken("the zip archive's 64-bit end record is not where it must be", source.name)
            signature, _, disk, first_disk, here, count, size, start = _END64.unpack(source.read(place, _END64.size))
            if signature != b"PK\6\6":
                _broken("the zip archive's 64-bit end record is damaged", source.name)
            end = place
    if disk or first_disk or here != count:
        _broken("the zip archive is one part of several", source.name)
    if count > MEMBERS_LIMIT or size > DIRECTORY_LIMIT:
        _broken(f"the zip archive has {count:,} members listed in {size:,} bytes: too many", source.name)
    if start + size != end:
        _broken(f"the zip archive's directory ends at byte {start + size:,}, expected {end:,}", source.name)
    return count, size, start


def _read_directory(source: ByteSource, count: int, size: int, start: int) -> dict[str, _Member]:
    data = bytes(source.read(start, size))
    members: list[_Member] = []
    at = 0
    for index in range(count):
        if at + _CENTRAL.size > size:
            _broken(f"the zip archive's directory ends after {index:,} of {count:,} members", source.name)
        signature, flags, method, crc, packed, full, n, m, k, header = _CENTRAL.unpack_from(data, at)
        begin = at + _CENTRAL.size
        at = begin + n + m + k
        if signature != b"PK\1\2" or at > size:
            _broken(f"member {index:,} of the zip archive's directory is damaged", source.name)
        raw_name = data[begin : begin + n]
        name = _name(raw_name, flags, source.name)
        packed, full, header = _wide(data[begin + n : begin + n + m], packed, full, header, name, source.name)
        if flags & 1 or method not in (0, 8):
            _broken(
                f"member {name[:100]!r} is {'encrypted' if flags & 1 else f'packed by method {method}'}",
                source.name,
                "Only stored and deflated members can be read: pack it again",
            )
        members.append(_Member(name, raw_name, method == 8, crc, packed, full, header, 0))
    if at != size:
        _broken(f"{size - at:,} bytes of the zip archive's directory belong to no member", source.name)
    return _placed(members, start, source.name)


def _name(raw: bytes, flags: int, where: str) -> str:
    """A member's name. Names that are paths out of the folder are refused, although nothing is unpacked."""
    try:
        name = raw.decode("utf-8" if flags & 0x800 else "cp437")
    except UnicodeDecodeError:
        _broken(f"the name of a member of the zip archive, {raw[:50]!r}, is not UTF-8", where)
    if not name or name.startswith("/") or "\\" in name or "\0" in name or ".." in name.split("/") or name[1:2] == ":":
        _broken(f"the zip archive has a member called {name[:100]!r}, which is not a path inside a folder", where)
    return name


def _wide(extra: bytes, packed: int, full: int, header: int, name: str, where: str) -> tuple[int, int, int]:
    """The two sizes and the offset, from the 64-bit extra field where the 32-bit ones are all ones."""
    fields = [full, packed, header]
    if 0xFFFFFFFF not in fields:
        return packed, full, header
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<HH", extra, at)
        if kind == 1:
            block = extra[at + 4 : at + 4 + length]
            wanted = [index for index in range(3) if fields[index] == 0xFFFFFFFF]
            if len(block) < 8 * len(wanted):
                break
            for place, index in enumerate(wanted):
                fields[index] = int.from_bytes(block[8 * place : 8 * place + 8], "little")
            return fields[1], fields[0], fields[2]
        at += 4 + length
    _broken(f"member {name[:100]!r} of the zip archive lacks its 64-bit sizes", where)


def _placed(members: list[_Member], end: int, where: str) -> dict[str, _Member]:
    """The members by name, each with the offset of the next part; refuses duplicates, overlaps and impossible sizes."""
    following: dict[int, int] = {}
    for member in sorted(members, key=lambda m: m.header, reverse=True):
        if member.header + _LOCAL.size + len(member.raw_name) + member.compressed > end:
            _broken(f"member {member.name[:100]!r} of the zip archive overlaps what follows it", where)
        following[member.header] = end
        end = member.header
    found: dict[str, _Member] = {}
    for member in members:
        shown, packed, full = member.name[:100], member.compressed, member.size
        if member.name in found:
            _broken(f"two members of the zip archive are called {shown!r}", where)
        if not member.deflated and packed != full:
            _broken(f"member {shown!r} is stored, yet has {packed:,} bytes for {full:,}", where)
        if member.deflated and (full > INFLATED_LIMIT or full > RATIO_LIMIT * packed):
            _broken(f"member {shown!r} would inflate from {packed:,} to {full:,} bytes: that cannot be, or is too much",
                    where)  # fmt: skip
        found[member.name] = replace(member, end=following[member.header])
    return found


def _data_start(source: ByteSource, member: _Member) -> int:
    """The offset of a member's bytes, past its local header, which must agree with the directory."""
    head = bytes(source.read(member.header, _LOCAL.size + len(member.raw_name)))
    signature, flags, method, n, m = _LOCAL.unpack_from(head)
    same = signature == b"PK\3\4" and head[_LOCAL.size :] == member.raw_name and n == len(member.raw_name)
    if not same or flags & 1 or method != (8 if member.deflated else 0):
        _broken(f"the header of member {member.name[:100]!r} does not agree with the zip archive's directory",
                source.name)  # fmt: skip
    start = member.header + _LOCAL.size + n + m
    if start + member.compressed > member.end:
        _broken(f"member {member.name[:100]!r} of the zip archive overlaps what follows it", source.name)
    return start
