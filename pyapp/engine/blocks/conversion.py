"""Converts blocks of types that only files have to blocks of types that tensors have (layout.READ_AS).

tq1_0, tq2_0, q1_0, iq1_m and iq3_xxs keep every value. iq1_s, iq2_xxs and iq3_s keep all but the last bit of a scale in
float16. The others become the nearest q8_0, because they have more scales than that type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..lazy import np
from .few_bits import Parts, parts_of
from .k_types import pack_q2_k, pack_q4_k, pack_q6_k
from .layout import BLOCK_TYPES, CHUNK, FILE_TYPES, READ_AS, gather
from .search import divide

if TYPE_CHECKING:
    from .layout import Array


def convert_blocks(data: Any, kind: str) -> bytes:
    """The blocks (bytes) of a type of FILE_TYPES as blocks of its READ_AS. ValueError for partial blocks."""
    old, new = FILE_TYPES[kind], BLOCK_TYPES[READ_AS[kind]]
    view = memoryview(data).cast("B")
    if len(view) % old.nbytes:
        raise ValueError(f"{kind} blocks have {old.nbytes} bytes: {len(view)} bytes are not whole blocks")
    blocks = np.frombuffer(view, np.dtype(list(old.fields)))
    each = old.values // new.values  # new blocks for an old one
    result = np.zeros(len(blocks) * each, np.dtype(list(new.fields)))
    step = CHUNK // old.values
    with np.errstate(all="ignore"):
        for start in range(0, len(blocks), step):
            parts = parts_of(kind, blocks[start : start + step])
            _write(kind, parts, result[start * each : (start + step) * each])
    return result.tobytes()


def _write(kind: str, parts: Parts, blocks: Array) -> None:
    """Fills the new blocks."""
    match READ_AS[kind]:
        case "q2_K":
            ones = np.ones((len(blocks), 16), np.uint8)
            pack_q2_k(blocks, parts.d, parts.d, ones, ones, (parts.numbers + np.int8(1)).view(np.uint8))
        case "q4_0":
            blocks["d"] = np.repeat(parts.d[:, 0], len(blocks) // len(parts.d))
            blocks["low"] = gather((parts.numbers + np.int8(8)).view(np.uint8).reshape(len(blocks), 32), 16, 4)
        case "q4_K":
            _write_odd(parts, blocks, 9 if kind == "iq1_s" else 15)
        case "q6_K":
            pack_q6_k(blocks, parts.d, np.repeat(parts.scales, 16 // parts.scales.shape[1], axis=1), parts.numbers)
        case _ if kind == "iq2_xxs":
            blocks["d"] = (parts.d * parts.scales).reshape(-1)
            blocks["low"] = parts.numbers.reshape(-1, 32)
        case _:
            _write_nearest(parts, blocks)


def _write_odd(parts: Parts, blocks: Array, largest: int) -> None:
    """Odd numbers from -largest to largest as q4_K: number = 2 * (0 .. largest) - largest. The minimum is divided by a
    factor that its scales are multiplied by, to use all their six bits."""
    factor = 63 // (15 if largest == 9 else 31)  # the largest scale of iq1_s, of iq3_s
    minimum = parts.d * np.float32(largest / factor)
    numbers = (parts.numbers + np.int8(largest)).view(np.uint8) >> np.uint8(1)
    pack_q4_k(blocks, 2 * parts.d, minimum, parts.scales, factor * parts.scales, numbers)


def _write_nearest(parts: Parts, blocks: Array) -> None:
    """The nearest q8_0 of any blocks."""
    runs = parts.numbers.reshape(*parts.scales.shape, -1) * parts.scales[:, :, None]
    products = runs.reshape(len(parts.d), -1, 32)  # (n, new blocks, 32)
    largest = np.abs(products).max(axis=2, keepdims=True)
    blocks["d"] = (parts.d[:, :, None] * largest / np.float32(127)).reshape(-1)
    blocks["low"] = np.rint(products * divide(np.float32(127), largest)).reshape(-1, 32).astype(np.int8)
