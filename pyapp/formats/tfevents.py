"""Event files, which TensorBoard reads: numbers, histograms and pictures by name and step.

Records: the length (uint64), its checksum, the bytes of a protobuf message Event, their checksum (uint32, CRC-32C,
masked); all little-endian. Histograms and pictures are tensors with the name of TensorBoard's plugin that shows them.
Sources: tensorflow/core/lib/io/record_writer.h, tensorflow/core/util/event.proto, summary.proto, tensor.proto,
types.proto of tensorflow/core/framework; summary_v2.py of tensorboard/plugins/histogram and image.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Mapping
from functools import cache
from typing import Any

from pyapp.engine.lazy import np

from .folders import made_folder
from .png import encode_png
from .protobuf import bytes_field, varint
from .sink import full_disk_named

POLYNOMIAL = 0x82F63B78  # Castagnoli's, with its bits reversed
MASK = 0xA282EAD8
FLOAT, DOUBLE, STRING = 1, 2, 7  # DT_FLOAT, DT_DOUBLE and DT_STRING of types.proto
BUCKETS = 30
MOST_PICTURES = 3  # of a tensor


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


def _event(step: int | None, content: bytes, wall_time: float | None = None) -> bytes:
    head = b"\x09" + struct.pack("<d", time.time() if wall_time is None else wall_time)  # field 1
    return head + (b"" if step is None else b"\x10" + varint(step)) + content


def histogram_of(values: Any) -> Any:
    """values, of any shape → (BUCKETS, 3) float64: left edge, right edge and count of buckets of equal width. Of equal
    values, all are in the last bucket. NaN and infinities are left out.
    """
    values = np.asarray(values, np.float64).ravel()
    values = values[np.isfinite(values)]
    if not values.size:
        return np.zeros((0, 3))
    low, high = values.min(), values.max()
    if low == high:
        counts = np.zeros(BUCKETS)
        counts[-1] = values.size
        return np.stack([np.full(BUCKETS, low), np.full(BUCKETS, low), counts], 1)
    places = np.minimum(np.floor((values - low) / ((high - low) / BUCKETS)).astype(int), BUCKETS - 1)
    edges = np.linspace(low, high, BUCKETS + 1)
    return np.stack([edges[:-1], edges[1:], np.bincount(places, minlength=BUCKETS)], 1)


def picture_bytes(pictures: Any) -> Any:
    """Floats from 0 to 1 → uint8; what is below or above is cut off. uint8 stays."""
    if pictures.dtype == np.uint8:
        return pictures
    return np.clip(np.nan_to_num(pictures.astype(np.float32)) * np.float32(255.5), 0, 255).astype(np.uint8)


def tensor_of(kind: int, shape: tuple[int, ...], content: bytes) -> bytes:
    """A TensorProto with the fields of its elements."""
    dims = b"".join(bytes_field(2, (b"\x08" + varint(size)) if size else b"") for size in shape)
    return b"\x08" + varint(kind) + bytes_field(2, dims) + content


def of_plugin(name: str, plugin: str, tensor: bytes | None, content: bytes = b"") -> bytes:
    """A value of a summary that a plugin of TensorBoard shows; `content` is the plugin's own message."""
    metadata = bytes_field(1, bytes_field(1, plugin.encode()) + (bytes_field(2, content) if content else b""))
    held = b"" if tensor is None else bytes_field(8, tensor)
    return bytes_field(1, bytes_field(1, name.encode()) + held + bytes_field(9, metadata))


class EventWriter:
    """A new event file in a folder, whose name ends in `suffix`. Each `write` reaches the file at once, so that
    TensorBoard shows it. `wall_time`: seconds since 1970, by default now.
    """

    def __init__(self, folder: str | os.PathLike[str], suffix: str = "") -> None:
        host = socket.gethostname() or "host"
        with made_folder(folder) as place:
            for number in range(1000):
                self.path = place / f"events.out.tfevents.{int(time.time())}.{host}.{os.getpid()}.{number}{suffix}"
                try:
                    self._file = open(self.path, "xb")
                except FileExistsError:
                    continue
                break
            self._write_event(_event(None, bytes_field(3, b"brain.Event:2")))

    def purge(self, step: int) -> None:
        """Tells TensorBoard that the run began anew at a step: what earlier files have from there on is not shown."""
        self._write_event(_event(step, bytes_field(7, b"\x08\x01")))  # a SessionLog with the status START

    def write(self, step: int, values: Mapping[str, float], wall_time: float | None = None) -> None:
        """Numbers of a step, by name."""
        if values:
            summary = b"".join(
                bytes_field(1, bytes_field(1, name.encode()) + b"\x15" + struct.pack("<f", value))  # tag, simple_value
                for name, value in values.items()
            )
            self.write_summary(step, summary, wall_time)

    def write_histogram(self, step: int, name: str, values: Any, wall_time: float | None = None) -> None:
        """The distribution of the numbers in an array of any shape."""
        buckets = histogram_of(values)
        tensor = tensor_of(DOUBLE, buckets.shape, bytes_field(4, buckets.tobytes()))
        self.write_summary(step, of_plugin(name, "histograms", tensor), wall_time)

    def write_pictures(self, step: int, name: str, pictures: Any, wall_time: float | None = None) -> None:
        """Pictures (N, H, W, C), floats from 0 to 1 or uint8, C is 1, 3 or 4; the first three of them."""
        height, width = pictures.shape[1:3]
        files = [encode_png(picture) for picture in picture_bytes(pictures[:MOST_PICTURES])]
        texts = [str(width).encode(), str(height).encode(), *files]
        tensor = tensor_of(STRING, (len(texts),), b"".join(bytes_field(8, text) for text in texts))
        self.write_summary(step, of_plugin(name, "images", tensor), wall_time)

    def write_graph(self, graph: bytes) -> None:
        """A GraphDef, which has no step."""
        self._write_event(_event(None, bytes_field(4, graph)))

    def write_summary(self, step: int, summary: bytes, wall_time: float | None = None) -> None:
        """Values of a step: what `of_plugin` gives, one after the other."""
        self._write_event(_event(step, bytes_field(5, summary), wall_time))

    def _write_event(self, event: bytes) -> None:
        with full_disk_named(self.path):
            self._file.write(record(event))
            self._file.flush()

    def close(self) -> None:
        self._file.close()
