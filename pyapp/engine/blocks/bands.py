"""Bands of eight rows (native/kernels.h) back to blocks as files have them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import np
from .layout import BLOCK_TYPES, gather

if TYPE_CHECKING:
    from .layout import Array

BAND = 8


def unpack_bands(data: bytes, kind: str, rows: int, columns: int) -> bytes:
    """A packed q8_0, q4_0, q4_K or q6_K matrix as GGML's blocks, row after row."""
    block = BLOCK_TYPES[kind]
    count = columns // block.values
    bands = -(-rows // BAND)
    packed = np.frombuffer(data, np.uint8).reshape(bands * count, -1)
    blocks = np.zeros((bands * count, BAND), np.dtype(list(block.fields)))
    _FIELDS[kind](packed, blocks)
    blocks = blocks.reshape(bands, count, BAND).transpose(0, 2, 1).reshape(bands * BAND, count)
    return blocks[:rows].tobytes()


def _halves(packed: Array, at: int) -> Array:
    """(n, 8) of the rows' float16."""
    return np.ascontiguousarray(packed[:, at : at + 2 * BAND]).view("<f2")


def _numbers(packed: Array) -> Array:
    """(n, 128) bytes of nibbles to (n, 8, 32)."""
    table = packed.reshape(-1, 4, BAND, 4)  # pair, row, column
    both = np.stack([table & np.uint8(15), table >> np.uint8(4)], axis=1)  # half, pair, row, column
    return both.transpose(0, 3, 1, 2, 4).reshape(-1, BAND, 32)


def _two_bits(packed: Array) -> Array:
    """(n, 64) bytes to (n, 8, 32) of 0 .. 3."""
    table = packed.reshape(-1, 2, 1, 1, BAND, 4)  # vector, pair in it, half, row, column
    shifts = np.array([[0, 2], [4, 6]], np.uint8)[:, :, None, None]
    four = table >> shifts & np.uint8(3)
    return four.transpose(0, 4, 3, 1, 2, 5).reshape(-1, BAND, 32)


def _q8_0(packed: Array, blocks: Array) -> None:
    blocks["d"] = _halves(packed, 0)
    steps = packed[:, 2 * BAND :].view(np.int8).reshape(-1, 8, BAND, 4)
    blocks["low"] = steps.transpose(0, 2, 1, 3).reshape(-1, BAND, 32)


def _q4_0(packed: Array, blocks: Array) -> None:
    blocks["d"] = _halves(packed, 0)
    blocks["low"] = gather(_numbers(packed[:, 2 * BAND :]).reshape(-1, 32), 16, 4).reshape(-1, BAND, 16)


def _runs(packed: Array, begin: int) -> Array:
    """(n, 8, bytes): what belongs to each 32 columns."""
    return packed[:, begin:].reshape(len(packed), 8, -1)


def _q4_k(packed: Array, blocks: Array) -> None:
    from .k_types import pack_scales

    blocks["d"], blocks["m"] = _halves(packed, 0), _halves(packed, 2 * BAND)
    runs = _runs(packed, 4 * BAND)
    scales, minimums = (
        runs[:, :, at : at + BAND].transpose(0, 2, 1).reshape(-1, 8) for at in (0, BAND)
    )  # (n * 8 rows, 8 runs)
    blocks["scales"] = pack_scales(scales, minimums).reshape(-1, BAND, 12)
    blocks["low"] = gather(_joined(_numbers(runs[:, :, 2 * BAND :])), 32, 4).reshape(-1, BAND, 128)


def _q6_k(packed: Array, blocks: Array) -> None:
    blocks["d"] = _halves(packed, 0)
    runs = _runs(packed, 2 * BAND)
    scales = runs[:, :, : 2 * BAND].reshape(-1, 8, 2, BAND).transpose(0, 3, 1, 2)
    blocks["scales"] = scales.reshape(-1, BAND, 16).view(np.int8)
    low = _joined(_numbers(np.ascontiguousarray(runs[:, :, 2 * BAND : 2 * BAND + 128])))
    high = _joined(_two_bits(np.ascontiguousarray(runs[:, :, 2 * BAND + 128 :])))
    blocks["low"] = gather(low, 64, 4).reshape(-1, BAND, 128)
    blocks["high"] = gather(high, 32, 2).reshape(-1, BAND, 64)


def _joined(numbers: Array) -> Array:
    """(n * 8 runs, 8 rows, 32) to (n * 8 rows, 256)."""
    return numbers.reshape(-1, 8, BAND, 32).transpose(0, 2, 1, 3).reshape(-1, 256)


_FIELDS = {"q8_0": _q8_0, "q4_0": _q4_0, "q4_K": _q4_k, "q6_K": _q6_k}
