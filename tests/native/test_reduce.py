"""Sums and largest elements of rows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.checks import normal, run_checked, strided
from tests.native.kernels import SIZES, Kernels


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
