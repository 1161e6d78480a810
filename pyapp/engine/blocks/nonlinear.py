"""Converts float32 to the types whose four-bit numbers select unevenly spaced values: iq4_nl, iq4_xs, and mxfp4 (OCP
Microscaling Formats 1.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import np
from .k_types import half, steps, weights
from .layout import IQ4_VALUES, MXFP4_VALUES, gather
from .search import divide, extremes, nearest

if TYPE_CHECKING:
    from .layout import Array

# The search tries scales that map the extreme value to these: around both ends of the table.
TARGETS = (
    *(IQ4_VALUES[0] + shift for shift in steps(-7.0, 7.0, 15)),
    *(IQ4_VALUES[-1] + shift for shift in (-9, 0, 9)),
)


def _closest(exact: Array) -> Array:
    """Indices, as uint8, of the IQ4_VALUES nearest to the numbers."""
    values = np.array(IQ4_VALUES, np.float32)
    between = (values[1:] + values[:-1]) / 2
    return np.searchsorted(between, np.nan_to_num(exact)).astype(np.uint8)


def _best_scale(x: Array, weight: Array) -> Array:
    """x (n, 32) → scales (n, 1) of the least weighted error. As search.symmetric_scale, with IQ4_VALUES as numbers."""
    whole = np.arange(-128, 128, dtype=np.float32)
    table = np.array(IQ4_VALUES, np.float32)[_closest(whole)]  # (256,): the value nearest to each whole number
    extreme = extremes(x)
    best, best_gain = np.zeros((len(x), 1), np.float32), np.zeros((len(x), 1), np.float32)
    for target in TARGETS:
        near = nearest(x * divide(np.float32(target), extreme), -128, 127)
        numbers = table[near.astype(np.int16) + 128]
        along, second = ((weight * numbers * other).sum(axis=1, keepdims=True) for other in (x, numbers))
        scale = divide(along, second)
        better = scale * along > best_gain
        best, best_gain = np.where(better, scale, best), np.where(better, scale * along, best_gain)
    return best


def write_iq4_nl(x: Array, blocks: Array, importance: Array | None) -> None:
    scale = half(_best_scale(x, weights(x, importance, 2)))
    numbers = _closest(divide(x, scale))
    blocks["d"] = scale[:, 0]
    blocks["low"] = gather(numbers, 16, 4)


def write_iq4_xs(x: Array, blocks: Array, importance: Array | None) -> None:
    weight = weights(x, importance, 2)
    scale = _best_scale(x.reshape(-1, 32), weight.reshape(-1, 32)).reshape(-1, 8)
    d = half(extremes(scale) / np.float32(-32))
    scales = nearest(divide(scale, d), -32, 31)
    wide = np.repeat(scales, 32, axis=1)
    table = np.array(IQ4_VALUES, np.float32)
    for _ in range(2):  # fit d again by least squares
        numbers = table[_closest(divide(x, d * wide))] * wide
        along, second = ((weight * numbers * other).sum(axis=1, keepdims=True) for other in (x, numbers))
        d = half(divide(along, second))
    six_bits = (scales + 32).astype(np.uint8)
    blocks["d"] = d[:, 0]
    blocks["scales_low"] = gather(six_bits & np.uint8(15), 1, 4)
    blocks["scales_high"] = gather(six_bits >> np.uint8(4), 1, 2)
    blocks["low"] = gather(_closest(divide(x, d * wide)), 16, 4)


def write_mxfp4(x: Array, blocks: Array) -> None:
    """The block's exponent is that of the largest value minus 2, the exponent of the largest E2M1 number. Each value
    gets the nearest number."""
    largest = np.abs(x).max(axis=1, keepdims=True)
    exponent = np.where(largest > 0, (np.frexp(largest)[1] - 1 - 2 + 127).clip(0, 254), 0)
    numbers = np.ldexp(x.astype(np.float64), 128 - exponent)  # doubled, as MXFP4_VALUES are
    values = np.array(MXFP4_VALUES[:8], np.float64)
    index = np.searchsorted((values[1:] + values[:-1]) / 2, np.abs(numbers), side="left").astype(np.uint8)
    index |= ((numbers < 0) & (index > 0)).astype(np.uint8) << np.uint8(3)
    blocks["exponent"] = exponent[:, 0]
    blocks["low"] = gather(index, 16, 4)
