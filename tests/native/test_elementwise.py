"""Functions of single elements against their definitions in float64."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.native.checks import assert_guarded, normal, run_checked, strided, ulps
from tests.native.kernels import BAD_ARGUMENT, OK, SIZES, TYPES, Kernels, aligned, from_bf16, to_bf16, unaligned

COUNTS = (*SIZES, 1000, 70_001)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, -1e-40, 3.4e38, -3.4e38, 1.0], np.float32)
BINARY: dict[str, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    "add_f32": np.add,
    "sub_f32": np.subtract,
    "mul_f32": np.multiply,
    "div_f32": np.divide,
    "maximum_f32": np.maximum,
    "minimum_f32": np.minimum,
}


def sigmoid(x: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore"):
        return 1 / (1 + np.exp(-x))


def silu(x: np.ndarray) -> np.ndarray:
    return x * sigmoid(x)


def silu_slope(x: np.ndarray) -> np.ndarray:
    return sigmoid(x) * (1 + x * (1 - sigmoid(x)))


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("kernel", BINARY)
def test_binary_rounds_as_ieee_says(kernels: Kernels, kernel: str, count: int) -> None:
    a, b, y = unaligned(normal(count, seed=1)), unaligned(normal(count, seed=2)), unaligned(np.empty(count, np.float32))
    run_checked(kernels, kernel, "y", y=y, a=a, b=b, count=count, a_period=count, b_period=count)
    np.testing.assert_array_equal(y, BINARY[kernel](a, b))


@pytest.mark.parametrize("kernel", BINARY)
def test_binary_of_special_values(kernels: Kernels, kernel: str) -> None:
    a, b = (x.reshape(-1).copy() for x in np.meshgrid(SPECIAL, SPECIAL))
    y = np.empty_like(a)
    run_checked(kernels, kernel, "y", y=y, a=a, b=b, count=a.size, a_period=a.size, b_period=a.size)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(y, BINARY[kernel](a, b))


@pytest.mark.parametrize("a_period, b_period", [(1, 1), (1, 990), (990, 1), (990, 3), (33, 990), (33, 10), (495, 495)])
@pytest.mark.parametrize("kernel", BINARY)
def test_binary_repeats_operands(kernels: Kernels, kernel: str, a_period: int, b_period: int) -> None:
    a, b, y = normal(a_period, seed=1), normal(b_period, seed=2), np.empty(990, np.float32)
    run_checked(kernels, kernel, "y", y=y, a=a, b=b, count=990, a_period=a_period, b_period=b_period)
    np.testing.assert_array_equal(y, BINARY[kernel](np.resize(a, 990), np.resize(b, 990)))


@pytest.mark.parametrize(
    "a, b", [((30, 33), (1, 0)), ((30, 33), (5, 1)), ((30, 33), (990, 1)), ((6, 5), (10, 99)), ((1, 7), (2, 17))]
)
@pytest.mark.parametrize("kernel", BINARY)
def test_binary_repeats_elements(kernels: Kernels, kernel: str, a: tuple[int, int], b: tuple[int, int]) -> None:
    """a and b: (period, repeat)."""
    left, right, y = normal(a[0], seed=1), normal(b[0], seed=2), np.empty(990, np.float32)
    sizes = {"a_period": a[0], "a_repeat": a[1], "b_period": b[0], "b_repeat": b[1]}
    run_checked(kernels, kernel, "y", y=y, a=left, b=right, count=990, **sizes)
    at = np.arange(990)
    expected = BINARY[kernel](left[at // a[1] % a[0]], right[at // max(b[1], 1) % b[0]])
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("kernel", BINARY)
def test_binary_with_a_number(kernels: Kernels, kernel: str) -> None:
    for count in COUNTS:
        x, y = unaligned(normal(count)), unaligned(np.empty(count, np.float32))
        run_checked(kernels, kernel, "y", y=y, a=x, count=count, a_period=max(count, 1), b_period=1, number=0.7)
        np.testing.assert_array_equal(y, BINARY[kernel](x, np.float32(0.7)))
        run_checked(kernels, kernel, "y", y=y, b=x, count=count, a_period=1, b_period=max(count, 1), number=0.7)
        np.testing.assert_array_equal(y, BINARY[kernel](np.float32(0.7), x))
    assert kernels.run(kernel, y=x, a=x, count=3, a_period=3, b_period=3, number=1.0) == BAD_ARGUMENT


def test_binary_in_place(kernels: Kernels) -> None:
    a, b = normal(333, seed=1), normal(333, seed=2)
    y = a.copy()
    run_checked(kernels, "sub_f32", "y", y=y, a=y, b=b, count=333, a_period=333, b_period=333)
    np.testing.assert_array_equal(y, a - b)
    y = b.copy()
    run_checked(kernels, "sub_f32", "y", y=y, a=a, b=y, count=333, a_period=333, b_period=333)
    np.testing.assert_array_equal(y, a - b)


def test_binary_refuses_periods_of_nothing(kernels: Kernels) -> None:
    a = np.ones(3, np.float32)
    assert kernels.run("add_f32", y=a, a=a, b=a, count=3, a_period=3, b_period=0) == BAD_ARGUMENT
    assert kernels.run("add_f32", y=a, a=a, b=a, count=3, a_period=-1, b_period=3) == BAD_ARGUMENT
    assert kernels.run("add_f32", count=0) == OK
    assert (a == 1).all()


LIMITS = {  # function in float64, ulps, a range that matters
    "tanh_f32": (np.tanh, 3.0, 12.0),
    "log_f32": (np.log, 2.0, 1e4),
    "sqrt_f32": (np.sqrt, 0.51, 1e30),
    "abs_f32": (np.abs, 0.0, 1e30),
    "sigmoid_f32": (sigmoid, 3.0, 80.0),
}


@pytest.mark.parametrize("kernel", LIMITS)
def test_functions_of_one_element(kernels: Kernels, kernel: str) -> None:
    exact, limit, most = LIMITS[kernel]
    tiny = np.float32(2.0) ** np.arange(-149, 100, dtype=np.float32)
    wide = np.random.default_rng(2).uniform(-most, most, 20_000).astype(np.float32)
    x = unaligned(np.concatenate([wide, normal(5_001), tiny, -tiny, 1 + tiny[:150], SPECIAL]))
    y = unaligned(np.empty_like(x))
    run_checked(kernels, kernel, "y", y=y, x=x, count=x.size)
    with np.errstate(all="ignore"):
        wanted = exact(x.astype(np.float64))
        found = ulps(y, wanted)
        same = np.isclose(y, wanted, rtol=0, atol=1e-37)  # where the result is next to nothing
    assert ((found <= limit) | same).all(), (x[~((found <= limit) | same)][:5], found.max())
    if kernel != "log_f32" and kernel != "sqrt_f32":
        assert (np.isnan(y) == np.isnan(x)).all()


def test_exp_is_nearly_exact(kernels: Kernels) -> None:
    x = np.concatenate([np.linspace(-104.5, 89.5, 400_001), normal(10_000, scale=1e-3), SPECIAL]).astype(np.float32)
    y = np.empty_like(x)
    run_checked(kernels, "exp_f32", "y", y=y, x=x, count=x.size)
    with np.errstate(over="ignore", under="ignore"):
        exact = np.exp(x.astype(np.float64))
    assert ulps(y, exact).max() <= getattr(kernels, "exp_ulps", 1.0)


def test_exp_is_the_same_wherever_an_element_stands(kernels: Kernels) -> None:
    x = normal(61, scale=20)
    whole = np.empty_like(x)
    kernels.run("exp_f32", y=whole, x=x, count=61)
    for start in range(1, 61, 7):
        part = np.empty(61 - start, np.float32)
        kernels.run("exp_f32", y=part, x=x[start:], count=61 - start)
        assert part.tobytes() == whole[start:].tobytes()


@pytest.mark.parametrize("count", COUNTS)
def test_silu(kernels: Kernels, count: int) -> None:
    x, y = unaligned(normal(count, scale=6)), unaligned(np.empty(count, np.float32))
    run_checked(kernels, "silu_f32", "y", y=y, x=x, count=count)
    np.testing.assert_allclose(y, silu(x.astype(np.float64)), rtol=6e-7, atol=1e-37)


def test_silu_of_special_values(kernels: Kernels) -> None:
    x = np.array([np.nan, np.inf, -200, 0, -3.4e38, 3.4e38], np.float32)
    run_checked(kernels, "silu_f32", "y", y=x, x=x, count=x.size)
    np.testing.assert_array_equal(x, np.array([np.nan, np.inf, 0, 0, 0, 3.4e38], np.float32))


@pytest.mark.parametrize("rows", [0, 1, 3])
@pytest.mark.parametrize("columns", [*SIZES, 768])
def test_silu_mul(kernels: Kernels, rows: int, columns: int) -> None:
    gate_memory, x = strided(normal(rows, 2 * columns, scale=3), extra=7)
    memory, y = strided(np.zeros((rows, columns), np.float32))
    strides = {"x_stride": gate_memory.shape[1], "y_stride": memory.shape[1]}
    run_checked(kernels, "silu_mul_f32", "y", y=memory, x=gate_memory, rows=rows, columns=columns, **strides)
    wide = x.astype(np.float64)
    np.testing.assert_allclose(y, silu(wide[:, :columns]) * wide[:, columns:], rtol=1e-6, atol=1e-30)
    assert_guarded(memory, columns)


@pytest.mark.parametrize("rows, columns", [(0, 5), (1, 1), (2, 3), (3, 33), (5, 768)])
def test_silu_mul_backward(kernels: Kernels, rows: int, columns: int) -> None:
    x, grad_y = unaligned(normal(rows, 2 * columns, scale=3)), unaligned(normal(rows, columns, seed=4))
    grad_x = np.empty_like(x)
    run_checked(
        kernels, "silu_mul_backward_f32", "grad_x", grad_x=grad_x, x=x, grad_y=grad_y, rows=rows, columns=columns
    )
    gate, up = x[:, :columns].astype(np.float64), x[:, columns:].astype(np.float64)
    expected = np.hstack([grad_y * up * silu_slope(gate), grad_y * silu(gate)])
    np.testing.assert_allclose(grad_x, expected, rtol=2e-6, atol=2e-6)
    kernels.run("silu_mul_backward_f32", grad_x=x, x=x, grad_y=grad_y, rows=rows, columns=columns)
    assert x.tobytes() == grad_x.tobytes()


@pytest.mark.parametrize("count", COUNTS)
def test_fill(kernels: Kernels, count: int) -> None:
    memory, y = strided(np.zeros((1, count), np.float32))
    run_checked(kernels, "fill_f32", "y", y=memory, count=count, value=2.5)
    assert (y == 2.5).all()
    assert_guarded(memory, count)


def normal_below(x: np.ndarray) -> np.ndarray:
    """The share of the standard normal distribution below x."""
    return np.array([0.5 * math.erfc(-v / math.sqrt(2)) for v in x], np.float64)


@pytest.mark.parametrize("count", COUNTS[:-1])
def test_gelu(kernels: Kernels, count: int) -> None:
    x, y = unaligned(normal(count, scale=3)), unaligned(np.empty(count, np.float32))
    run_checked(kernels, "gelu_f32", "y", y=y, x=x, count=count)
    np.testing.assert_allclose(y, x * normal_below(x), rtol=6e-6, atol=1e-37)


def gelu_tanh_slope(x: np.ndarray) -> np.ndarray:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)
    outer = 1 - np.tanh(inner) ** 2
    return (1 + np.tanh(inner)) / 2 + x / 2 * outer * math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)


def gelu_slope(x: np.ndarray) -> np.ndarray:
    return normal_below(x) + x * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)


SLOPES = {"gelu": gelu_slope, "gelu_tanh": gelu_tanh_slope, "silu": silu_slope}
FLOATS: dict[str, tuple[Callable[[np.ndarray], np.ndarray], Callable[[np.ndarray], np.ndarray], float]] = {
    "float32": (lambda x: x, lambda x: x, 3e-6),
    "float16": (lambda x: x.astype(np.float16), lambda x: x.astype(np.float64), 2.0**-11),
    "bfloat16": (to_bf16, from_bf16, 2.0**-8),
}


@pytest.mark.parametrize("place", [unaligned, aligned])
@pytest.mark.parametrize("count", COUNTS[:-1])
@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", SLOPES)
def test_activation_backward(kernels: Kernels, name: str, dtype: str, count: int, place: Any) -> None:
    narrow, wide, error = FLOATS[dtype]
    x, grad_y = place(narrow(normal(count, scale=3))), place(narrow(normal(count, seed=4)))
    grad_x = place(np.empty_like(x))
    slots = {"opcode": list(SLOPES).index(name), "type": TYPES[dtype], "count": count}
    run_checked(kernels, "activation_backward", "grad_x", grad_x=grad_x, x=x, grad_y=grad_y, **slots)
    slope = SLOPES[name](np.asarray(wide(x), np.float64))
    np.testing.assert_allclose(wide(grad_x), wide(grad_y) * slope, rtol=2 * error, atol=1e-6)
    run_checked(kernels, "activation_backward", "grad_x", grad_x=grad_y, x=x, grad_y=grad_y, **slots)
    assert grad_y.tobytes() == grad_x.tobytes()


def test_activation_backward_far_out(kernels: Kernels) -> None:
    """gelu by tanh has the slopes 0 and 1 far out, also where x * x overflows."""
    x = np.array([np.nan, -np.inf, -3.4e38, -1e20, -60, 60, 1e20, 3.4e38, np.inf], np.float32)
    grad, ones = np.empty_like(x), np.ones_like(x)
    slots = {"opcode": list(SLOPES).index("gelu_tanh"), "type": TYPES["float32"], "count": x.size}
    run_checked(kernels, "activation_backward", "grad_x", grad_x=grad, x=x, grad_y=ones, **slots)
    np.testing.assert_allclose(grad, [np.nan, 0, 0, 0, 0, 1, 1, 1, 1], rtol=2e-7)


@pytest.mark.parametrize("opcode, dtype", [(-1, "float32"), (3, "float32"), (0, "float64"), (0, "int32")])
def test_activation_backward_refuses(kernels: Kernels, opcode: int, dtype: str) -> None:
    x = np.zeros(4)
    slots = {"opcode": opcode, "type": TYPES[dtype], "count": 4}
    assert kernels.run("activation_backward", grad_x=np.empty(4), x=x, grad_y=x, **slots) == BAD_ARGUMENT


def test_gelu_far_out(kernels: Kernels) -> None:
    """Small shares far below 0 keep their digits; what is too small becomes 0."""
    x = np.linspace(-16, 16, 4001).astype(np.float32)
    y = np.empty_like(x)
    run_checked(kernels, "gelu_f32", "y", y=y, x=x, count=x.size)
    np.testing.assert_allclose(y, x * normal_below(x), rtol=1.5e-5, atol=1e-37)


def test_gelu_of_special_values(kernels: Kernels) -> None:
    """As x * Phi(x) says, also where that is -inf * 0; torch agrees."""
    x = np.array([np.nan, np.inf, -np.inf, -200, 0, -3.4e38, 3.4e38], np.float32)
    y, grad, ones = np.empty_like(x), np.empty_like(x), np.ones_like(x)
    run_checked(kernels, "gelu_f32", "y", y=y, x=x, count=x.size)
    np.testing.assert_array_equal(y, np.array([np.nan, np.inf, np.nan, 0, 0, 0, 3.4e38], np.float32))
    slots = {"opcode": list(SLOPES).index("gelu"), "type": TYPES["float32"], "count": x.size}
    run_checked(kernels, "activation_backward", "grad_x", grad_x=grad, x=x, grad_y=ones, **slots)
    np.testing.assert_allclose(grad, [np.nan, np.nan, np.nan, 0, 0.5, 0, 1], rtol=2e-7)
