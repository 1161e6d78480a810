"""Pictures sampled at places of a grid, and the gradients, against the same formulas in float64."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest

from tests.native.checks import normal, run_checked
from tests.native.kernels import BAD_ARGUMENT, Kernels, unaligned

pytestmark = pytest.mark.native_only  # the wasm libraries have no room for the kernels
ZEROS, BORDER, REFLECTION = range(3)
SHAPES = ((2, 3, 7, 5, 33), (1, 1, 1, 1, 3), (1, 2, 4, 9, 130))  # batch, channels, height, width, points


def positions(at: np.ndarray, size: int, padding: int, corners: int) -> np.ndarray:
    x = (at + 1) * (size - 1) / 2 if corners else ((at + 1) * size - 1) / 2
    if padding == REFLECTION:
        low, span = (0.0, size - 1.0) if corners else (-0.5, float(size))
        if span == 0:
            return np.zeros_like(x)
        x = np.abs((x - low + span) % (2 * span) - span) + low
    return x if padding == ZEROS else np.clip(x, 0, size - 1)


def shares(size: int, at: np.ndarray, nearest: int) -> np.ndarray:
    """The share of each of `size` elements at each position: (N, P, size)."""
    places = np.arange(size)
    if nearest:
        return (np.round(at)[..., None] == places).astype(np.float64)
    return np.maximum(0, 1 - np.abs(at[..., None] - places))


def sampled(x: np.ndarray, grid: np.ndarray, nearest: int, padding: int, corners: int) -> np.ndarray:
    """(N, C, P) float64: sums over rows and columns, of which up to two have a share."""
    columns = shares(x.shape[3], positions(grid[..., 0], x.shape[3], padding, corners), nearest)
    rows = shares(x.shape[2], positions(grid[..., 1], x.shape[2], padding, corners), nearest)
    return np.einsum("nchw,nph,npw->ncp", x.astype(np.float64), rows, columns)


def sizes_of(shape: tuple[int, ...], nearest: int, padding: int, corners: int) -> dict[str, Any]:
    names = ("batch", "channels", "height", "width", "points", "nearest", "padding", "corners")
    return dict(zip(names, (*shape, nearest, padding, corners), strict=True))


@pytest.mark.parametrize("nearest, padding, corners", list(product((0, 1), (ZEROS, BORDER, REFLECTION), (0, 1))))
def test_grid_sample(kernels: Kernels, nearest: int, padding: int, corners: int) -> None:
    for shape in SHAPES:
        batch, channels, height, width, points = shape
        x, grid = unaligned(normal(*shape[:4])), unaligned(normal(batch, points, 2, seed=5, scale=1.3))
        sizes = sizes_of(shape, nearest, padding, corners)
        y = np.zeros((batch, channels, points), np.float32)
        run_checked(kernels, "grid_sample_f32", "y", y=y, x=x, grid=grid, **sizes)
        wide = grid.astype(np.float64)
        np.testing.assert_allclose(y, sampled(x, wide, nearest, padding, corners), rtol=0, atol=2e-5)

        g = normal(batch, channels, points, seed=6)
        grad_x, grad_grid = np.full(x.shape, np.nan, np.float32), np.full(grid.shape, np.nan, np.float32)
        outputs = {"grad_x": grad_x, "grad_grid": grad_grid}
        run_checked(kernels, "grid_sample_backward_f32", *outputs, **outputs, x=x, grid=grid, grad_y=g, **sizes)
        columns = shares(width, positions(wide[..., 0], width, padding, corners), nearest)
        rows = shares(height, positions(wide[..., 1], height, padding, corners), nearest)
        np.testing.assert_allclose(grad_x, np.einsum("ncp,nph,npw->nchw", g, rows, columns), rtol=0, atol=5e-5)
        for part in range(2):  # differences, of float64
            step = np.zeros(2)
            step[part] = 1e-6
            ends = [sampled(x, wide + sign * step, nearest, padding, corners) for sign in (1, -1)]
            slope = ((ends[0] - ends[1]) * g).sum(1) / 2e-6
            if nearest:
                slope = np.zeros_like(slope)
            np.testing.assert_allclose(grad_grid[..., part], slope, rtol=1e-3, atol=1e-3)


def test_places_that_are_no_numbers(kernels: Kernels) -> None:
    x = normal(1, 1, 3, 3)
    grid = np.array([[[np.nan, 0], [np.inf, 0], [-np.inf, 1e30]]], np.float32)
    y = np.zeros((1, 1, 3), np.float32)
    run_checked(kernels, "grid_sample_f32", "y", y=y, x=x, grid=grid, **sizes_of((1, 1, 3, 3, 3), 0, BORDER, 1))
    np.testing.assert_array_equal(y[0, 0], [x[0, 0, 1, 0], x[0, 0, 1, 2], x[0, 0, 2, 0]])
    grad_x = np.full(x.shape, np.nan, np.float32)
    arguments: dict[str, Any] = {"x": x, "grid": grid, "grad_y": np.ones_like(y)}
    run_checked(
        kernels, "grid_sample_backward_f32", "grad_x", grad_x=grad_x, **arguments,
        **sizes_of((1, 1, 3, 3, 3), 0, ZEROS, 1),
    )  # fmt: skip
    np.testing.assert_array_equal(grad_x, np.zeros_like(x))  # all are outside


def test_wrong_arguments(kernels: Kernels) -> None:
    x, grid, y = np.zeros((1, 1, 2, 2), np.float32), np.zeros((1, 1, 2), np.float32), np.zeros((1, 1, 1), np.float32)
    for name, value in (("padding", 3), ("padding", -1), ("height", 0), ("width", 1 << 31), ("batch", -1)):
        sizes = sizes_of((1, 1, 2, 2, 1), 0, 0, 0) | {name: value}
        assert kernels.run("grid_sample_f32", y=y, x=x, grid=grid, **sizes) == BAD_ARGUMENT
