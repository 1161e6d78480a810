"""Read the fields of a GGUF header in order, each checked against a limit before it is read.

Source of the format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import struct
from array import array
from typing import Any, NoReturn

from pyapp.errors import FileFormatError

from .source import ByteSource, BytesSource

METADATA_LIMIT = 1 << 16
TENSORS_LIMIT = 1 << 18
NAME_LIMIT = 1 << 16  # bytes of a key or a tensor's name; the format says 65,535 and 64
STRING_LIMIT = 64 << 20  # bytes; some files carry a whole tokenizer.json
ELEMENTS_LIMIT = 1 << 24  # of all arrays together; a vocabulary has up to 300,000 or so in each of three arrays
NESTING_LIMIT = 4
READ_AHEAD = 1 << 16  # bytes; grows with the size of the header
HINT = "The file is damaged, or not a GGUF file: download it again"

STRING, ARRAY, BOOL = 8, 9, 7
# Codes of scalar types: name, and format character of struct.
SCALARS: dict[int, tuple[str, str]] = {
    0: ("uint8", "B"),
    1: ("int8", "b"),
    2: ("uint16", "H"),
    3: ("int16", "h"),
    4: ("uint32", "I"),
    5: ("int32", "i"),
    6: ("float32", "f"),
    7: ("bool", "B"),
    10: ("uint64", "Q"),
    11: ("int64", "q"),
    12: ("float64", "d"),
}
NAMES = {code: name for code, (name, _) in SCALARS.items()} | {STRING: "string", ARRAY: "array"}


class HeaderReader:
    """Reads a header from its beginning. The constructor reads `version`, `tensor_count` and `metadata_count`. Then
    call `key_value` for each metadata, and `name`, `size`, `uint32`, `uint64` for the tensors. `position` is the next
    byte.
    """

    def __init__(self, source: ByteSource) -> None:
        self.source = source
        self.position = 0
        self.elements = 0
        self._buffer: bytes = b""
        self._buffer_start = 0
        if bytes(self.take(4, "the signature")) != b"GGUF":
            self.broken("the signature is not GGUF")
        self.version = self.uint32()
        if self.version and not self.version & 0xFFFF:
            raise FileFormatError(
                "this is a big-endian GGUF file",
                where=source.name,
                hint="Only little-endian files can be read: convert it with llama.cpp's gguf-convert-endian",
            )
        if not 1 <= self.version <= 3:
            raise FileFormatError(
                f"this is version {self.version:,} of GGUF", where=source.name, hint="Versions 1, 2 and 3 can be read"
            )
        self.tensor_count = self.size()
        self.metadata_count = self.size()
        if self.metadata_count > METADATA_LIMIT:
            self.broken(f"there are {self.metadata_count:,} metadata, expected at most {METADATA_LIMIT:,}")
        if self.tensor_count > TENSORS_LIMIT:
            self.broken(f"there are {self.tensor_count:,} tensors, expected at most {TENSORS_LIMIT:,}")

    def broken(self, what: str) -> NoReturn:
        raise FileFormatError(what, where=self.source.name, hint=HINT)

    def take(self, length: int, what: str) -> bytes:
        """The next bytes."""
        missing = self.position + length - self.source.size
        if missing > 0:
            self.broken(f"the file is truncated in its header: {missing:,} bytes of {what} are missing")
        start = self.position - self._buffer_start
        if start + length > len(self._buffer):
            ahead = max(length, min(max(READ_AHEAD, self.position), 1 << 20))
            ahead = min(ahead, self.source.size - self.position)
            self._buffer = bytes(self.source.read(self.position, ahead))
            self._buffer_start, start = self.position, 0
        self.position += length
        return self._buffer[start : start + length]

    def uint32(self) -> int:
        return int.from_bytes(self.take(4, "a number"), "little")

    def uint64(self) -> int:
        return int.from_bytes(self.take(8, "a number"), "little")

    def size(self) -> int:
        """A count or a length: its width depends on the version."""
        return self.uint32() if self.version == 1 else self.uint64()

    def name(self, what: str) -> str:
        raw = self._string(NAME_LIMIT, what)
        try:
            return raw.decode("utf-8")
        except UnicodeDecodeError:
            self.broken(f"{what} is not UTF-8: {raw[:50]!r}")

    def _string(self, limit: int, what: str) -> bytes:
        length = self.size()
        if length > limit:
            self.broken(f"{what} has {length:,} bytes, expected at most {limit:,}")
        return self.take(length, what)

    def key_value(self) -> tuple[str, str, Any]:
        """(key, type's name, value) of the next metadata. Strings that are not UTF-8 keep their bytes as surrogate
        escapes.
        """
        key = self.name("a key of the metadata")
        code = self.uint32()
        what = f"the value of {key[:100]!r}"
        if code == ARRAY:
            return key, *self._array(what, 1)
        if code not in NAMES:
            self.broken(f"{what} has the unknown type {code:,}")
        return key, NAMES[code], self._scalar(code, what)

    def _scalar(self, code: int, what: str) -> Any:
        if code == STRING:
            return self._string(STRING_LIMIT, what).decode("utf-8", "surrogateescape")
        _, spelled = SCALARS[code]
        (value,) = struct.unpack("<" + spelled, self.take(struct.calcsize("<" + spelled), what))
        return self._bool(value, what) if code == BOOL else value

    def _bool(self, value: int, what: str) -> bool:
        if value > 1:
            self.broken(f"{what} is {value}, expected 0 or 1 for a bool")
        return bool(value)

    def _array(self, what: str, depth: int) -> tuple[str, list[Any]]:
        """(type's name, elements) of the array at the current position."""
        if depth > NESTING_LIMIT:
            self.broken(f"{what} is nested more than {NESTING_LIMIT} arrays deep")
        code, count = self.uint32(), self.size()
        if code not in NAMES:
            self.broken(f"{what} has elements of the unknown type {code:,}")
        self.elements += count
        if self.elements > ELEMENTS_LIMIT:
            self.broken(f"the arrays up to {what} have more than {ELEMENTS_LIMIT:,} elements")
        if code == ARRAY:
            return self._arrays(self._fitting(count, 8, what), what, depth + 1)
        if code == STRING:
            return "array of string", self._strings(self._fitting(count, 4, what), what)
        name, spelled = SCALARS[code]
        raw = self.take(count * struct.calcsize("<" + spelled), what)
        if code == BOOL:
            if raw.strip(b"\0\1"):
                self.broken(f"{what} has an element that is neither 0 nor 1")
            return f"array of {name}", [byte == 1 for byte in raw]
        numbers: array[Any] = array(spelled, raw)
        return f"array of {name}", numbers.tolist()

    def _strings(self, count: int, what: str) -> list[str]:
        """`count` strings. Those that lie whole in the buffer are taken out of it in one loop: a vocabulary and its
        merges are half a million.
        """
        unpack = struct.Struct("<I" if self.version == 1 else "<Q").unpack_from
        width = 4 if self.version == 1 else 8
        found: list[str] = []
        while len(found) < count:
            found.append(self._scalar(STRING, what))  # also fills the buffer
            buffer, at = self._buffer, self.position - self._buffer_start
            last = len(buffer) - width  # where the length of a string can begin
            for _ in range(count - len(found)):
                if at > last:
                    break
                end = at + width + unpack(buffer, at)[0]
                if end > len(buffer):
                    break
                found.append(buffer[at + width : end].decode("utf-8", "surrogateescape"))
                at = end
            self.position = self._buffer_start + at
        return found

    def _arrays(self, count: int, what: str, depth: int) -> tuple[str, list[Any]]:
        """An array of arrays. Its type is that of the first inner array that is not empty."""
        name, empty = "array of uint32", True
        found: list[list[Any]] = []
        for _ in range(count):
            kind, elements = self._array(what, depth)
            if elements and empty or not found:
                name, empty = kind, not elements
            found.append(elements)
        return f"array of {name}", found

    def _fitting(self, count: int, least: int, what: str) -> int:
        """The count; FileFormatError if the rest of the file is too short for `count` elements of `least` bytes."""
        missing = self.position + count * least - self.source.size
        if missing > 0:
            self.broken(f"the file is truncated in its header: {missing:,} bytes of {what} are missing")
        return count


def architecture_of(head: bytes, where: str) -> str | None:
    """`general.architecture` in the first bytes of a GGUF file; None if it is not among them. FileFormatError for
    another file.
    """
    reader = HeaderReader(BytesSource(head, where))
    try:
        for _ in range(reader.metadata_count):
            key, _, value = reader.key_value()
            if key == "general.architecture":
                return str(value)
    except FileFormatError:
        pass  # the bytes end before it
    return None
