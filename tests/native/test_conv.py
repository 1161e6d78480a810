"""fold_f32: every element is the sum of the windows that cover it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.native.checks import normal, run_checked
from tests.native.kernels import BAD_ARGUMENT, OK, Kernels, unaligned

SHAPES = [  # batch, length, channels, kernel, stride, padding, window_rows
    (0, 4, 3, 3, 1, 1, 4),
    (1, 1, 1, 1, 1, 0, 1),
    (2, 9, 5, 3, 1, 1, 11),
    (2, 10, 31, 3, 2, 1, 6),
    (1, 33, 33, 4, 3, 2, 13),
    (3, 7, 4, 2, 5, 0, 2),
    (1, 6, 3, 3, 1, 1, 2),
    (1, 5, 3, 9, 2, 4, 5),
    (1, 5, 8, 0, 1, 0, 4),
    (2, 300, 130, 3, 2, 1, 151),
]


def fold(windows: np.ndarray, length: int, stride: int, padding: int) -> np.ndarray:
    batch, rows, kernel, channels = windows.shape
    wide = np.zeros((batch, max(rows * stride + kernel, padding + length), channels))
    for row in range(rows):
        wide[:, row * stride : row * stride + kernel] += windows[:, row]
    return wide[:, padding : padding + length]


@pytest.mark.parametrize("shape", SHAPES)
def test_fold(kernels: Kernels, shape: tuple[int, ...]) -> None:
    batch, length, channels, kernel, stride, padding, rows = shape
    windows = unaligned(normal(batch, rows, kernel, channels))
    y = unaligned(np.full((batch, length, channels), np.nan, np.float32))
    names = ("batch", "length", "channels", "size", "stride", "padding", "window_rows")
    run_checked(kernels, "fold_f32", "y", y=y, windows=windows, **dict(zip(names, shape, strict=True)))
    np.testing.assert_allclose(y, fold(windows, length, stride, padding), rtol=1e-5, atol=1e-6)


def test_impossible_sizes_are_refused(kernels: Kernels) -> None:
    sizes = {"batch": 1, "length": 2, "channels": 3, "size": 1, "stride": 1, "padding": 0, "window_rows": 2}
    for wrong in ({"stride": 0}, {"padding": -1}, {"size": -1}, {"window_rows": -1}):
        assert kernels.run("fold_f32", **(sizes | wrong)) == BAD_ARGUMENT
    for empty in ("batch", "length", "channels"):
        assert kernels.run("fold_f32", **(sizes | {empty: 0})) == OK
