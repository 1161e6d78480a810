"""Search little-endian floats for NaN and infinity, without NumPy."""

from __future__ import annotations

import re

from pyapp.engine.not_finite import not_finite_parts
from pyapp.errors import ModelError

CHECK_CHUNK = 1 << 20  # bytes searched together

# Per type: the element's size, the values that the highest byte of a NaN or an infinity can have, and the exponent's
# bits. Almost no weight has such a byte, so a search of bytes, which needs no NumPy, clears a chunk at once.
_EXPONENTS: dict[str, tuple[int, bytes, int]] = {
    "float16": (2, bytes(range(0x7C, 0x80)) + bytes(range(0xFC, 0x100)), 0x7C00),
    "bfloat16": (2, b"\x7f\xff", 0x7F80),
    "float32": (4, b"\x7f\xff", 0x7F800000),
    "float64": (8, b"\x7f\xff", 0x7FF0000000000000),
}


_PARTS = {"complex64": "float32", "complex128": "float64"}


def may_be_infinite(high: bytes, dtype: str) -> bool:
    """Whether one of the highest bytes of elements can be that of a NaN or an infinity."""
    return any(mark in high for mark in _EXPONENTS[dtype][1])


def check_finite(
    data: bytes | bytearray | memoryview, dtype: str, name: str, where: str | None = None, first: int = 0
) -> None:
    """ModelError naming the tensor `name` and the index of its first NaN or infinite value, counted from `first`. Types
    other than floats pass.

    `data` holds little-endian elements. It is searched in chunks of 1 MiB, which takes little memory.
    """
    parts = 2 if dtype in _PARTS else 1  # floats of an element
    dtype = _PARTS.get(dtype, dtype)
    if dtype not in _EXPONENTS:
        return
    size, marks, mask = _EXPONENTS[dtype]
    view = memoryview(data).cast("B")
    pattern = re.compile(b"[" + re.escape(marks) + b"]")
    for start in not_finite_parts(view, dtype, size, CHECK_CHUNK):
        chunk = bytes(view[start : start + CHECK_CHUNK])
        high = chunk[size - 1 :: size]
        if not may_be_infinite(high, dtype):
            continue
        for found in pattern.finditer(high):
            at = found.start() * size
            bits = int.from_bytes(chunk[at : at + size], "little")
            if bits & mask == mask:
                _raise_not_finite(
                    name, first + (start // size + found.start()) // parts, bits & (mask - 1) & ~mask, where
                )


def _raise_not_finite(name: str, index: int, fraction: int, where: str | None) -> None:
    value = "NaN" if fraction else "infinite"
    raise ModelError(
        f"the weights of {name!r} are damaged: element {index:,} is {value}",
        where=where,
        hint="Download or copy the file again; if it is damaged again, its training diverged",
    )
