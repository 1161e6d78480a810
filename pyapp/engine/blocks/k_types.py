"""Converts float32 to ggml's k-quants: blocks of 256 values in 8 or 16 runs, whose scales are quantised too.

The steps are: the best scale of each run; the block's scale of these scales; the numbers, with the rounded scales; then
least squares for the block's scales again. The error is at most that of llama.cpp's quantiser.

In this package a *number* is a quantised value: a small whole number, stored in a few bits. search.py says what is
*turned*.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from ..lazy import np
from .layout import gather
from .search import (
    affine_scale,
    divide,
    extremes,
    in_blocks,
    nearest,
    not_negative,
    solve_pair,
    sum_of_blocks,
    sum_of_runs,
    symmetric_scale,
    turned,
)

if TYPE_CHECKING:
    from .layout import Array


def weights(x: Array, importance: Array | None, power: int) -> Array:
    """The weight of the squared error of each value in x (turned). It grows with |x| to the given power, 1 or 2, plus a
    term for the whole block. With importance (turned) it is importance * sqrt(x² + 2 * mean(x²))."""
    squares = np.square(x)
    mean = sum_of_blocks(squares) / np.float32(x.size // x.shape[1])
    if importance is not None:
        return importance * np.sqrt(2 * mean + squares)
    return np.abs(x) + np.sqrt(mean) if power == 1 else squares + np.float32(0.1) * mean


def half(x: Array) -> Array:
    """x rounded to float16, as float32."""
    return x.astype(np.float16).astype(np.float32)


def affine_block(
    x: Array, importance: Array | None, runs: int, levels: int, scale_levels: int, shifts: tuple[float, ...]
) -> tuple[Array, Array, Array, Array, Array]:
    """Quantises x (n, 256) so that value = d * scale * number - m * minimum.

    Returns d and m (n, 1), which are float16 values; scales and minimums (n, runs) in 0 .. scale_levels; numbers
    (n, 256) in 0 .. levels.
    """
    x, importance = turned(x, runs), None if importance is None else turned(importance, runs)
    weight = weights(x, importance, 1)
    scale, minimum = affine_scale(x, weight, levels, shifts)
    d = half(scale.max(axis=1, keepdims=True) / np.float32(scale_levels))
    m = half(minimum.max(axis=1, keepdims=True) / np.float32(scale_levels))
    scales = nearest(divide(scale, d), 0, scale_levels)
    minimums = nearest(divide(minimum, m), 0, scale_levels)
    d, m, scales, minimums, numbers = _refine_affine(x, weight, (d, m, scales, minimums), levels, scale_levels)
    return d, m, scales, minimums, in_blocks(numbers)


def _refine_affine(
    x: Array, weight: Array, start: tuple[Array, Array, Array, Array], levels: int, scale_levels: int
) -> tuple[Array, Array, Array, Array, Array]:
    """Fits the scales and minimums of the runs, then d and m, by least squares for the current numbers, twice. Each
    block keeps its best result. x, weight and numbers are turned."""
    best = _affine_numbers(x, weight, start, levels)
    for _ in range(2):
        d, m, scales, minimums, numbers, _ = best
        pair = solve_pair(*(sum_of_runs(part) for part in _products(x, weight, d * numbers, -m)))
        scales, minimums = (nearest(part, 0, scale_levels) for part in pair)
        best = _choose(best, _affine_numbers(x, weight, (d, m, scales, minimums), levels))
        d, m, scales, minimums, numbers, _ = best
        pair = solve_pair(*(sum_of_blocks(part) for part in _products(x, weight, scales * numbers, -minimums)))
        d, m = (half(not_negative(part)) for part in pair)
        best = _choose(best, _affine_numbers(x, weight, (d, m, scales, minimums), levels))
    return best[:5]


AffineFit: TypeAlias = "tuple[Array, Array, Array, Array, Array, Array]"


def _affine_numbers(x: Array, weight: Array, scales: tuple[Array, Array, Array, Array], levels: int) -> AffineFit:
    """The four scales, the nearest numbers for these scales, and the weighted error of each block (n, 1)."""
    wide, low = scales[0] * scales[2], scales[1] * scales[3]
    numbers = nearest(divide(x + low, wide), 0, levels)
    return (*scales, numbers, sum_of_blocks(weight * np.square(wide * numbers - low - x)))


def _choose(old: AffineFit, new: AffineFit) -> AffineFit:
    """For each block, the fit with the smaller error."""
    better = new[-1] < old[-1]
    d, m, scales, minimums, numbers, error = (np.where(better, b, a) for a, b in zip(old, new, strict=True))
    return d, m, scales, minimums, numbers, error


def _products(x: Array, weight: Array, a: Array, b: Array) -> tuple[Array, ...]:
    """The products of a, b and x (turned) that solve_pair takes sums of, each weighted. b may be that of whole runs or
    blocks."""
    wa, wb = weight * a, weight * b
    return wa * a, wa * b, wb * b, wa * x, wb * x


def symmetric_block(
    x: Array, importance: Array | None, runs: int, lowest: int, scale_lowest: int, shifts: tuple[float, ...]
) -> tuple[Array, Array, Array]:
    """Quantises x (n, 256) so that value = d * scale * number. Returns d (n, 1), which is a float16 value, scales
    (n, runs) and numbers (n, 256)."""
    x, importance = turned(x, runs), None if importance is None else turned(importance, runs)
    weight = weights(x, importance, 2)
    scale = symmetric_scale(x, weight, lowest, -lowest - 1, shifts)
    d = half(extremes(scale, 1) / np.float32(scale_lowest))
    scales = nearest(divide(scale, d), scale_lowest, -scale_lowest - 1)

    def numbers_of(d: Array) -> tuple[Array, Array]:
        wide = d * scales
        numbers = nearest(divide(x, wide), lowest, -lowest - 1)
        return numbers, sum_of_blocks(weight * np.square(wide * numbers - x))

    numbers, error = numbers_of(d)
    for _ in range(2):
        steps = scales * numbers
        scaled = weight * steps
        new_d = half(divide(sum_of_blocks(scaled * x), sum_of_blocks(scaled * steps)))
        new_numbers, new_error = numbers_of(new_d)
        better = new_error < error
        d, error = np.where(better, new_d, d), np.where(better, new_error, error)
        numbers = np.where(better, new_numbers, numbers)
    return d, scales, in_blocks(numbers)


def steps(first: float, last: float, count: int) -> tuple[float, ...]:
    """`count` evenly spaced numbers from first to last."""
    return tuple(first + (last - first) * i / (count - 1) for i in range(count))


# -- Writers: each fills the fields of `blocks` (n,) from x (n, 256), with importance (n, 256) or None.


def write_q2_k(x: Array, blocks: Array, importance: Array | None) -> None:
    pack_q2_k(blocks, *affine_block(x, importance, 16, 3, 15, steps(-0.5, 1.0, 16)))


def pack_q2_k(blocks: Array, d: Array, m: Array, scales: Array, minimums: Array, numbers: Array) -> None:
    """d and m (n, 1), scales and minimums (n, 16) in 0 .. 15, numbers (n, 256) in 0 .. 3."""
    blocks["d"], blocks["m"] = d[:, 0], m[:, 0]
    blocks["scales"] = scales.astype(np.uint8) | minimums.astype(np.uint8) << np.uint8(4)
    blocks["low"] = gather(numbers.astype(np.uint8), 32, 2)


def write_q3_k(x: Array, blocks: Array, importance: Array | None) -> None:
    d, scales, numbers = symmetric_block(x, importance, 16, -4, -32, steps(-0.9, 0.9, 19))
    blocks["d"] = d[:, 0]
    six_bits = (scales + 32).astype(np.uint8)
    blocks["scales"][:, :8] = gather(six_bits & np.uint8(15), 8, 4)
    blocks["scales"][:, 8:] = gather(six_bits >> np.uint8(4), 4, 2)
    three_bits = (numbers + 4).astype(np.uint8)
    blocks["low"] = gather(three_bits & np.uint8(3), 32, 2)
    blocks["high"] = gather(three_bits >> np.uint8(2), 32, 1)


def pack_scales(scales: Array, minimums: Array) -> Array:
    """Packs eight scales and eight minimums (n, 8) of six bits into (n, 12) bytes, for q4_K and q5_K."""
    scales, minimums = scales.astype(np.uint8), minimums.astype(np.uint8)
    four, two = np.uint8(4), np.uint8(2)
    high = np.uint8(0x30)
    first = scales[:, :4] | (scales[:, 4:] & high) << two
    second = minimums[:, :4] | (minimums[:, 4:] & high) << two
    both = scales[:, 4:] & np.uint8(15) | minimums[:, 4:] << four
    return np.concatenate([first, second, both], axis=1)


def write_q4_k(x: Array, blocks: Array, importance: Array | None) -> None:
    pack_q4_k(blocks, *affine_block(x, importance, 8, 15, 63, steps(-1.0, 1.0, 21)))


def pack_q4_k(blocks: Array, d: Array, m: Array, scales: Array, minimums: Array, numbers: Array) -> None:
    """d and m (n, 1), scales and minimums (n, 8) in 0 .. 63, numbers (n, 256) in 0 .. 15."""
    blocks["d"], blocks["m"] = d[:, 0], m[:, 0]
    blocks["scales"] = pack_scales(scales, minimums)
    blocks["low"] = gather(numbers.astype(np.uint8), 32, 4)


def write_q5_k(x: Array, blocks: Array, importance: Array | None) -> None:
    d, m, scales, minimums, numbers = affine_block(x, importance, 8, 31, 63, steps(-0.5, 1.0, 16))
    blocks["d"], blocks["m"] = d[:, 0], m[:, 0]
    blocks["scales"] = pack_scales(scales, minimums)
    five_bits = numbers.astype(np.uint8)
    blocks["low"] = gather(five_bits & np.uint8(15), 32, 4)
    blocks["high"] = gather(five_bits >> np.uint8(4), 32, 1)


def write_q6_k(x: Array, blocks: Array, importance: Array | None) -> None:
    pack_q6_k(blocks, *symmetric_block(x, importance, 16, -32, -128, steps(-0.9, 0.9, 19)))


def pack_q6_k(blocks: Array, d: Array, scales: Array, numbers: Array) -> None:
    """d (n, 1), scales (n, 16) in -128 .. 127, numbers (n, 256) in -32 .. 31."""
    blocks["d"] = d[:, 0]
    blocks["scales"] = scales.astype(np.int8)
    six_bits = (numbers + 32).astype(np.uint8)
    blocks["low"] = gather(six_bits & np.uint8(15), 64, 4)
    blocks["high"] = gather(six_bits >> np.uint8(4), 32, 2)


def write_q8_k(x: Array, blocks: Array, importance: Array | None) -> None:
    """Quantises activations: an f32 scale with which the extreme value becomes -127, and sums of 16 numbers."""
    scale = extremes(x, 1) / np.float32(-127)
    numbers = nearest(divide(x, scale), -127, 127)
    blocks["d"] = scale[:, 0]
    blocks["low"] = numbers.astype(np.int8)
    blocks["sums"] = numbers.reshape(-1, 16, 16).sum(axis=2).astype(np.int16)
