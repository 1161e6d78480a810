"""Conversions between float formats: every half, and every kind of rounding."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.checks import normal, run_checked
from tests.native.kernels import SIZES, Kernels, from_bf16, to_bf16, unaligned

EVERY_HALF = np.arange(65_536, dtype=np.uint32).astype(np.uint16)
ROUNDING = np.array(
    [65504, 65519.99, 65520, 65536, 1e30, 2**-14, 2**-24, 2**-25, 2**-25 * 1.01, 6.1e-5, 1e-45, 0, np.inf]
)


def interesting_floats() -> np.ndarray:
    halves = EVERY_HALF.view(np.float16).astype(np.float32)
    halves = halves[np.isfinite(halves)]
    between = (halves[:-1] + halves[1:]) / 2  # ties
    random = np.random.default_rng(5).integers(0, 2**32, 50_000, np.uint32).view(np.float32)
    return np.concatenate([halves, between, ROUNDING, -ROUNDING, random[~np.isnan(random)], normal(999)]).astype(
        np.float32
    )


def test_every_f16_becomes_its_f32(kernels: Kernels) -> None:
    x, y = unaligned(EVERY_HALF), unaligned(np.empty(EVERY_HALF.size, np.float32))
    run_checked(kernels, "f16_to_f32", "y", y=y, x=x, count=x.size)
    np.testing.assert_array_equal(y, x.view(np.float16).astype(np.float32))
    numbers = ~np.isnan(y)
    np.testing.assert_array_equal(np.signbit(y[numbers]), np.signbit(x.view(np.float16)[numbers]))


def test_every_bf16_becomes_its_f32(kernels: Kernels) -> None:
    x, y = unaligned(EVERY_HALF), unaligned(np.empty(EVERY_HALF.size, np.float32))
    run_checked(kernels, "bf16_to_f32", "y", y=y, x=x, count=x.size)
    np.testing.assert_array_equal(y, from_bf16(x))


def test_f32_to_f16_rounds_to_even(kernels: Kernels) -> None:
    x = unaligned(interesting_floats())
    y = unaligned(np.empty(x.size, np.uint16))
    run_checked(kernels, "f32_to_f16", "y", y=y, x=x, count=x.size)
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(y, x.astype(np.float16).view(np.uint16))


def test_f32_to_bf16_rounds_to_even(kernels: Kernels) -> None:
    x = unaligned(interesting_floats())
    y = unaligned(np.empty(x.size, np.uint16))
    run_checked(kernels, "f32_to_bf16", "y", y=y, x=x, count=x.size)
    np.testing.assert_array_equal(y, to_bf16(x))


def test_nan_stays_nan(kernels: Kernels) -> None:
    bits = [0x7F800001, 0x7FC00000, 0x7FFFFFFF, 0xFF800001, 0xFFFFFFFF]
    x = np.array(bits, np.uint32).view(np.float32)
    y = np.empty(x.size, np.uint16)
    run_checked(kernels, "f32_to_f16", "y", y=y, x=x, count=x.size)
    assert np.isnan(y.view(np.float16)).all()
    run_checked(kernels, "f32_to_bf16", "y", y=y, x=x, count=x.size)
    assert np.isnan(from_bf16(y)).all()
    assert (y >> 15 == [0, 0, 0, 1, 1]).all()


@pytest.mark.parametrize("count", SIZES)
def test_odd_counts_write_no_more(kernels: Kernels, count: int) -> None:
    wide, narrow = normal(count + 1), np.full(count + 1, 77, np.uint16)
    for kernel in ("f32_to_f16", "f32_to_bf16"):
        run_checked(kernels, kernel, "y", y=narrow, x=wide, count=count)
        assert narrow[count] == 77
    np.testing.assert_array_equal(narrow[:count], to_bf16(wide[:count]))
    back = np.full(count + 1, 77, np.float32)
    for kernel in ("f16_to_f32", "bf16_to_f32"):
        run_checked(kernels, kernel, "y", y=back, x=narrow, count=count)
        assert back[count] == 77
    np.testing.assert_array_equal(back[:count], from_bf16(narrow[:count]))
