"""Conversions between element types: every half, every kind of rounding, every pair of types."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.native.checks import normal, run_checked
from tests.native.kernels import (
    BAD_ARGUMENT,
    OK,
    SIZES,
    TYPES,
    Kernels,
    dims,
    element_strides,
    from_bf16,
    store_as,
    to_bf16,
    unaligned,
    values_of,
)

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


# ---- any type to any other


def float8_values(dtype: str) -> np.ndarray:
    """The value of each of the 256 codes, from the definition of the format."""
    codes = np.arange(256)
    if dtype == "float8_e5m2":
        return (codes.astype(np.uint16) << 8).view(np.float16).astype(np.float64)
    exponent, fraction = codes >> 3 & 15, codes & 7
    size = np.where(exponent == 0, np.ldexp(fraction / 8, -6), np.ldexp(1 + fraction / 8, exponent - 7))
    size[codes & 127 == 127] = np.nan
    return np.where(codes < 128, size, -size)


def read_as(dtype: str, array: np.ndarray) -> np.ndarray:
    if dtype.startswith("float8"):
        return float8_values(dtype)[array]
    return values_of(dtype, array)


def to_float8(dtype: str, values: np.ndarray) -> np.ndarray:
    """The nearest code, the even one of two; past the largest: it itself (e4m3fn), or infinity (e5m2)."""
    last = 126 if dtype == "float8_e4m3fn" else 123
    known = float8_values(dtype)[: last + 1]
    between = np.append((known[1:] + known[:-1]) / 2, known[-1] + (known[-1] - known[-2]) / 2)
    size = np.abs(values.astype(np.float32)).astype(np.float64)
    code = np.searchsorted(between, size)
    code = np.minimum(code + (np.isin(size, between) & (code % 2 == 1)), 126 if last == 126 else 124)
    return (np.where(np.isnan(size), 127, code) + np.where(np.signbit(values), 128, 0)).astype(np.uint8)


def expected_cast(to: str, values: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        if to.startswith("float8"):
            return to_float8(to, values)
        if to == "bfloat16":
            bits = to_bf16(np.nan_to_num(values.astype(np.float32), nan=0, posinf=np.inf, neginf=-np.inf))
            return np.where(np.isnan(values), np.uint16(0x7FC0), bits).astype(np.uint16)
        if to == "float16":
            return values.astype(np.float32).astype(np.float16)
        if to == "bool":
            return values != 0
        if values.dtype.kind != "f" or to.startswith("float"):
            return values.astype(to)
        exact = [None if math.isnan(v) or math.isinf(v) else int(v) for v in values.astype(np.float64).tolist()]
        bits = {"uint32": 64, "uint64": 64, "int64": 64}.get(to, 32)
        default = 0 if to in ("uint32", "uint64") else -(2 ** (bits - 1))
        high = 2**64 if to == "uint64" else 2 ** (bits - 1)
        fits = [v if v is not None and -(2 ** (bits - 1)) <= v < high else default for v in exact]
        return np.array([v % 2**64 for v in fits], np.uint64).astype(to)


def some_values(dtype: str) -> np.ndarray:
    rng = np.random.default_rng(9)
    if dtype == "bool":
        return rng.random(300) < 0.5
    if dtype.startswith("float8"):
        return np.arange(256).astype(np.uint8)
    if "float" not in dtype:
        info = np.iinfo(dtype)
        ends = np.array([0, 1, info.max, info.min, info.max // 2 + 1], dtype)
        return np.concatenate([ends, rng.integers(info.min, info.max, 400, dtype, endpoint=True)])
    values = [
        0.0,
        -0.0,
        0.49,
        -0.51,
        1.5,
        2.5,
        -1.5,
        255.7,
        256,
        -1,
        300.2,
        3e9,
        -3e9,
        5e9,
        1e19,
        -1e19,
        2e19,
        np.inf,
        -np.inf,
    ]
    values += [448, 464, 464.1, 480, 57344, 61440, 61439, 2**-9, 2**-10, 2**-10 * 1.1, 2**-17, 65519, 65520, 1e-45]
    wide = np.concatenate(
        [rng.standard_normal(300) * 10.0 ** rng.integers(-8, 12, 300), rng.standard_normal(200) * 100]
    )
    with np.errstate(over="ignore"):
        tail = [] if dtype == "bfloat16" else [np.nan]
        return store_as(dtype, np.concatenate([values, wide, tail]))


@pytest.mark.parametrize("to", TYPES)
@pytest.mark.parametrize("dtype", TYPES)
def test_every_pair_of_types(kernels: Kernels, dtype: str, to: str) -> None:
    x = unaligned(some_values(dtype))
    y = unaligned(np.empty(x.size, np.uint8 if to.startswith("float8") else np.uint16 if to == "bfloat16" else to))
    types = {"x_type": TYPES[dtype], "y_type": TYPES[to]}
    run_checked(kernels, "cast", "y", y=y, x=x, rank=1, shape0=x.size, x0=1, **types)
    values = read_as(dtype, x)
    expected = expected_cast(to, values)
    if "float" in to and "float8" not in to:
        found, wanted = values_of(to, y), values_of(to, expected)
        np.testing.assert_array_equal(found, wanted)
        numbers = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(wanted[numbers]))
    else:
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize(
    "dtype, to", [("float32", "float16"), ("int64", "float32"), ("float64", "int8"), ("bool", "int64")]
)
def test_cast_of_views(kernels: Kernels, dtype: str, to: str) -> None:
    whole = (np.random.default_rng(1).standard_normal((5, 4, 7)) * 50).astype(dtype)
    for x in (
        whole,
        whole.transpose(2, 0, 1),
        whole[::2, ::-1, 1::3],
        np.broadcast_to(whole[:, :1], (5, 90, 7)),
        whole[:0],
    ):
        y = np.empty(x.shape, to)
        arguments = {"x_type": TYPES[dtype], "y_type": TYPES[to], "rank": 3}
        arguments |= dims("shape", x.shape) | dims("x", element_strides(x))
        run_checked(kernels, "cast", "y", y=y, x=x, **arguments)
        with np.errstate(over="ignore"):
            np.testing.assert_array_equal(y, x.astype(to))


def test_bad_casts_are_refused(kernels: Kernels) -> None:
    x, y = np.ones(4, np.float32), np.zeros(4)
    good = {"x_type": TYPES["float32"], "y_type": TYPES["float64"], "rank": 1, "shape0": 4, "x0": 1}
    assert kernels.run("cast", y=y, x=x, **good) == OK
    for bad in ({"x_type": -1}, {"y_type": len(TYPES)}, {"rank": 7}, {"shape0": -1}):
        assert kernels.run("cast", y=y, x=x, **{**good, **bad}) == BAD_ARGUMENT
