"""Sorting along a dim, and top-k."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.checks import run_checked
from tests.native.kernels import BAD_ARGUMENT, OK, TYPES, Kernels, element_strides, store_as, unaligned, values_of

DTYPES = ["float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool"]


def sort(
    kernels: Kernels, dtype: str, x: np.ndarray, count: int, descending: bool, workspaces: int = 4
) -> tuple[np.ndarray, np.ndarray]:
    """x (outer, length, inner) of any strides."""
    outer, length, inner = x.shape
    y, indices = unaligned(np.zeros((outer, count, inner), x.dtype)), np.full((outer, count, inner), -1, np.int64)
    strides = dict(zip(("x_outer", "x_dim", "x_inner"), element_strides(x), strict=True))
    arguments = {"type": TYPES[dtype], "outer": outer, "length": length, "inner": inner, "count": count, **strides}
    arguments |= {"descending": int(descending), "workspaces": workspaces}
    scratch = np.zeros(32 * min(length, 2 * count + 128) * workspaces, np.uint8)
    run_checked(kernels, "sort", "y", "indices", y=y, indices=indices, x=x, scratch=scratch, **arguments)
    return y, indices


def order_of(values: np.ndarray, descending: bool) -> np.ndarray:
    """Stable along the middle dim; NaN is the largest."""
    if not descending:
        return np.argsort(values, axis=1, kind="stable")
    return values.shape[1] - 1 - np.flip(np.argsort(np.flip(values, 1), axis=1, kind="stable"), 1)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sort(kernels: Kernels, dtype: str, descending: bool) -> None:
    rng = np.random.default_rng(3)
    for shape in ((3, 1, 2), (2, 48, 3), (2, 49, 3), (1, 1000, 1), (2, 0, 3)):
        if dtype == "bool":
            whole = rng.random(shape) < 0.5
        elif "float" in dtype:
            whole = store_as(dtype, rng.integers(-9, 9, shape) * rng.choice([1, 1, 1000, 1e-3], shape))
        else:
            info = np.iinfo(dtype)
            whole = rng.choice(rng.integers(info.min, info.max, 30, dtype, endpoint=True), shape)
        for x in (whole, np.asfortranarray(whole), whole[:, ::-1]):
            y, indices = sort(kernels, dtype, x, x.shape[1], descending)
            expected = order_of(values_of(dtype, x), descending)
            np.testing.assert_array_equal(indices, expected)
            np.testing.assert_array_equal(y, np.take_along_axis(x, expected, 1))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("descending", [False, True])
def test_sort_of_special_values(kernels: Kernels, dtype: str, descending: bool) -> None:
    values = np.array([1, np.nan, -0.0, 0.0, -np.inf, np.inf, -1, np.nan, 0.0, -0.0, 5e-8, -5e-8] * 6, dtype)
    values[1] = -values[1]  # a NaN whose sign is set
    x = values.reshape(1, -1, 1)
    y, indices = sort(kernels, dtype, x, x.size, descending)
    np.testing.assert_array_equal(indices, order_of(x, descending))
    assert y.tobytes() == np.take_along_axis(x, indices, 1).tobytes()  # -0 stays -0
    best, at = sort(kernels, dtype, x, 16, descending)
    np.testing.assert_array_equal(at, indices[:, :16])
    np.testing.assert_array_equal(best, y[:, :16])


def lines(length: int) -> dict[str, np.ndarray]:
    """Lines (1, length, 1) of float64 that are easy and hard to find the first few of."""
    rng = np.random.default_rng(5)
    found = {
        "normal": rng.standard_normal(length),
        "ties": np.round(rng.standard_normal(length) * 3),
        "ascending": np.arange(length) - length / 2.0,
        "descending": length / 2.0 - np.arange(length),
        "one value": np.ones(length),
        "zeros": np.where(rng.random(length) < 0.5, 0.0, -0.0),
        "nan": np.where(rng.random(length) < 0.1, np.nan, rng.standard_normal(length)),
        "only nan": np.full(length, np.nan),
        "infinite": rng.choice([np.inf, -np.inf, 1.0, np.nan], length),
    }
    return {name: line.reshape(1, length, 1) for name, line in found.items()}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("count", [0, 1, 5, 64, 300])
def test_topk(kernels: Kernels, dtype: str, count: int) -> None:
    for name, line in lines(1000).items():
        if "float" not in dtype and not np.isfinite(line).all():
            continue
        x = store_as(dtype, line) if "float" in dtype else line.astype(dtype)
        for descending in (False, True):
            y, indices = sort(kernels, dtype, x, count, descending)
            expected = order_of(values_of(dtype, x), descending)[:, :count]
            np.testing.assert_array_equal(indices, expected, name)
            assert y.tobytes() == np.take_along_axis(x, expected, 1).tobytes()


def test_topk_of_many_lines_with_strides(kernels: Kernels) -> None:
    whole = np.random.default_rng(5).standard_normal((3, 777, 4)).astype(np.float32)
    for x in (whole, np.asfortranarray(whole), whole[:, ::-2], whole[..., ::3]):
        for count in (1, 40, x.shape[1] // 2):
            _, indices = sort(kernels, "float32", x, count, True)
            np.testing.assert_array_equal(indices, order_of(x, True)[:, :count])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "uint8"])
@pytest.mark.parametrize("shape", [(2, 4097, 1), (1, 9001, 2), (1, 40_000, 1)])
def test_long_lines(kernels: Kernels, dtype: str, shape: tuple[int, int, int]) -> None:
    values = np.random.default_rng(7).integers(0, 250, shape)
    x = store_as(dtype, values - 100 * ("float" in dtype))
    for descending in (False, True):
        expected = order_of(values_of(dtype, x), descending)
        for count in (shape[1], 5000 if shape[1] > 9000 else 50, 7):
            y, indices = sort(kernels, dtype, x, count, descending)
            np.testing.assert_array_equal(indices, expected[:, :count])
            np.testing.assert_array_equal(y, np.take_along_axis(x, expected[:, :count], 1))


def test_one_workspace_is_enough(kernels: Kernels) -> None:
    x = np.random.default_rng(5).standard_normal((7, 100, 1))
    y, _ = sort(kernels, "float64", x, 100, False, workspaces=1)
    np.testing.assert_array_equal(y, np.sort(x, 1))


def test_bad_sorts_are_refused(kernels: Kernels) -> None:
    x, scratch = np.ones(6, np.float32), np.zeros(400, np.uint8)
    y = np.zeros(6, np.float32)
    good = {"type": TYPES["float32"], "outer": 2, "length": 3, "inner": 1, "count": 3, "workspaces": 1}
    good |= {"x_outer": 3, "x_dim": 1, "x_inner": 1}
    assert kernels.run("sort", y=y, x=x, scratch=scratch, **good) == OK
    for bad in (
        {"type": -1},
        {"count": 4},
        {"count": -1},
        {"length": -1},
        {"workspaces": 0},
        {"type": TYPES["float8_e5m2"]},
    ):
        assert kernels.run("sort", y=y, x=x, scratch=scratch, **{**good, **bad}) == BAD_ARGUMENT, bad
