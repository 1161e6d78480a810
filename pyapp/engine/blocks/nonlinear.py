"""Converts float32 to the types whose four-bit numbers select unevenly spaced values: iq4_nl, iq4_xs, and mxfp4 (OCP
Microscaling Formats 1.0)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..lazy import np
from .k_types import half, steps, weights
from .layout import IQ4_VALUES, MXFP4_VALUES, gather
from .search import divide, extremes, in_blocks, nearest, sum_of_blocks, sum_of_runs, turned

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
    """The scales (n, runs) of the least weighted error of x (turned). As search.symmetric_scale, with IQ4_VALUES as
    numbers."""
    whole = np.arange(-128, 128, dtype=np.float32)
    table = np.array(IQ4_VALUES, np.float32)[_closest(whole)]  # (256,): the value nearest to each whole number
    extreme = extremes(x, 0)[0]
    best, best_gain = np.zeros_like(extreme), np.zeros_like(extreme)
    for target in TARGETS:
        near = nearest(x * divide(np.float32(target), extreme), -128, 127)
        scaled = weight * (numbers := table[near.astype(np.int16) + 128])
        along = sum_of_runs(scaled * x)
        scale = divide(along, sum_of_runs(scaled * numbers))
        better = scale * along > best_gain
        best, best_gain = np.where(better, scale, best), np.where(better, scale * along, best_gain)
    return best


def write_iq4_nl(x: Array, blocks: Array, importance: Array | None) -> None:
    wide = turned(x, 1)
    scale = half(_best_scale(wide, weights(wide, None if importance is None else turned(importance, 1), 2)))
    blocks["d"] = scale[:, 0]
    blocks["low"] = gather(_closest(divide(x, scale)), 16, 4)


def write_iq4_xs(x: Array, blocks: Array, importance: Array | None) -> None:
    x = turned(x, 8)
    weight = weights(x, None if importance is None else turned(importance, 8), 2)
    scale = _best_scale(x, weight)
    d = half(extremes(scale, 1) / np.float32(-32))
    scales = nearest(divide(scale, d), -32, 31)
    table = np.array(IQ4_VALUES, np.float32)
    for _ in range(2):  # fit d again by least squares
        numbers = table[_closest(divide(x, d * scales))] * scales
        scaled = weight * numbers
        d = half(divide(sum_of_blocks(scaled * x), sum_of_blocks(scaled * numbers)))
    six_bits = (scales + 32).astype(np.uint8)
    blocks["d"] = d[:, 0]
    blocks["scales_low"] = gather(six_bits & np.uint8(15), 1, 4)
    blocks["scales_high"] = gather(six_bits >> np.uint8(4), 1, 2)
    blocks["low"] = gather(in_blocks(_closest(divide(x, d * scales))), 16, 4)


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
