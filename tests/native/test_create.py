"""Kernels for new values: fill, arange, triangular, one_hot."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.checks import run_checked
from tests.native.kernels import (
    BAD_ARGUMENT,
    INDEX_RANGE,
    TYPES,
    Kernels,
    element_strides,
    number_bits,
    store_as,
    unaligned,
    values_of,
)


def empty(dtype: str, *shape: int) -> np.ndarray:
    stored = {"bfloat16": "uint16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}.get(dtype, dtype)
    return unaligned(np.ones(shape, stored))


@pytest.mark.parametrize("count", [0, 1, 33, 1000])
@pytest.mark.parametrize("dtype", TYPES)
def test_fill(kernels: Kernels, dtype: str, count: int) -> None:
    y = empty(dtype, count + 1)
    value = 1 if dtype == "bool" else 2.5 if "float" in dtype else 100
    run_checked(kernels, "fill", "y", y=y, type=TYPES[dtype], count=count, number=number_bits(dtype, value))
    bits = {"float8_e4m3fn": 0x42, "float8_e5m2": 0x41, "bfloat16": 0x4020}
    expected = bits.get(dtype, value)
    assert (y[:count] == expected).all() and y[count] == 1


def test_fill_with_what_floats_cannot_hold(kernels: Kernels) -> None:
    y = np.zeros(3, np.int64)
    run_checked(kernels, "fill", "y", y=y, type=TYPES["int64"], count=3, number=2**62 + 1)
    assert (y == 2**62 + 1).all()
    run_checked(kernels, "fill", "y", y=y, type=TYPES["uint64"], count=3, number=-1)
    assert (y.view(np.uint64) == 2**64 - 1).all()


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int8", "uint8"])
def test_arange(kernels: Kernels, dtype: str) -> None:
    start, step, count = (0.5, 0.1, 600) if "float" in dtype else (-3 if dtype[0] != "u" else 3, 2, 60)
    y = empty(dtype, count)
    numbers = {"start": number_bits(dtype, start), "step": number_bits(dtype, step)}
    run_checked(kernels, "arange", "y", y=y, type=TYPES[dtype], count=count, **numbers)
    exact = start + np.arange(count) * step
    expected = values_of(dtype, store_as(dtype, exact))
    np.testing.assert_allclose(values_of(dtype, y), expected, rtol=1e-15)  # a fused product differs in the last bit


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("diagonal", [-300, -2, 0, 1, 300])
def test_triangular(kernels: Kernels, size: int, diagonal: int) -> None:
    whole = np.random.default_rng(1).integers(1, 99, (2, 7, 280)).astype(f"u{size}")
    for x in (whole, whole.transpose(0, 2, 1), whole[:, ::2, ::-3]):
        for upper, function in ((1, np.triu), (0, np.tril)):
            y = unaligned(np.zeros(x.shape, x.dtype))
            sizes = dict(zip(("batch", "rows", "columns"), x.shape, strict=True))
            strides = dict(zip(("x_batch", "x_row", "x_column"), element_strides(x), strict=True))
            arguments = {"element_bytes": size, "diagonal": diagonal, "upper": upper, **sizes, **strides}
            run_checked(kernels, "triangular", "y", y=y, x=x, **arguments)
            np.testing.assert_array_equal(y, function(x, diagonal))


@pytest.mark.parametrize("dtype", ["int64", "float32", "bfloat16", "bool", "float64"])
@pytest.mark.parametrize("index_type", ["int64", "int32"])
def test_one_hot(kernels: Kernels, dtype: str, index_type: str) -> None:
    index = np.array([3, 0, 6, 3, 1], index_type)
    y = empty(dtype, 5, 7)
    arguments = {"type": TYPES[dtype], "index_type": TYPES[index_type], "count": 5, "classes": 7}
    run_checked(kernels, "one_hot", "y", y=y, index=index, **arguments)
    np.testing.assert_array_equal(values_of(dtype, y), np.eye(7)[index])
    for bad in (-1, 7):
        index[2] = bad
        assert kernels.run("one_hot", y=y, index=index, **arguments) == INDEX_RANGE


def test_bad_records_are_refused(kernels: Kernels) -> None:
    y, x = np.zeros(8), np.ones(8)
    assert kernels.run("fill", y=y, type=99, count=3) == BAD_ARGUMENT
    assert kernels.run("fill", y=y, type=0, count=-3) == BAD_ARGUMENT
    assert kernels.run("arange", y=y, type=TYPES["bool"], count=3) == BAD_ARGUMENT
    assert kernels.run("triangular", y=y, x=x, element_bytes=3, batch=1, rows=2, columns=2) == BAD_ARGUMENT
    assert kernels.run("one_hot", y=y, index=x, type=TYPES["int64"], index_type=TYPES["int16"], count=2) == BAD_ARGUMENT
