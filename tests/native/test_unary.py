"""Functions of one element by opcode: every operation with every type that the header lists for it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.native.checks import run_checked
from tests.native.kernels import (
    BAD_ARGUMENT,
    OK,
    TYPES,
    Kernels,
    aligned,
    dims,
    element_strides,
    number_bits,
    read_opcodes,
    store_as,
    unaligned,
    values_of,
)

OPCODES = read_opcodes("unary")
CODES = {name: code for code, name in enumerate(OPCODES)}
PAIRS = [(name, dtype) for name, (dtypes, _) in OPCODES.items() for dtype in dtypes if name != "erfinv"]  # its own
PARAMETERS = {"leaky_relu": (0.25, 0.0), "elu": (1.5, 0.0), "softplus": (2.0, 20.0), "clamp": (-2.0, 3.0)}
SPECIAL = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    2.0,
    0.5,
    -2.5,
    3.5,
    np.inf,
    -np.inf,
    np.nan,
    1e-30,
    1e30,
    -1e30,
    700.0,
    -745.0,
    1e-310,
]


def by_math(function: Callable[[float], float]) -> Callable[[Any], Any]:
    def each(value: float) -> float:
        try:
            return function(value)
        except OverflowError:
            return math.inf
        except ValueError:
            return math.inf if function is math.lgamma and value == math.floor(value) else math.nan

    return np.vectorize(each, otypes=[np.float64])


def digamma(x: Any) -> Any:
    """By the recurrence to 20 and the asymptotic series; negative arguments by reflection."""
    z = np.where(x < 0.5, 1 - x, x)
    value = np.zeros_like(x)
    for _ in range(20):
        value, z = value - 1 / z, z + 1
    square = 1 / (z * z)
    value += np.log(z) - 0.5 / z - square * (1 / 12 - square * (1 / 120 - square * (1 / 252 - square / 240)))
    fraction = x - np.rint(x)
    reflected = np.where(fraction == 0, np.nan, value - math.pi / np.tan(math.pi * fraction))
    return np.where(x == 0, np.copysign(np.inf, -x), np.where(x < 0.5, reflected, value))


def trigamma(x: Any) -> Any:
    z = np.where(x < 0.5, 1 - x, x)
    value = np.zeros_like(x)
    for _ in range(20):
        value, z = value + 1 / (z * z), z + 1
    square = 1 / (z * z)
    value += 1 / z + square / 2 + square / z * (1 / 6 - square * (1 / 30 - square * (1 / 42 - square / 30)))
    fraction = np.where(np.isfinite(x), x - np.rint(x), 0.0)
    return np.where(x < 0.5, (math.pi / np.sin(math.pi * fraction)) ** 2 - value, value)


def softplus(x: Any) -> Any:
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def gelu_tanh(x: Any) -> Any:
    return x / (1 + np.exp(-2 * math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


erfc = by_math(math.erfc)
REFERENCES: dict[str, Callable[[Any], Any]] = {
    "neg": lambda x: -x,
    "abs": np.abs,
    "sign": lambda x: np.nan_to_num(np.sign(x)) if x.dtype.kind == "f" else np.sign(x.astype(np.int64)),
    "square": lambda x: x * x,
    "relu": lambda x: np.where(np.isnan(x) | (x > 0), x, 0),
    "bitwise_not": lambda x: ~x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "reciprocal": lambda x: 1 / x,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "asinh": np.arcsinh,
    "acosh": lambda x: np.where(x < 1, np.nan, np.arccosh(np.maximum(x, 1))),  # musl's gives numbers below 1
    "atanh": np.arctanh,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "logsigmoid": lambda x: -softplus(-x),
    "silu": lambda x: x / (1 + np.exp(-x)),
    "gelu": lambda x: x * (0.5 * erfc(-x * math.sqrt(0.5))),
    "gelu_tanh": gelu_tanh,
    "leaky_relu": lambda x: np.where(x > 0, x, x * 0.25),
    "elu": lambda x: np.where(x > 0, x, 1.5 * np.expm1(np.minimum(x, 0))),
    "softplus": lambda x: np.where(2 * x > 20, x, softplus(2 * x) / 2),
    "mish": lambda x: x * np.tanh(softplus(x)),
    "clamp": lambda x: np.clip(x, -2, 3),
    "hardsigmoid": lambda x: np.clip(x + 3, 0, 6) / 6,
    "hardswish": lambda x: x * np.clip(x + 3, 0, 6) / 6,
    "erf": by_math(math.erf),
    "erfc": erfc,
    "lgamma": by_math(math.lgamma),
    "digamma": digamma,
    "trigamma": trigamma,
    "round": np.rint,
    "frac": lambda x: x - np.trunc(x),
    "signbit": lambda x: np.signbit(x) if x.dtype.kind == "f" else x < 0,
}
# Where the reference itself is not exact to the last digits, or the kernel promises less: relative and absolute.
LOOSE = {"gelu": (1e-5, 1e-30), "lgamma": (1e-13, 1e-13), "digamma": (1e-12, 1e-12), "trigamma": (1e-11, 1e-13)}
LOOSE |= {"i0": (1e-12, 0.0), "sinc": (1e-14, 1e-15), "gelu_tanh": (1e-6, 1e-6), "mish": (1e-14, 1e-300)}
EPSILON = {"float16": 2**-10, "bfloat16": 2**-7, "float32": 2**-23, "float64": 2**-52}


def run(kernels: Kernels, name: str, dtype: str, x: np.ndarray) -> np.ndarray:
    y = unaligned(np.empty(x.shape, np.bool_ if OPCODES[name][1] == "bool" else x.dtype))
    first, second = (number_bits("float64", value) for value in PARAMETERS.get(name, (0.0, 0.0)))
    arguments = {"opcode": CODES[name], "type": TYPES[dtype], "count": x.size, "first": first, "second": second}
    run_checked(kernels, "unary", "y", y=y, x=x, **arguments)
    if x.size and dtype in EPSILON:  # where vectors may be read whole
        again = aligned(np.empty_like(y))
        run_checked(kernels, "unary", "y", y=again, x=aligned(x), **arguments)
        found, expected = (v if v.dtype == bool else values_of(dtype, v).astype(np.float64) for v in (again, y))
        np.testing.assert_allclose(found, expected, rtol=0 if dtype in ("float32", "float64") else EPSILON[dtype])
    return y


def inputs(name: str, dtype: str) -> np.ndarray:
    rng = np.random.default_rng(7)
    if dtype == "bool":
        return rng.random(101) < 0.5
    if dtype not in EPSILON:
        info = np.iinfo(dtype)
        ends = np.array([0, 1, info.max, info.min, info.min + 1, info.max - 1], dtype)
        return np.concatenate([ends, rng.integers(info.min, info.max, 97, dtype, endpoint=True)])
    wide = np.concatenate([rng.standard_normal(150) * scale for scale in (0.01, 1, 8, 60, 1e5)])
    values = np.concatenate([SPECIAL, wide, np.arange(-20, 20) / 2])
    if name in ("lgamma", "digamma", "trigamma"):  # the references lose their digits there
        values = values[~(values < -100)]
    if name == "i0":
        values = np.concatenate([np.linspace(-20, 20, 101), [np.nan]])
    with np.errstate(over="ignore"):
        if dtype == "bfloat16":
            values = values[~np.isnan(values)]
        return store_as(dtype, values)


@pytest.mark.parametrize("name, dtype", PAIRS)
def test_operation(kernels: Kernels, name: str, dtype: str) -> None:
    x = unaligned(inputs(name, dtype))
    y = run(kernels, name, dtype, x)
    numbers = values_of(dtype, x)
    function = REFERENCES.get(name) or getattr(np, {"isposinf": "isposinf"}.get(name, name))
    with np.errstate(all="ignore"):
        if OPCODES[name][1] == "bool" or dtype not in EPSILON:
            np.testing.assert_array_equal(y, function(numbers).astype(y.dtype))
            return
        expected = function(numbers.astype(np.float64))
        found = values_of(dtype, y).astype(np.float64)
        relative, absolute = LOOSE.get(name, (0.0, 0.0))
        relative = max(relative, 4 * EPSILON[dtype])
        smallest = 2.0**-22 if dtype == "float16" else 2e-37 if dtype != "float64" else 1e-300
        largest = {"float16": 65504.0, "float64": 1.7e308}.get(dtype, 3.38e38)
        close = np.abs(found - expected) <= relative * np.abs(expected) + absolute + smallest
        same = (found == expected) | (np.isnan(found) & np.isnan(expected))
        overflow = (np.abs(expected) > largest * (1 - 1e-12)) & (np.abs(found) >= largest * 0.99)
        overflow &= np.sign(expected) == np.sign(found)
    wrong = ~(close | same | overflow)
    assert not wrong.any(), (numbers[wrong][:5], found[wrong][:5], expected[wrong][:5])


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_erfinv(kernels: Kernels, dtype: str) -> None:
    """erf of the result is the argument; near 1, erfc of it is what is missing."""
    y = np.concatenate([np.linspace(-0.999, 0.999, 301), [1e-12, -1e-12, 0, 1 - 1e-6, 1 - 1e-7]]).astype(dtype)
    x = run(kernels, "erfinv", dtype, y).astype(np.float64)
    exact = y.astype(np.float64)
    slope = 2 / math.sqrt(math.pi) * np.exp(-x * x)
    error = np.where(np.abs(exact) < 0.9, by_math(math.erf)(x) - exact, (1 - np.abs(exact)) - erfc(np.abs(x)))
    assert (np.abs(error / slope) <= np.abs(x) * 4 * EPSILON[dtype] + 1e-300).all()
    edges = run(kernels, "erfinv", dtype, np.array([1, -1, 1.5, -2, np.nan], dtype))
    np.testing.assert_array_equal(edges, [np.inf, -np.inf, np.nan, np.nan, np.nan])


def test_large_angles(kernels: Kernels) -> None:
    """sin and cos of numbers whose distance from the next multiple of pi / 2 takes hundreds of bits of pi."""
    x = np.array([1e5, 5.2e5, 1e6, 1e10, 1e16, 1e22, 6381956970095103 * 2.0**797, 1.7e308, 2.0**20 * math.pi / 2])
    for name, function in (("sin", math.sin), ("cos", math.cos), ("tan", math.tan)):
        expected = np.array([function(value) for value in x])
        np.testing.assert_allclose(run(kernels, name, "float64", x), expected, rtol=3e-15, err_msg=name)
        np.testing.assert_allclose(
            run(kernels, name, "float64", -x), expected * (1 if name == "cos" else -1), rtol=3e-15
        )


@pytest.mark.parametrize("count", [0, 1, 3, 17, 255, 256, 257, 1000])
@pytest.mark.parametrize("name, dtype", [("exp", "float32"), ("sin", "float32"), ("isnan", "float16"), ("neg", "int8")])
def test_counts(kernels: Kernels, name: str, dtype: str, count: int) -> None:
    """Writes as many elements as there are, also in place."""
    x = store_as(dtype, np.random.default_rng(count).standard_normal(count + 1) * 20)
    result = np.bool_ if name == "isnan" else x.dtype
    y = np.full(count + 1, 1, result)
    arguments = {"opcode": CODES[name], "type": TYPES[dtype], "count": count}
    run_checked(kernels, "unary", "y", y=y, x=x, **arguments)
    assert y[count] == 1
    if name != "isnan":
        kernels.run("unary", y=x, x=x, **arguments)
        assert x[:count].tobytes() == y[:count].tobytes()


@pytest.mark.parametrize(
    "name, dtype", [("exp", "float32"), ("sin", "float64"), ("abs", "int16"), ("isinf", "float16")]
)
def test_views(kernels: Kernels, name: str, dtype: str) -> None:
    """Any strides: turned, repeated, every other one, backwards."""
    whole = store_as(dtype, np.random.default_rng(1).standard_normal((6, 5, 4, 7)) * 10)
    views = [whole, whole.transpose(3, 1, 0, 2), whole[::2, :, 1::2], whole[:, ::-1, 0, ::-2], whole[0, 0, 0, :0]]
    views += [
        np.broadcast_to(whole[:, :1], (6, 9, 4, 7)),
        whole[2, 3, 1, 1:2],
        np.broadcast_to(whole[1, 1, 1, 1], (3, 70)),
    ]
    for x in views:
        dense = np.ascontiguousarray(x)
        y = np.empty(x.shape, np.bool_ if name == "isinf" else x.dtype)
        arguments = {"opcode": CODES[name], "type": TYPES[dtype], "rank": x.ndim}
        arguments |= dims("shape", x.shape) | dims("x", element_strides(x))
        run_checked(kernels, "unary_strided", "y", y=y, x=x, **arguments)
        assert y.tobytes() == run(kernels, name, dtype, dense.ravel()).tobytes()


def test_bad_records_are_refused(kernels: Kernels) -> None:
    x, y = np.ones(4, np.float32), np.zeros(4, np.float32)
    good = {"opcode": CODES["exp"], "type": TYPES["float32"], "count": 4}
    assert kernels.run("unary", y=y, x=x, **good) == OK
    for bad in (
        {"opcode": -1},
        {"opcode": len(OPCODES)},
        {"type": -1},
        {"type": 99},
        {"type": TYPES["int32"]},
        {"count": -1},
    ):
        before = y.copy()
        assert kernels.run("unary", y=y, x=x, **{**good, **bad}) == BAD_ARGUMENT
        assert (y == before).all()
    strided = {"opcode": CODES["exp"], "type": TYPES["float32"], "shape0": 4, "x0": 1}
    for bad in ({"rank": 7}, {"rank": -1}, {"rank": 2, "shape1": -1}, {"rank": 1, "type": TYPES["bool"]}):
        assert kernels.run("unary_strided", y=y, x=x, **{**strided, **bad}) == BAD_ARGUMENT
