"""Running sums, products and extremes: every operation with every type, along every dim."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.checks import normal, run_checked
from tests.native.kernels import (
    BAD_ARGUMENT,
    OK,
    TYPES,
    Kernels,
    element_strides,
    read_opcodes,
    store_as,
    unaligned,
    values_of,
)

OPCODES = read_opcodes("scan")
CODES = {name: code for code, name in enumerate(OPCODES)}
PAIRS = [(name, dtype) for name, (dtypes, _) in OPCODES.items() for dtype in dtypes]
ACCUMULATE = {
    "cumsum": np.add.accumulate,
    "cumprod": np.multiply.accumulate,
    "cummax": np.maximum.accumulate,
    "cummin": np.minimum.accumulate,
    "logcumsumexp": np.logaddexp.accumulate,
}


def scan(kernels: Kernels, name: str, dtype: str, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """x (outer, length, inner) of any strides."""
    outer, length, inner = x.shape
    widens = OPCODES[name][1] == "number" and "float" not in dtype
    y = unaligned(np.empty(x.shape, np.int64 if widens else x.dtype))
    indices = np.full(x.shape, -1, np.int64)
    strides = dict(zip(("x_outer", "x_dim", "x_inner"), element_strides(x), strict=True))
    arguments = {
        "opcode": CODES[name],
        "type": TYPES[dtype],
        "outer": outer,
        "length": length,
        "inner": inner,
        **strides,
    }
    run_checked(kernels, "scan", "y", y=y, x=x, **arguments)
    run_checked(kernels, "scan", "y", "indices", y=y, indices=indices, x=x, **arguments)
    return y, indices


@pytest.mark.parametrize("name, dtype", PAIRS)
def test_scan(kernels: Kernels, name: str, dtype: str) -> None:
    rng = np.random.default_rng(3)
    low, high = (0, 2) if dtype == "bool" else (0, 4) if dtype == "uint8" else (-3, 4)
    whole = store_as(dtype, rng.integers(low, high, (3, 40, 5)))
    long, wide = (
        store_as(dtype, rng.integers(low, high, (2, 600, 1))),
        store_as(dtype, rng.integers(low, high, (2, 3, 300))),
    )
    for x in (whole, whole.transpose(0, 2, 1), whole.transpose(2, 1, 0), whole[:, ::-3, ::2], long, wide, whole[:, :0]):
        y, indices = scan(kernels, name, dtype, x)
        values = values_of(dtype, x)
        widened = values.astype(np.float64 if values.dtype.kind == "f" else np.int64)
        with np.errstate(over="ignore", invalid="ignore"):
            expected = ACCUMULATE[name](widened, axis=1)
            expected = values_of(dtype, store_as(dtype, expected)) if "float" in dtype else expected.astype(y.dtype)
        found = values_of(dtype, y) if "float" in dtype else y
        if name == "logcumsumexp":
            relative = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-7, "float64": 1e-13}[dtype]
            np.testing.assert_allclose(found, expected, rtol=relative, atol=relative)
        else:
            np.testing.assert_array_equal(found, expected)
        if name in ("cummax", "cummin") and x.size:
            at = np.arange(x.shape[1]).reshape(-1, 1)
            last_hit = np.maximum.accumulate(np.where(values == expected, at, 0), axis=1)
            np.testing.assert_array_equal(indices, last_hit)


@pytest.mark.parametrize("dtype", ["float32", "int64", "bool"])
@pytest.mark.parametrize("shape", [(1, 5001, 1), (2, 2048, 3)])
def test_long_scans(kernels: Kernels, dtype: str, shape: tuple[int, int, int]) -> None:
    x = np.random.default_rng(4).integers(-3 * (dtype != "bool"), 2, shape).astype(dtype)
    y, _ = scan(kernels, "cumsum", dtype, x)
    np.testing.assert_array_equal(y, np.cumsum(x, 1, np.int64))
    if dtype == "bool":
        return
    x = (np.arange(x.size).reshape(shape) // 700 + x).astype(dtype)
    y, indices = scan(kernels, "cummax", dtype, x)
    expected = np.maximum.accumulate(x, 1)
    np.testing.assert_array_equal(y, expected)
    places = np.where(x == expected, np.arange(shape[1]).reshape(-1, 1), 0)
    np.testing.assert_array_equal(indices, np.maximum.accumulate(places, 1))


def test_nan_stays_the_extreme(kernels: Kernels) -> None:
    x = normal(1, 50, 1)
    x[0, [7, 20]] = np.nan
    y, indices = scan(kernels, "cummax", "float32", x)
    assert np.isnan(y[0, 7:]).all() and not np.isnan(y[0, :7]).any()
    assert (indices[0, 7:20] == 7).all() and (indices[0, 20:] == 20).all()


def test_infinite_logarithms(kernels: Kernels) -> None:
    x = np.array([-np.inf, -np.inf, 0, np.inf, 1, np.nan, 1]).reshape(1, 7, 1)
    y, _ = scan(kernels, "logcumsumexp", "float64", x)
    np.testing.assert_array_equal(y.ravel(), [-np.inf, -np.inf, 0, np.inf, np.inf, np.nan, np.nan])


def test_bad_scans_are_refused(kernels: Kernels) -> None:
    x, y = np.ones(6, np.float32), np.zeros(6)
    good = {
        "opcode": 0,
        "type": TYPES["float32"],
        "outer": 2,
        "length": 3,
        "inner": 1,
        "x_outer": 3,
        "x_dim": 1,
        "x_inner": 1,
    }
    assert kernels.run("scan", y=y, x=x, **good) == OK
    for bad in (
        {"opcode": -1},
        {"opcode": len(OPCODES)},
        {"type": TYPES["float8_e5m2"]},
        {"length": -1},
        {"outer": -2},
    ):
        assert kernels.run("scan", y=y, x=x, **{**good, **bad}) == BAD_ARGUMENT, bad
