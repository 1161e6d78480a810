"""PNG files: arrays of whole numbers are written as pictures.

Source of the format: https://www.w3.org/TR/png-3/
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

from pyapp.engine.lazy import np

COLOURS = {1: 0, 3: 2, 4: 6}  # the format's number for grey, for red, green and blue, and for these with opacity


def encode_png(pixels: Any) -> bytes:
    """(H, W, C) uint8 or uint16 → the bytes of a PNG file. C is 1, 3 or 4."""
    height, width, channels = pixels.shape
    size = pixels.dtype.itemsize
    samples = np.ascontiguousarray(pixels.astype(f">u{size}")).view(np.uint8)  # the first byte of two is the larger
    lines = np.zeros((height, 1 + width * channels * size), np.uint8)  # each line begins with its filter: 0, none
    lines[:, 1:] = samples.reshape(height, width * channels * size)
    header = struct.pack(">IIBBBBB", width, height, 8 * size, COLOURS[channels], 0, 0, 0)
    parts = [_chunk(b"IHDR", header), _chunk(b"IDAT", zlib.compress(lines.tobytes(), 6)), _chunk(b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
