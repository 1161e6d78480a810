"""The forms in which vectors are sent: their numbers, or these in base64, in one byte or in one bit each."""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping
from typing import Any

Vector = list[float]


def as_base64(vector: Vector) -> str:
    """float32, little-endian."""
    return base64.b64encode(struct.pack(f"<{len(vector)}f", *vector)).decode()


def as_int8(vector: Vector) -> list[int]:
    """Whole numbers to ±127, which stands for the largest number of the vector: cosines stay, lengths do not."""
    largest = max(map(abs, vector), default=0.0)
    return [round(127 * x / largest) for x in vector] if largest else [0] * len(vector)


def as_ubinary(vector: Vector) -> list[int]:
    """A bit for each number, 1 above zero, the first one the highest of its byte; the last byte ends in zeros."""
    bits = [x > 0 for x in vector] + [False] * (-len(vector) % 8)
    return [sum(bit << (7 - place) for place, bit in enumerate(bits[i : i + 8])) for i in range(0, len(bits), 8)]


# By the names that Cohere, Jina and Voyage give them.
FORMS: Mapping[str, Callable[[Vector], Any]] = {
    "float": lambda vector: vector,
    "base64": as_base64,
    "int8": as_int8,
    "uint8": lambda vector: [x + 128 for x in as_int8(vector)],
    "binary": lambda vector: [byte - 128 for byte in as_ubinary(vector)],
    "ubinary": as_ubinary,
}
