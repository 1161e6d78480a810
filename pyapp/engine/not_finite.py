"""Finds the parts of large memory that have NaN or infinity, without NumPy."""

from __future__ import annotations

import ctypes
from collections.abc import Iterable

from .launch import KERNELS
from .native import ELEMENTS, IN_BROWSER
from .storage import Storage


def not_finite_parts(data: memoryview, dtype: str, itemsize: int, part: int) -> Iterable[int]:
    """Where the parts of `part` bytes begin that may have a NaN or an infinity. `data` are bytes of elements of a float
    dtype, `part` is a multiple of their size.

    Natively a kernel finds them in memory of more than a part that is writable, as ctypes wants it to give its address.
    Else they are all parts.
    """
    starts = range(0, len(data), part)
    if IN_BROWSER or data.readonly or len(starts) < 2 or len(data) % itemsize:
        return starts
    address = ctypes.addressof(ctypes.c_ubyte.from_buffer(data))
    found = Storage(len(starts))
    KERNELS["find_not_finite"].launch(
        len(data) >> 12, found, Storage.adopt(address, len(data), data), len(data) // itemsize, part // itemsize,
        ELEMENTS.index(dtype),
    )  # fmt: skip
    return [start for start, mark in zip(starts, found.bytes_view(), strict=False) if mark]
