"""Converts float32 to the types with one scale (and minimum) for 32 values. Without importance the bytes equal those of
the `gguf` package; with importance a search finds the scales, as for the other types."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import np
from .k_types import half, steps, weights
from .search import affine_scale, divide, extremes, in_blocks, nearest, symmetric_scale, turned

if TYPE_CHECKING:
    from .layout import Array


def _inverse(scale: Array) -> Array:
    return np.where(scale == 0, np.float32(0), np.float32(1) / scale)


def _pack(numbers: Array, blocks: Array) -> None:
    """Packs numbers (n, 32) below 16 or 32 into the blocks' nibbles and high bits."""
    blocks["low"] = numbers[:, :16] & np.uint8(15) | numbers[:, 16:] << np.uint8(4)
    if "high" in blocks.dtype.names:
        blocks["high"] = np.packbits(numbers >> np.uint8(4), axis=1, bitorder="little")


def write_few_bits(values: Array, blocks: Array, levels: int) -> None:
    """Writes numbers of 4 or 5 bits (levels 16 or 32). In blocks without a minimum the value farthest from zero gets
    the lowest number; in others the smallest value does. Of equal values, and of 0 and -0, the first counts."""
    if "m" in blocks.dtype.names:
        lowest, highest = (
            np.take_along_axis(values, place(values, axis=1, keepdims=True), axis=1) for place in (np.argmin, np.argmax)
        )
        scale = (highest - lowest) / np.float32(levels - 1)
        exact = (values - lowest) * _inverse(scale) + np.float32(0.5)
        blocks["m"] = lowest[:, 0]
    else:
        scale = extremes(values, 1) / np.float32(-levels // 2)
        exact = values * _inverse(scale) + np.float32(levels / 2 + 0.5)
    # The inverse of a tiny scale is infinite, and casts of infinities and NaN differ between machines.
    numbers = np.where(np.isfinite(exact), exact, np.float32(0)).clip(0, levels - 1).astype(np.uint8)
    blocks["d"] = scale[:, 0]
    _pack(numbers, blocks)


def write_weighted(values: Array, blocks: Array, levels: int, importance: Array) -> None:
    """As write_few_bits, with the scales of the least error, weighted by importance (n, 32)."""
    x = turned(values, 1)
    weight = weights(x, turned(importance, 1), 1)
    if "m" in blocks.dtype.names:
        scale, minimum = affine_scale(x, weight, levels - 1, steps(-1.0, 1.0, 21))
        scale, minimum = half(scale), half(minimum)
        blocks["m"] = -minimum[:, 0]
        numbers = nearest(divide(x + minimum, scale), 0, levels - 1)
    else:
        middle = levels // 2
        scale = half(symmetric_scale(x, weight, -middle, middle - 1, steps(-0.9, 0.9, 19)))
        numbers = nearest(divide(x, scale), -middle, middle - 1) + middle
    blocks["d"] = scale[:, 0]
    _pack(in_blocks(numbers).astype(np.uint8), blocks)


def write_bytes(values: Array, blocks: Array) -> None:
    """Writes q8_0, and q8_1 with the sum of the dequantised values."""
    scale = np.abs(values).max(axis=1, keepdims=True) / np.float32(127)
    exact = values * _inverse(scale)
    size = np.abs(exact)
    down = np.floor(size)
    rounded = np.copysign(down + (size - down >= 0.5), exact)  # ties away from zero, as C's roundf
    numbers = np.where(np.isfinite(rounded), rounded, np.float32(0)).clip(-127, 127)
    blocks["d"] = scale[:, 0]
    blocks["low"] = numbers.astype(np.int8)
    if "sum" in blocks.dtype.names:
        blocks["sum"] = scale[:, 0] * numbers.sum(axis=1)
