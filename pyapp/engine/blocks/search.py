"""Finds the scale (and minimum) with which quantised values are closest to the original ones.

The search tries several scales near the largest value divided by the largest number. For the rounded numbers of each,
weighted least squares gives the best scale. This is the method of ggml's k-quants
(https://github.com/ggml-org/llama.cpp/pull/1684).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..lazy import np

if TYPE_CHECKING:
    import numpy

    from .layout import Array


def divide(a: Array | numpy.float32, b: Array) -> Array:
    """a / b; 0 where the quotient is infinite or NaN."""
    quotient = a / b
    return np.where(np.isfinite(quotient), quotient, np.float32(0))


def nearest(exact: Array, lowest: float, highest: float) -> Array:
    """Rounds `exact` in place to whole numbers from lowest to highest, and returns it. Infinities and NaN become 0."""
    np.nan_to_num(exact, copy=False, nan=0, posinf=0, neginf=0)
    return np.rint(exact, out=exact).clip(lowest, highest, out=exact)


def extremes(x: Array) -> Array:
    """The value of each row that is farthest from zero, with its sign: (n, r) → (n, 1)."""
    return np.take_along_axis(x, np.abs(x).argmax(axis=1, keepdims=True), axis=1)


def symmetric_scale(x: Array, weight: Array, lowest: int, highest: int, shifts: Sequence[float]) -> Array:
    """The scales (n, 1) that minimise the sum of weight * (x - scale * number)² over each row of x and weight (n, r).
    The numbers are whole, from lowest to highest. For each shift, the search maps the extreme value to lowest +
    shift."""
    extreme = extremes(x)
    weighted = weight * x
    best = np.zeros((len(x), 1), np.float32)
    best_gain = np.zeros((len(x), 1), np.float32)
    for shift in shifts:
        numbers = nearest(x * divide(np.float32(lowest + shift), extreme), lowest, highest)
        along = _dot(weighted, numbers)
        scale = divide(along, _dot(weight * numbers, numbers))
        gain = scale * along  # how much smaller the error is than with all numbers 0
        better = gain > best_gain
        best, best_gain = np.where(better, scale, best), np.where(better, gain, best_gain)
    return best


def affine_scale(x: Array, weight: Array, levels: int, shifts: Sequence[float]) -> tuple[Array, Array]:
    """The scales and minimums (n, 1) that minimise the sum of weight * (x - (scale * number - minimum))² over each row
    of x and weight (n, r). Neither is negative. The numbers are whole, from 0 to levels. For each shift, the search
    divides the range of the values into levels + shift steps.
    """
    low = np.minimum(x.min(axis=1, keepdims=True), np.float32(0))
    span = x.max(axis=1, keepdims=True) - low
    weighted = weight * x
    total, moment = weight.sum(axis=1, keepdims=True), weighted.sum(axis=1, keepdims=True)
    best = np.zeros((len(x), 1), np.float32), -low
    best_gain = low * (2 * moment - low * total)
    for shift in shifts:
        numbers = nearest((x - low) * divide(np.float32(levels + shift), span), 0, levels)
        scaled = weight * numbers
        first, second = scaled.sum(axis=1, keepdims=True), _dot(scaled, numbers)
        along = _dot(weighted, numbers)
        scale, offset = solve_pair(second, first, total, along, moment)
        scale, offset = np.where(offset > 0, divide(along, second), scale), np.minimum(offset, np.float32(0))
        gain = 2 * (scale * along + offset * moment) - (
            scale * scale * second + 2 * scale * offset * first + offset * offset * total
        )
        better = (gain > best_gain) & (scale >= 0)
        best = np.where(better, scale, best[0]), np.where(better, -offset, best[1])
        best_gain = np.where(better, gain, best_gain)
    return best


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


def _dot(a: Array, b: Array) -> Array:
    return np.einsum("nr,nr->n", a, b)[:, None]
