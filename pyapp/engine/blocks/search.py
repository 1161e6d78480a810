"""Finds the scale (and minimum) with which quantised values are closest to the original ones.

The search tries several scales near the largest value divided by the largest number. For the rounded numbers of each,
weighted least squares gives the best scale. This is the method of ggml's k-quants
(https://github.com/ggml-org/llama.cpp/pull/1684).

Values are *turned*: (r, n, runs) for n blocks of `runs` runs of r values, each of which has a scale. What belongs to a
run is (n, runs), what belongs to a block (n, 1). The result is the same to the last bit on every machine, and that of
the kernel (native/quantize_blocks.c): sums have a fixed order, and no zero has a sign that depends on an order.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..lazy import np

if TYPE_CHECKING:
    import numpy

    from .layout import Array


def turned(x: Array, runs: int) -> Array:
    """Blocks (n, values) → (values / runs, n, runs)."""
    return np.ascontiguousarray(x.reshape(len(x), runs, -1).transpose(2, 0, 1))


def in_blocks(x: Array) -> Array:
    """The inverse of `turned`."""
    return x.transpose(1, 2, 0).reshape(x.shape[1], -1)


def sum_of_runs(x: Array) -> Array:
    """(r, n, runs) → (n, runs): the values at even places one after the other, those at odd places, and both."""
    pair = np.zeros_like(x[:2])
    for first in range(0, len(x), 2):
        pair += x[first : first + 2]
    return pair[0] + pair[1]


def sum_of_blocks(x: Array) -> Array:
    """(r, n, runs) → (n, 1): of the runs' sums, the first half and the second half are added until one is left."""
    found = sum_of_runs(x)
    while (half := found.shape[1] // 2) > 0:
        found = found[:, :half] + found[:, half:]
    return found


def divide(a: Array | numpy.float32, b: Array) -> Array:
    """a / b; 0 where the quotient is infinite or NaN."""
    quotient = a / b
    return np.where(np.isfinite(quotient), quotient, np.float32(0))


def nearest(exact: Array, lowest: float, highest: float) -> Array:
    """Rounds `exact` in place to whole numbers from lowest to highest, and returns it. Infinities and NaN become 0, and
    so does -0."""
    np.nan_to_num(exact, copy=False, nan=0, posinf=0, neginf=0)
    np.rint(exact, out=exact)
    exact += np.float32(0)
    return exact.clip(lowest, highest, out=exact)


def not_negative(x: Array) -> Array:
    """The larger of x and 0, without the sign of -0; NaN stays."""
    return np.maximum(x, np.float32(0)) + np.float32(0)


def extremes(x: Array, axis: int) -> Array:
    """The first of the values along an axis that are farthest from zero, with its sign; the axis has the length 1."""
    return np.take_along_axis(x, np.abs(x).argmax(axis=axis, keepdims=True), axis=axis)


def symmetric_scale(x: Array, weight: Array, lowest: int, highest: int, shifts: Sequence[float]) -> Array:
    """The scales (n, runs) that minimise the sum of weight * (x - scale * number)² over each run of x and weight
    (r, n, runs). The numbers are whole, from lowest to highest. For each shift, the search maps the extreme value to
    lowest + shift."""
    extreme = extremes(x, 0)[0]
    weighted = weight * x
    best, best_gain = np.zeros_like(extreme), np.zeros_like(extreme)
    for shift in shifts:
        numbers = nearest(x * divide(np.float32(lowest + shift), extreme), lowest, highest)
        along = sum_of_runs(weighted * numbers)
        scale = divide(along, sum_of_runs(weight * numbers * numbers))
        gain = scale * along  # how much smaller the error is than with all numbers 0
        better = gain > best_gain
        best, best_gain = np.where(better, scale, best), np.where(better, gain, best_gain)
    return best


def affine_scale(x: Array, weight: Array, levels: int, shifts: Sequence[float]) -> tuple[Array, Array]:
    """The scales and minimums (n, runs) that minimise the sum of weight * (x - (scale * number - minimum))² over each
    run of x and weight (r, n, runs). Neither is negative. The numbers are whole, from 0 to levels. For each shift, the
    search divides the range of the values into levels + shift steps.
    """
    low = np.minimum(x.min(axis=0), np.float32(0)) + np.float32(0)
    span = x.max(axis=0) - low
    weighted = weight * x
    total, moment = sum_of_runs(weight), sum_of_runs(weighted)
    best = np.zeros_like(low), np.float32(0) - low
    best_gain = low * (2 * moment - low * total)
    for shift in shifts:
        numbers = nearest((x - low) * divide(np.float32(levels + shift), span), 0, levels)
        scaled = weight * numbers
        first, second = sum_of_runs(scaled), sum_of_runs(scaled * numbers)
        along = sum_of_runs(weighted * numbers)
        scale, offset = solve_pair(second, first, total, along, moment)
        scale, offset = np.where(offset > 0, divide(along, second), scale), np.minimum(offset, np.float32(0))
        gain = 2 * (scale * along + offset * moment) - (
            scale * scale * second + 2 * scale * offset * first + offset * offset * total
        )
        better = (gain > best_gain) & (scale >= 0)
        best = np.where(better, scale, best[0]), np.where(better, np.float32(0) - offset, best[1])
        best_gain = np.where(better, gain, best_gain)
    return not_negative(best[0]), best[1]


def solve_pair(aa: Array, ab: Array, bb: Array, ax: Array, bx: Array) -> tuple[Array, Array]:
    """The factors of a and b whose sum is nearest to x (least squares), from the products of the three. Where a and b
    are parallel, the factor of b is 0."""
    a64, c64, b64 = aa.astype(np.float64), ab.astype(np.float64), bb.astype(np.float64)
    determinant = a64 * b64 - c64 * c64
    clear = determinant > 1e-6 * a64 * b64
    safe = np.where(clear, determinant, 1.0)
    first = np.where(clear, (b64 * ax - c64 * bx) / safe, divide(ax, aa))
    second = np.where(clear, (a64 * bx - c64 * ax) / safe, 0.0)
    return first.astype(np.float32), second.astype(np.float32)
