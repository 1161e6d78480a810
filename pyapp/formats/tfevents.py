"""Event files, which TensorBoard reads: numbers by name and step.

Records: the length (uint64), its checksum, the bytes of a protobuf message Event, their checksum (uint32, CRC-32C,
masked); all little-endian. Sources: tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto,
tensorflow/core/framework/summary.proto.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

POLYNOMIAL = 0x82F63B78  # Castagnoli's, with its bits reversed
MASK = 0xA282EAD8


@cache
def _table() -> list[int]:
    found = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
        found.append(value)
    return found


def crc32c(data: bytes) -> int:
    """The checksum of RFC 3720, appendix B.4."""
    table, crc = _table(), 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ table[(crc ^ byte) & 255]
    return crc ^ 0xFFFFFFFF


def _masked(data: bytes) -> bytes:
    crc = crc32c(data)
    return struct.pack("<I", ((crc >> 15 | crc << 17) + MASK) & 0xFFFFFFFF)


def record(data: bytes) -> bytes:
    """A record of a file."""
    length = struct.pack("<Q", len(data))
    return length + _masked(length) + data + _masked(data)


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes((*out, value))


def _field(number: int, data: bytes) -> bytes:
    """A field of bytes: a text or a message."""
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def _event(step: int | None, content: bytes) -> bytes:
    head = b"\x09" + struct.pack("<d", time.time())  # wall_time, field 1
    return head + (b"" if step is None else b"\x10" + _varint(step)) + content


class EventWriter:
    """A new event file in a folder. Each `write` reaches the file at once, so that TensorBoard shows it."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        Path(folder).mkdir(parents=True, exist_ok=True)
        host = socket.gethostname() or "host"
        for number in range(1000):
            self.path = Path(folder) / f"events.out.tfevents.{int(time.time())}.{host}.{os.getpid()}.{number}"
            try:
                self._file = open(self.path, "xb")
            except FileExistsError:
                continue
            break
        self._file.write(record(_event(None, _field(3, b"brain.Event:2"))))
        self._file.flush()

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Numbers of a step, by name."""
        if values:
            summary = b"".join(
                _field(1, _field(1, name.encode()) + b"\x15" + struct.pack("<f", value))  # tag, simple_value
                for name, value in values.items()
            )
            self._file.write(record(_event(step, _field(5, summary))))
            self._file.flush()

    def close(self) -> None:
        self._file.close()
