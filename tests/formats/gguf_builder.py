"""Builds GGUF headers field by field, of any version and with any errors."""

from __future__ import annotations

import struct
from collections.abc import Sequence


class Builder:
    """`entry` and `value` are the bytes of one tensor and one metadata; `file` puts them together."""

    def __init__(self, version: int = 3) -> None:
        self.version = version
        self.size_code = "I" if version == 1 else "Q"

    def size(self, value: int) -> bytes:
        return struct.pack(f"<{self.size_code}", value)

    def string(self, text: str | bytes) -> bytes:
        raw = text if isinstance(text, bytes) else text.encode()
        return self.size(len(raw)) + raw

    def value(self, key: str | bytes, code: int, raw: bytes) -> bytes:
        return self.string(key) + struct.pack("<I", code) + raw

    def array(self, code: int, count: int, raw: bytes) -> bytes:
        return struct.pack("<I", code) + self.size(count) + raw

    def entry(self, name: str | bytes, shape: Sequence[int], code: int = 0, offset: int = 0) -> bytes:
        sizes = b"".join(self.size(size) for size in reversed(shape))
        return self.string(name) + struct.pack("<I", len(shape)) + sizes + struct.pack("<IQ", code, offset)

    def file(
        self,
        entries: Sequence[bytes] = (),
        values: Sequence[bytes] = (),
        data: bytes = b"",
        counts: tuple[int, int] | None = None,
        alignment: int = 32,
    ) -> bytes:
        tensors, metadata = counts or (len(entries), len(values))
        head = b"GGUF" + struct.pack("<I", self.version) + self.size(tensors) + self.size(metadata)
        head += b"".join(values) + b"".join(entries)
        return head + bytes(-len(head) % alignment) + data
