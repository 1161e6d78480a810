"""layer_norm and its gradients against their definitions in float64."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.native.checks import GUARD, assert_guarded, normal, run_checked, strided
from tests.native.kernels import OK, SIZES, Kernels, aligned, unaligned

SHAPES = [(0, 5), (1, 1), (1, 3), (3, 4), (4, 31), (7, 33), (33, 192), (150, 384), (2, 4097), (1003, 516)]
EPSILON = 1e-5


def normalised(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(u, 1 / standard deviation) in float64."""
    wide = x.astype(np.float64)
    centred = wide - wide.mean(-1, keepdims=True) if x.size else wide
    inverse = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON) if x.size else wide
    return centred * inverse, inverse


@pytest.mark.parametrize("rows, columns", SHAPES)
def test_layer_norm(kernels: Kernels, rows: int, columns: int) -> None:
    x = normal(rows, columns, scale=3) + np.float32(2)
    weight, bias = unaligned(normal(columns, seed=4)), unaligned(normal(columns, seed=5))
    source, _ = strided(x, extra=3)
    memory, y = strided(np.zeros_like(x))
    arguments = {"weight": weight, "bias": bias, "rows": rows, "columns": columns, "epsilon": EPSILON}
    strides = {"x_stride": source.shape[1], "y_stride": memory.shape[1]}
    run_checked(kernels, "layer_norm_f32", "y", y=memory, x=source, **strides, **arguments)
    assert_guarded(memory, columns)
    np.testing.assert_allclose(y, normalised(x)[0] * weight + bias, rtol=1e-5, atol=2e-6)
    strides = {"x_stride": columns, "y_stride": columns}
    run_checked(kernels, "layer_norm_f32", "y", y=x, x=x, **strides, **arguments)  # in place
    assert x.tobytes() == y.tobytes()


@pytest.mark.parametrize("rows, columns", [(9, 4), (3, 128), (9, 1024), (2, 1028), (2, 4096), (1, 8192), (1, 8196)])
def test_layer_norm_of_aligned_rows(kernels: Kernels, rows: int, columns: int) -> None:
    x, y = normal(rows, columns, scale=3) + np.float32(2), np.empty((rows, columns), np.float32)
    weight, bias = normal(columns, seed=4), normal(columns, seed=5)
    sizes = {"rows": rows, "columns": columns, "x_stride": columns, "y_stride": columns, "epsilon": EPSILON}
    run_checked(kernels, "layer_norm_f32", "y", y=y, x=x, weight=weight, bias=bias, **sizes)
    np.testing.assert_allclose(y, normalised(x)[0] * weight + bias, rtol=1e-5, atol=2e-6)


def test_a_large_mean_costs_no_digits(kernels: Kernels) -> None:
    x = normal(3, 67) + np.float32(4096)
    y, ones, zeros = np.empty_like(x), np.ones(67, np.float32), np.zeros(67, np.float32)
    sizes = {"rows": 3, "columns": 67, "x_stride": 67, "y_stride": 67, "epsilon": EPSILON}
    run_checked(kernels, "layer_norm_f32", "y", y=y, x=x, weight=ones, bias=zeros, **sizes)
    np.testing.assert_allclose(y, normalised(x)[0], rtol=0, atol=1e-3)


def test_special_rows(kernels: Kernels) -> None:
    x = normal(5, 33)
    x[1, 32], x[2, 0], x[3] = np.nan, np.inf, 7
    clean, y = x.copy(), np.empty_like(x)
    weight, bias = normal(33, seed=1), normal(33, seed=2)
    sizes = {"rows": 5, "columns": 33, "x_stride": 33, "y_stride": 33, "epsilon": EPSILON}
    run_checked(kernels, "layer_norm_f32", "y", y=y, x=x, weight=weight, bias=bias, **sizes)
    assert np.isnan(y[1:3]).all()
    np.testing.assert_allclose(y[3], bias, rtol=1e-6)
    np.testing.assert_allclose(y[[0, 4]], normalised(clean[[0, 4]])[0] * weight + bias, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("place", [unaligned, aligned])
@pytest.mark.parametrize("rows, columns", [*SHAPES, (300, 260), (3, 1500)])
def test_layer_norm_backward(kernels: Kernels, rows: int, columns: int, place: Any) -> None:
    x, weight = place(normal(rows, columns) + np.float32(1)), aligned(normal(columns, seed=4))
    grad_y, grad_x = place(normal(rows, columns, seed=5)), place(np.empty_like(x))
    statistics = np.full(2 * rows + 8, GUARD, np.float32)
    arguments = {"x": x, "grad_y": grad_y, "rows": rows, "columns": columns}
    outputs = {"grad_x": grad_x, "statistics": statistics}
    run_checked(kernels, "layer_norm_backward_f32", *outputs, weight=weight, epsilon=EPSILON, **outputs, **arguments)
    assert (statistics[2 * rows :] == GUARD).all()
    u, inverse = normalised(x)
    direct = grad_y.astype(np.float64) * weight
    mean, slope = (v.mean(-1, keepdims=True) if rows else v for v in (direct, direct * u))
    np.testing.assert_allclose(grad_x, inverse * (direct - mean - u * slope), rtol=1e-4, atol=5e-6)

    sums = {"grad_weight": unaligned(np.full(columns, np.nan, np.float32)), "grad_bias": np.empty(columns, np.float32)}
    run_checked(kernels, "layer_norm_weights_backward_f32", *sums, statistics=statistics, **sums, **arguments)
    np.testing.assert_allclose(sums["grad_weight"], (grad_y * u).sum(0), rtol=1e-4, atol=2e-5)
    np.testing.assert_allclose(sums["grad_bias"], grad_y.sum(0, dtype=np.float64), rtol=1e-4, atol=1e-5)

    again = place(grad_y)  # in place of the gradient
    arguments["grad_y"] = again
    run_checked(
        kernels, "layer_norm_backward_f32", "grad_x", grad_x=again, statistics=statistics, weight=weight,
        epsilon=EPSILON, **arguments,
    )  # fmt: skip
    assert again.tobytes() == grad_x.tobytes()


def test_nan_stays_in_its_row_and_its_columns(kernels: Kernels) -> None:
    x, weight, grad_y = normal(4, 35), normal(35, seed=1), normal(4, 35, seed=2)
    grad_y[2, 34] = np.nan
    grad_x, statistics = np.empty_like(x), np.empty(8, np.float32)
    grads = {"grad_weight": np.empty(35, np.float32), "grad_bias": np.empty(35, np.float32)}
    arguments = {"x": x, "grad_y": grad_y, "rows": 4, "columns": 35, "statistics": statistics}
    run_checked(
        kernels, "layer_norm_backward_f32", "grad_x", grad_x=grad_x, weight=weight, epsilon=EPSILON, **arguments
    )
    run_checked(kernels, "layer_norm_weights_backward_f32", *grads, **grads, **arguments)
    assert np.isnan(grad_x[2]).all() and np.isfinite(grad_x[[0, 1, 3]]).all()
    for grad in grads.values():
        assert np.isnan(grad[34]) and np.isfinite(grad[:34]).all()


@pytest.mark.parametrize("rows", SIZES)
def test_rows_of_nothing(kernels: Kernels, rows: int) -> None:
    for kernel in ("layer_norm_f32", "layer_norm_backward_f32", "layer_norm_weights_backward_f32"):
        assert kernels.run(kernel, rows=rows, columns=0) == OK


@pytest.mark.parametrize("columns", SIZES)
def test_gradients_of_no_rows_are_zero(kernels: Kernels, columns: int) -> None:
    grads = {"grad_weight": np.full(columns, np.nan, np.float32), "grad_bias": np.full(columns, np.nan, np.float32)}
    run_checked(kernels, "layer_norm_weights_backward_f32", *grads, rows=0, columns=columns, **grads)
    assert not any(grad.any() for grad in grads.values())
