"""Protocol Buffers' wire format: reads messages of untrusted files field by field, and writes them.

Source: https://protobuf.dev/programming-guides/encoding. Every length is compared with the end of the message that
contains it, every number of fields with a limit. A reader fetches only the bytes that it looks at: long fields, such as
the weights of a model, are skipped, and read later by their place.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from pyapp.dataclass import dataclass
from pyapp.errors import FileFormatError

from .source import ByteSource

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
FIELDS_LIMIT = 1 << 22  # of one message
_WINDOW = 1 << 16  # bytes that are read at once


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message: its number, its kind on the wire, and a whole number or the bytes [start, end) of the
    file."""

    number: int
    kind: int
    value: int = 0
    start: int = 0
    end: int = 0

    @property
    def size(self) -> int:
        return self.end - self.start


class MessageReader:
    """Reads the messages of a source. `what` names the kind of file in errors, and `hint` what to do."""

    def __init__(self, source: ByteSource, what: str, hint: str) -> None:
        self.source, self.what, self.hint = source, what, hint
        self._base, self._window = 0, b""

    def broken(self, what: str) -> FileFormatError:
        return FileFormatError(f"not a usable {self.what}: {what}", where=self.source.name, hint=self.hint)

    def fields(self, start: int, end: int, limit: int = FIELDS_LIMIT) -> Iterator[Field]:
        """The fields between two places of the file."""
        at, count = start, 0
        while at < end:
            count += 1
            if count > limit:
                raise self.broken(f"the message at byte {start:,} has more than {limit:,} fields")
            tag, at = self._varint(at, end)
            kind, number = tag & 7, tag >> 3
            if number == 0:
                raise self.broken(f"there is a field with the number 0 at byte {at:,}")
            if kind == VARINT:
                value, at = self._varint(at, end)
                yield Field(number, kind, value)
                continue
            if kind == BYTES:
                length, at = self._varint(at, end)
            elif kind in (FIXED32, FIXED64):
                length = 4 if kind == FIXED32 else 8
            else:
                raise self.broken(f"there is a field of the unknown kind {kind} at byte {at:,}")
            if length > end - at:
                raise self.broken(f"a field of {length:,} bytes at byte {at:,} does not fit; {end - at:,} are left")
            yield Field(number, kind, 0, at, at + length)
            at += length

    def inside(self, message: Field, limit: int = FIELDS_LIMIT) -> Iterator[Field]:
        """The fields of a message."""
        if message.kind != BYTES:
            raise self.broken(f"field {message.number} is not a message")
        return self.fields(message.start, message.end, limit)

    def bytes_of(self, field: Field, limit: int) -> bytes:
        """The bytes of a field; at most `limit` of them."""
        if field.kind != BYTES:
            raise self.broken(f"field {field.number} has another type")
        if field.size > limit:
            raise self.broken(
                f"field {field.number} at byte {field.start:,} has {field.size:,} bytes, at most {limit:,} fit"
            )
        return self._bytes(field.start, field.end)

    def text_of(self, field: Field, limit: int) -> str:
        """A field in UTF-8."""
        try:
            return self.bytes_of(field, limit).decode()
        except UnicodeDecodeError:
            raise self.broken(f"the text at byte {field.start:,} is not UTF-8") from None

    def int_of(self, field: Field) -> int:
        """A signed whole number of 64 bits."""
        if field.kind != VARINT:
            raise self.broken(f"field {field.number} has another type")
        return field.value - (1 << 64) if field.value >> 63 else field.value

    def float_of(self, field: Field) -> float:
        """A number in 32 bits."""
        if field.kind != FIXED32:
            raise self.broken(f"field {field.number} has another type")
        return float(struct.unpack("<f", self._bytes(field.start, field.end))[0])

    def ints_of(self, field: Field, limit: int) -> list[int]:
        """The whole numbers of a repeated field: one, or packed ones."""
        if field.kind == VARINT:
            return [self.int_of(field)]
        data, found, value, shift = self.bytes_of(field, 10 * limit), [], 0, 0
        for byte in data:
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                value &= (1 << 64) - 1
                found.append(value - (1 << 64) if value >> 63 else value)
                value = shift = 0
            elif shift >= 63:
                raise self.broken(f"a number at byte {field.start:,} is too long")
            else:
                shift += 7
        if shift:
            raise self.broken(f"the numbers at byte {field.start:,} are truncated")
        if len(found) > limit:
            raise self.broken(f"there are {len(found):,} numbers at byte {field.start:,}, at most {limit:,} fit")
        return found

    def floats_of(self, field: Field, limit: int) -> list[float]:
        """The 32-bit numbers of a repeated field: one, or packed ones."""
        if field.kind == FIXED32:
            return [self.float_of(field)]
        data = self.bytes_of(field, 4 * limit)
        if len(data) % 4:
            raise self.broken(f"the numbers at byte {field.start:,} are truncated")
        return list(struct.unpack(f"<{len(data) // 4}f", data))

    def _bytes(self, start: int, end: int) -> bytes:
        """The bytes [start, end), from what has been read if possible."""
        first = start - self._base
        if 0 <= first and end - self._base <= len(self._window):
            return self._window[first : end - self._base]
        return bytes(self.source.read(start, end - start))

    def _varint(self, at: int, end: int) -> tuple[int, int]:
        place = at - self._base
        if not 0 <= place or place + 10 > len(self._window):
            self._base, place = at, 0
            self._window = bytes(self.source.read(at, min(_WINDOW, self.source.size - at)))
        window, limit = self._window, end - self._base
        value = 0
        for shift in range(0, 70, 7):
            if place >= limit or place >= len(window):
                raise self.broken(f"it is truncated at byte {self._base + place:,}")
            byte = window[place]
            place += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value & (1 << 64) - 1, self._base + place
        raise self.broken(f"the number before byte {self._base + place:,} is too long")


# -- writing


def varint(value: int) -> bytes:
    """A whole number of 64 bits; negative ones as two's complement."""
    value &= (1 << 64) - 1
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def int_field(number: int, value: int) -> bytes:
    """A whole number, not below 0, as a varint."""
    return varint(number << 3 | VARINT) + varint(value)


def float_field(number: int, value: float) -> bytes:
    """A float32."""
    return varint(number << 3 | FIXED32) + struct.pack("<f", value)


def bytes_field(number: int, value: bytes | str) -> bytes:
    """A text, bytes or a message."""
    data = value.encode() if isinstance(value, str) else value
    return bytes_head(number, len(data)) + data


def bytes_head(number: int, length: int) -> bytes:
    """What stands before the `length` bytes of a field."""
    return varint(number << 3 | BYTES) + varint(length)
