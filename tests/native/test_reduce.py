"""Reductions: sums and largest elements of rows of float32, and every operation with every type."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.native.checks import normal, run_checked, strided
from tests.native.kernels import (
    BAD_ARGUMENT,
    OK,
    SIZES,
    TYPES,
    Kernels,
    element_strides,
    read_opcodes,
    store_as,
    unaligned,
    values_of,
)


@pytest.mark.parametrize("rows", [0, 1, 7])
@pytest.mark.parametrize("columns", [*SIZES, 288, 4097, 100_003])
def test_sum_rows(kernels: Kernels, rows: int, columns: int) -> None:
    memory, x = strided(normal(rows, columns) + np.float32(1))
    y = np.full(rows, np.nan, np.float32)
    run_checked(kernels, "sum_rows_f32", "y", y=y, x=memory, rows=rows, columns=columns, x_stride=memory.shape[1])
    np.testing.assert_allclose(y, x.sum(-1, dtype=np.float64), rtol=2e-6, atol=1e-5)


def test_sum_of_special_values(kernels: Kernels) -> None:
    x = np.ones((4, 33), np.float32)
    x[0, 32], x[1, 3], x[2, [1, 30]] = np.nan, -np.inf, [np.inf, -np.inf]
    y = np.empty(4, np.float32)
    run_checked(kernels, "sum_rows_f32", "y", y=y, x=x, rows=4, columns=33, x_stride=33)
    np.testing.assert_array_equal(y, np.array([np.nan, -np.inf, np.nan, 33], np.float32))


@pytest.mark.parametrize("rows", [0, 1, 7])
@pytest.mark.parametrize("columns", [*SIZES[1:], 512, 32_001])
def test_argmax(kernels: Kernels, rows: int, columns: int) -> None:
    memory, x = strided(np.round(normal(rows, columns, scale=2)))  # rounded: many ties, of which the first counts
    index = np.full(rows, -7, np.int32)
    run_checked(
        kernels, "argmax_f32", "index", index=index, x=memory, rows=rows, columns=columns, x_stride=memory.shape[1]
    )
    np.testing.assert_array_equal(index, x.argmax(-1))


def test_argmax_of_special_rows(kernels: Kernels) -> None:
    x = normal(6, 35)
    x[0, 34], x[1, [3, 5]], x[2], x[3, 33], x[4, 34] = np.nan, np.nan, -np.inf, np.inf, 3e38
    x[1, 2] = np.inf
    index = np.empty(6, np.int32)
    run_checked(kernels, "argmax_f32", "index", index=index, x=x, rows=6, columns=35, x_stride=35)
    np.testing.assert_array_equal(index, x.argmax(-1))
    assert list(index[:5]) == [34, 3, 0, 33, 34]


def test_argmax_of_nothing_leaves_the_index(kernels: Kernels) -> None:
    index = np.array([-7], np.int32)
    run_checked(kernels, "argmax_f32", "index", index=index, rows=1, columns=0)
    assert index[0] == -7


@pytest.mark.parametrize("rows", [*SIZES, 300])
@pytest.mark.parametrize("columns", [*SIZES, 288, 1003])
def test_sum_columns(kernels: Kernels, rows: int, columns: int) -> None:
    memory, x = strided(normal(rows, columns) + np.float32(1))
    y = np.full(columns, np.nan, np.float32)
    run_checked(kernels, "sum_columns_f32", "y", y=y, x=memory, rows=rows, columns=columns, x_stride=memory.shape[1])
    np.testing.assert_allclose(y, x.sum(0, dtype=np.float64), rtol=2e-6, atol=1e-5)


def test_sum_columns_of_special_values(kernels: Kernels) -> None:
    x = np.ones((140, 33), np.float32)
    x[0, 32], x[139, 3], x[[2, 130], 7] = np.nan, -np.inf, [np.inf, -np.inf]
    expected = np.full(33, 140, np.float32)
    expected[[32, 3, 7]] = np.nan, -np.inf, np.nan
    y = np.empty(33, np.float32)
    run_checked(kernels, "sum_columns_f32", "y", y=y, x=x, rows=140, columns=33, x_stride=33)
    np.testing.assert_array_equal(y, expected)


# ---- any operation, type and strides

REDUCE = read_opcodes("reduce")
REDUCE_CODES = {name: code for code, name in enumerate(REDUCE)}
REDUCE_PAIRS = [(name, dtype) for name, (dtypes, _) in REDUCE.items() for dtype in dtypes]


def result_type(name: str, dtype: str) -> str:
    kind = REDUCE[name][1]
    return dtype if kind == "same" or (kind == "number" and "float" in dtype) else "int64" if kind != "bool" else "bool"


def reduce(
    kernels: Kernels, name: str, dtype: str, x: np.ndarray, y_type: str | None = None, correction: float = 0.0
) -> np.ndarray:
    """x (outer, reduced, inner) of any strides."""
    y_type = y_type or result_type(name, dtype)
    outer, reduced, inner = x.shape
    y = unaligned(np.empty((outer, inner), np.uint16 if y_type == "bfloat16" else y_type))
    strides = dict(zip(("x_outer", "x_reduced", "x_inner"), element_strides(x), strict=True))
    arguments = {"opcode": REDUCE_CODES[name], "x_type": TYPES[dtype], "y_type": TYPES[y_type]}
    arguments |= {"outer": outer, "reduced": reduced, "inner": inner}
    run_checked(kernels, "reduce", "y", y=y, x=x, correction=correction, **arguments, **strides)
    return y


def reference(name: str, values: np.ndarray) -> np.ndarray:
    wide = values.astype(np.float64) if values.dtype.kind == "f" else values.astype(np.int64)
    if name == "sum_squares":
        return (wide * wide).sum(1)
    return getattr(np, name)(values if name in ("argmax", "argmin", "any", "all") else wide, axis=1)


@pytest.mark.parametrize("name, dtype", REDUCE_PAIRS)
def test_reduce(kernels: Kernels, name: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    low, high = (0, 2) if dtype == "bool" else (0, 3) if dtype == "uint8" else (-3, 4)
    whole = store_as(dtype, rng.integers(low, high, (3, 70, 5)) + (0.25 if "float" in dtype and name == "prod" else 0))
    long = store_as(dtype, rng.integers(low, high, (2, 700, 1)))
    wide = store_as(dtype, rng.integers(low, high, (2, 3, 300)))
    for x in (whole, whole.transpose(0, 2, 1), whole.transpose(2, 1, 0), whole[:, ::-7, ::2], long, wide, whole[:, :1]):
        if name == "prod" and x.shape[1] > 70:
            continue
        found = values_of(result_type(name, dtype), reduce(kernels, name, dtype, x))
        expected = reference(name, values_of(dtype, x))
        if "float" in dtype and name == "prod":
            relative = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 1e-6, "float64": 1e-12}[dtype]
            with np.errstate(over="ignore"):
                expected = values_of(dtype, store_as(dtype, expected)).astype(np.float64)
            np.testing.assert_allclose(found.astype(np.float64), expected, rtol=relative)
        elif name == "var":
            relative = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 3e-7, "float64": 1e-14}[dtype]
            np.testing.assert_allclose(found.astype(np.float64), expected, rtol=relative)
        elif dtype == "bfloat16" and name in ("sum", "sum_squares"):
            np.testing.assert_array_equal(found, values_of(dtype, store_as(dtype, expected)))
        else:
            np.testing.assert_array_equal(found, expected.astype(found.dtype))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_nan_wins(kernels: Kernels, dtype: str) -> None:
    x = normal(4, 70, 3).astype(dtype)
    x[0, 3, 1] = x[0, 9, 1] = x[2, 69, 0] = np.nan
    x[3, 5] = np.inf
    for view in (x, np.ascontiguousarray(x.transpose(0, 2, 1)).transpose(0, 2, 1)):
        for name in ("max", "min", "argmax", "argmin"):
            np.testing.assert_array_equal(
                reduce(kernels, name, dtype, view), getattr(np, name)(x, axis=1), err_msg=name
            )
    assert reduce(kernels, "argmax", dtype, x)[0, 1] == 3
    assert reduce(kernels, "any", dtype, x[:1, 3:4, 1:2])[0, 0]  # NaN is not zero


def test_sums_of_many(kernels: Kernels) -> None:
    x = np.abs(normal(1, 1_000_003, 1)) + np.float32(0.1)
    exact = x.astype(np.float64).sum()
    assert abs(reduce(kernels, "sum", "float32", x)[0, 0] - exact) <= np.spacing(np.float32(exact))
    wide = reduce(kernels, "sum", "float32", x, "float64")[0, 0]
    assert abs(wide - math.fsum(x.ravel().tolist())) <= 4 * np.spacing(exact)
    y = np.random.default_rng(8).standard_normal((1, 300_000, 1))
    assert abs(reduce(kernels, "sum", "float64", y)[0, 0] - math.fsum(y.ravel())) <= 1e-12
    half = np.ones((1, 70_000, 1), np.float16)
    assert reduce(kernels, "sum", "float16", half, "float32")[0, 0] == 70_000
    assert reduce(kernels, "sum", "float16", half)[0, 0] == np.inf


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_variance(kernels: Kernels, dtype: str) -> None:
    """Also far from 0, where the mean does not fit into a float, and of squares that a half does not hold."""
    for mean, size, count in ((0, 1, 1), (0, 1, 2), (0, 1, 5000), (3e5, 1, 5000), (-7e7, 300, 257), (100, 900, 70)):
        if dtype == "float16" and abs(mean) > 1000:
            continue
        x = (mean + normal(2, count, 3).astype(np.float64) * size).astype(dtype)
        expected = x.astype(np.float64).var(1)
        for view in (x, np.asfortranarray(x)):
            found = reduce(kernels, "var", dtype, view, "float64")
            np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-30)
        if count > 2:
            found = reduce(kernels, "var", dtype, x, "float64", correction=1.5)
            np.testing.assert_allclose(found, expected * (count / (count - 1.5)), rtol=1e-6)
    x = np.ones((4, 33, 1), dtype)
    x[0, 32], x[1, 3], x[2, 30] = np.nan, -np.inf, np.inf
    np.testing.assert_array_equal(reduce(kernels, "var", dtype, x)[:, 0], [np.nan, np.nan, np.nan, 0])


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "float64", "int64"])
@pytest.mark.parametrize("name", ["sum", "sum_squares", "max", "min", "argmax", "var", "any"])
@pytest.mark.parametrize(
    "shape, order",
    [
        ((3, 2048, 1), (0, 1, 2)),  # dense lines
        ((2, 9000, 1), (0, 1, 2)),  # in several parts
        ((1, 300, 256), (0, 1, 2)),  # columns in tiles
        ((2, 700, 72), (0, 1, 2)),
        ((1, 1500, 130), (0, 1, 2)),
        ((5, 40, 64), (0, 1, 2)),
        ((2, 130, 96), (0, 2, 1)),
    ],
)
def test_large_reductions(
    kernels: Kernels, name: str, dtype: str, shape: tuple[int, int, int], order: tuple[int, int, int]
) -> None:
    """Where vectors of elements are read, and long lines are divided; whole numbers, so that sums are exact."""
    if dtype not in REDUCE[name][0]:
        return
    whole = store_as(dtype, np.random.default_rng(9).integers(-2, 3, shape))
    x = whole.transpose(order)
    expected = reference(name, values_of(dtype, x))
    y_type = "float32" if dtype in ("float16", "bfloat16") and name in ("sum", "sum_squares", "var") else None
    found = values_of(y_type or result_type(name, dtype), reduce(kernels, name, dtype, x, y_type))
    if name == "var":
        np.testing.assert_allclose(found, expected, rtol=1e-6)
    else:
        np.testing.assert_array_equal(found, expected.astype(found.dtype))


def test_integer_sums_wrap(kernels: Kernels) -> None:
    x = np.full((1, 3, 1), 2**62, np.int64)
    assert reduce(kernels, "sum", "int64", x)[0, 0] == 3 * 2**62 - 2**64
    assert reduce(kernels, "prod", "int64", x)[0, 0] == 0


def test_reductions_of_nothing(kernels: Kernels) -> None:
    x = np.empty((2, 0, 3), np.float32)
    for name, value in (("sum", 0), ("prod", 1), ("any", False), ("all", True), ("sum_squares", 0)):
        assert (reduce(kernels, name, "float32", x) == value).all()
    arguments = {"x_type": TYPES["float32"], "outer": 2, "reduced": 0, "inner": 3}
    for name in ("max", "min", "argmax", "argmin"):
        y_type = TYPES[result_type(name, "float32")]
        y = np.zeros(6, np.int64)
        assert kernels.run("reduce", y=y, x=x, opcode=REDUCE_CODES[name], y_type=y_type, **arguments) == BAD_ARGUMENT


def test_bad_reductions_are_refused(kernels: Kernels) -> None:
    x, y = np.ones(6, np.float32), np.zeros(6)
    good = {"opcode": REDUCE_CODES["sum"], "x_type": TYPES["float32"], "y_type": TYPES["float32"]}
    good |= {"outer": 2, "reduced": 3, "inner": 1, "x_outer": 3, "x_reduced": 1, "x_inner": 1}
    assert kernels.run("reduce", y=y, x=x, **good) == OK
    bads = [{"opcode": -1}, {"opcode": len(REDUCE)}, {"y_type": TYPES["int64"]}, {"x_type": TYPES["uint64"]}]
    bads += [{"reduced": -1}, {"outer": -1}, {"opcode": REDUCE_CODES["any"]}, {"opcode": REDUCE_CODES["argmax"]}]
    for bad in bads:
        assert kernels.run("reduce", y=y, x=x, **{**good, **bad}) == BAD_ARGUMENT, bad
