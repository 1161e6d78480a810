"""rms_norm, softmax and log_softmax with their gradients, against definitions in float64."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.native.checks import assert_guarded, normal, run_checked, strided
from tests.native.emulated import EmulatedKernels
from tests.native.kernels import BAD_ARGUMENT, OK, SIZES, TYPES, Kernels, aligned, store_as, unaligned, values_of

SHAPES = [(0, 5), (1, 1), (1, 3), (3, 4), (4, 31), (7, 33), (33, 288), (2, 4097)]
EPSILON = 1e-5


def rms_norm(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
    x = x.astype(np.float64)
    return x / np.sqrt((x**2).mean(-1, keepdims=True) + EPSILON) * weight


def softmax(x: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        e = np.exp(x.astype(np.float64) - x.max(-1, keepdims=True))
        return e / e.sum(-1, keepdims=True)


def run_rows(kernels: Kernels, kernel: str, x: np.ndarray, **more: object) -> np.ndarray:
    """A kernel of rows with strides, on unaligned rows that lie apart; the guards between them must stay."""
    rows, columns = x.shape
    source, _ = strided(x, extra=3)
    memory, y = strided(np.zeros_like(x))
    strides = {"x_stride": source.shape[1], "y_stride": memory.shape[1]}
    run_checked(kernels, kernel, "y", y=memory, x=source, rows=rows, columns=columns, **strides, **more)
    assert_guarded(memory, columns)
    return y.copy()


@pytest.mark.parametrize("rows, columns", SHAPES)
def test_rms_norm(kernels: Kernels, rows: int, columns: int) -> None:
    x, weight = normal(rows, columns, scale=3), unaligned(normal(columns, seed=4))
    y = run_rows(kernels, "rms_norm_f32", x, weight=weight, epsilon=EPSILON)
    np.testing.assert_allclose(y, rms_norm(x, weight), rtol=1e-6, atol=1e-30)


@pytest.mark.parametrize("rows, columns", [(9, 4), (3, 128), (9, 1024), (2, 1028), (2, 4096), (1, 8192), (1, 8196)])
def test_rms_norm_of_aligned_rows(kernels: Kernels, rows: int, columns: int) -> None:
    x, weight, y = normal(rows, columns, scale=3), normal(columns, seed=4), np.empty((rows, columns), np.float32)
    strides = {"rows": rows, "columns": columns, "y_stride": columns, "x_stride": columns, "epsilon": EPSILON}
    run_checked(kernels, "rms_norm_f32", "y", y=y, x=x, weight=weight, **strides)
    np.testing.assert_allclose(y, rms_norm(x, weight), rtol=2e-6, atol=1e-30)


@pytest.mark.parametrize("name", ["float16", "bfloat16"])
@pytest.mark.parametrize("rows, columns, place", [(3, 64, aligned), (2, 2048, aligned), (3, 33, unaligned)])
def test_rms_norm_by_a_weight_of_16_bits(
    kernels: Kernels, name: str, rows: int, columns: int, place: Callable[[np.ndarray], np.ndarray]
) -> None:
    """CUDA alone has it: the bits of the same weight in float32."""
    x, halves = place(normal(rows, columns, scale=3)), place(store_as(name, normal(columns, seed=4)))
    sizes = {"rows": rows, "columns": columns, "y_stride": columns, "x_stride": columns, "epsilon": EPSILON}
    y, expected = (place(np.zeros((rows, columns), np.float32)) for _ in range(2))
    if not isinstance(kernels, EmulatedKernels):
        assert kernels.run("rms_norm_typed", y=y, x=x, weight=halves, type=TYPES[name], **sizes) == BAD_ARGUMENT
        return
    run_checked(kernels, "rms_norm_typed", "y", y=y, x=x, weight=halves, type=TYPES[name], **sizes)
    assert kernels.run("rms_norm_typed", y=y, x=x, weight=halves, type=TYPES["float64"], **sizes) == BAD_ARGUMENT
    weight = place(values_of(name, halves).astype(np.float32))
    run_checked(kernels, "rms_norm_f32", "y", y=expected, x=x, weight=weight, **sizes)
    assert y.tobytes() == expected.tobytes()


@pytest.mark.parametrize("name", ["float32", "bfloat16"])
@pytest.mark.parametrize("rows, columns, place", [(3, 64, aligned), (2, 2048, aligned), (3, 33, unaligned)])
def test_a_norm_with_an_offset_plus_a_residual(
    kernels: Kernels, name: str, rows: int, columns: int, place: Callable[[np.ndarray], np.ndarray]
) -> None:
    """CUDA alone has it."""
    x, stored = place(normal(rows, columns, scale=3)), place(store_as(name, normal(columns, seed=4)))
    y, total = (place(np.zeros((rows, columns), np.float32)) for _ in range(2))
    residual = place(normal(rows, columns, seed=5))
    sizes = {"rows": rows, "columns": columns, "y_stride": columns, "x_stride": columns, "epsilon": EPSILON}
    arguments = {"x": x, "weight": stored, "type": TYPES[name], "offset": 1.0, **sizes}
    if not isinstance(kernels, EmulatedKernels):
        assert kernels.run("rms_norm_add", y=y, sum=total, residual=residual, **arguments) == BAD_ARGUMENT
        return
    run_checked(kernels, "rms_norm_add", "y", "sum", y=y, sum=total, residual=residual, **arguments)
    np.testing.assert_allclose(y, rms_norm(x, values_of(name, stored).astype(np.float32) + 1.0), rtol=1e-5, atol=1e-30)
    assert (y + residual).tobytes() == total.tobytes()


@pytest.mark.parametrize("name", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("rows, heads, kv_heads, size", [(1, 4, 2, 64), (3, 2, 1, 33), (2, 1, 0, 256)])
def test_heads_are_normalized(
    kernels: Kernels, name: str, rows: int, heads: int, kv_heads: int, size: int
) -> None:  # fmt: skip
    """CUDA alone has it."""
    width = (heads + 2 * kv_heads) * size
    x, _ = strided(normal(rows, width, scale=3), extra=3)
    weights = [unaligned(store_as(name, normal(size, seed=seed))) for seed in (4, 5)]
    y = np.zeros((rows, width), np.float32)
    arguments = {"rows": rows, "heads": heads, "kv_heads": kv_heads, "head_dim": size, "x_stride": x.shape[1]}
    arguments |= {"query_weight": weights[0], "key_weight": weights[1], "type": TYPES[name], "x": x}
    if not isinstance(kernels, EmulatedKernels):
        assert kernels.run("normalize_heads", y=y, epsilon=EPSILON, **arguments) == BAD_ARGUMENT
        return
    run_checked(kernels, "normalize_heads", "y", y=y, epsilon=EPSILON, offset=0.5, **arguments)
    parts = np.split(x[:, :width].reshape(rows, -1, size), [heads, heads + kv_heads], 1)
    own = [values_of(name, weight).astype(np.float32) + 0.5 for weight in weights]
    expected = [rms_norm(part, weight) for part, weight in zip(parts, own, strict=False)] + parts[2:]
    np.testing.assert_allclose(y, np.concatenate(expected, 1).reshape(rows, width), rtol=1e-5, atol=1e-30)
    arguments["type"] = TYPES["int64"]
    assert kernels.run("normalize_heads", y=y, epsilon=EPSILON, **arguments) == BAD_ARGUMENT


def test_rms_norm_in_place_and_special_rows(kernels: Kernels) -> None:
    x, weight = normal(5, 33), np.ones(33, np.float32)
    x[1, 32], x[2, 0], x[3] = np.nan, np.inf, 0
    with np.errstate(invalid="ignore"):
        expected = rms_norm(x, weight)
    expected[2] = [np.nan] + [0] * 32  # inf * 0, the rest over inf
    strides = {"rows": 5, "columns": 33, "y_stride": 33, "x_stride": 33, "epsilon": EPSILON}
    run_checked(kernels, "rms_norm_f32", "y", y=x, x=x, weight=weight, **strides)
    np.testing.assert_allclose(x, expected, rtol=1e-6)


@pytest.mark.parametrize("rows, columns", SHAPES)
def test_rms_norm_backward(kernels: Kernels, rows: int, columns: int) -> None:
    x, weight, grad_y = normal(rows, columns), normal(columns, seed=4), normal(rows, columns, seed=5)
    grad_x, grad_weight = np.empty_like(x), unaligned(np.full(columns, np.nan, np.float32))
    arguments = {"weight": weight, "rows": rows, "columns": columns, "epsilon": EPSILON}
    outputs = {"grad_x": grad_x, "grad_weight": grad_weight}
    run_checked(kernels, "rms_norm_backward_f32", *outputs, x=x, grad_y=grad_y, **outputs, **arguments)
    wide, direct = x.astype(np.float64), grad_y.astype(np.float64) * weight
    inverse = 1 / np.sqrt((wide**2).mean(-1, keepdims=True) + EPSILON) if columns else wide
    expected = inverse * (direct - wide * inverse**2 * (direct * wide).mean(-1, keepdims=True))
    np.testing.assert_allclose(grad_x, expected, rtol=1e-4, atol=2e-6)
    np.testing.assert_allclose(grad_weight, (grad_y * wide * inverse).sum(0), rtol=1e-4, atol=1e-5)
    for name in ("x", "grad_y"):  # in place of either
        operands = {"x": x.copy(), "grad_y": grad_y.copy()}
        again = np.empty_like(grad_weight)
        run_checked(
            kernels,
            "rms_norm_backward_f32",
            "grad_x",
            **operands,
            grad_x=operands[name],
            grad_weight=again,
            **arguments,
        )
        assert operands[name].tobytes() == grad_x.tobytes() and again.tobytes() == grad_weight.tobytes()


@pytest.mark.parametrize("rows, columns", SHAPES)
def test_softmax(kernels: Kernels, rows: int, columns: int) -> None:
    x = normal(rows, columns, scale=5)
    y = run_rows(kernels, "softmax_f32", x)
    np.testing.assert_allclose(y, softmax(x), rtol=5e-6, atol=1e-30)  # x - largest is rounded, at up to 40
    run_checked(kernels, "softmax_f32", "y", y=x, x=x, rows=rows, columns=columns, y_stride=columns, x_stride=columns)
    assert x.tobytes() == y.tobytes()


@pytest.mark.parametrize("columns", [1, 4, 33])
def test_softmax_of_special_rows(kernels: Kernels, columns: int) -> None:
    x = normal(6, columns)
    x[0, -1], x[1], x[2, 0], x[3, 0], x[4] = np.nan, -np.inf, -np.inf, np.inf, 1e38
    expected = softmax(x)
    if columns > 1:
        assert np.isnan(expected[:2]).all() and expected[2, 0] == 0 and np.isnan(expected[3]).all()
    np.testing.assert_allclose(run_rows(kernels, "softmax_f32", x), expected, rtol=1e-6)


@pytest.mark.parametrize("rows, columns", SHAPES)
def test_softmax_backward(kernels: Kernels, rows: int, columns: int) -> None:
    y, grad_y = unaligned(softmax(normal(rows, columns)).astype(np.float32)), unaligned(normal(rows, columns, seed=4))
    grad_x = unaligned(np.empty_like(y))
    arguments = {"y": y, "rows": rows, "columns": columns}
    run_checked(kernels, "softmax_backward_f32", "grad_x", grad_x=grad_x, grad_y=grad_y, **arguments)
    wide = y.astype(np.float64)
    expected = wide * (grad_y - (wide * grad_y).sum(-1, keepdims=True))
    np.testing.assert_allclose(grad_x, expected, rtol=1e-5, atol=5e-7)
    run_checked(kernels, "softmax_backward_f32", "grad_x", grad_x=grad_y, grad_y=grad_y, **arguments)
    assert grad_y.tobytes() == grad_x.tobytes()


@pytest.mark.parametrize("rows, columns", SHAPES)
def test_log_softmax(kernels: Kernels, rows: int, columns: int) -> None:
    x = normal(rows, columns, scale=5)
    y = run_rows(kernels, "log_softmax_f32", x)
    np.testing.assert_allclose(y, np.log(softmax(x)), rtol=1e-6, atol=1e-6)
    run_checked(
        kernels, "log_softmax_f32", "y", y=x, x=x, rows=rows, columns=columns, y_stride=columns, x_stride=columns
    )
    assert x.tobytes() == y.tobytes()


def test_log_softmax_of_special_rows(kernels: Kernels) -> None:
    x = normal(4, 33)
    x[0, 32], x[1], x[2, 0], x[3] = np.nan, -np.inf, -np.inf, np.linspace(-3e4, 3e4, 33)
    with np.errstate(divide="ignore", invalid="ignore"):
        wide = x.astype(np.float64) - x.max(-1, keepdims=True)
        expected = wide - np.log(np.exp(wide).sum(-1, keepdims=True))
    assert np.isnan(expected[:2]).all() and expected[2, 0] == -np.inf
    np.testing.assert_allclose(run_rows(kernels, "log_softmax_f32", x), expected, rtol=1e-6)


@pytest.mark.parametrize("kernel", ["rms_norm_f32", "softmax_f32", "log_softmax_f32"])
@pytest.mark.parametrize("rows", SIZES)
def test_rows_of_nothing(kernels: Kernels, kernel: str, rows: int) -> None:
    assert kernels.run(kernel, rows=rows, columns=0) == OK
