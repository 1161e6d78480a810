"""Functions of each element: op x dtype x layout x gradient, over shapes that hypothesis draws."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, mutually_broadcastable_shapes

from .compare import DTYPES, INTEGERS, LAYOUTS, agree, numbers, torch

UNARY = """
abs absolute neg positive sign sgn exp exp2 expm1 log log2 log10 log1p sqrt rsqrt square reciprocal sin cos tan asin
acos atan sinh cosh tanh asinh acosh atanh erf erfc erfinv lgamma digamma sigmoid logit round floor ceil trunc frac
sinc deg2rad rad2deg nan_to_num signbit isnan isinf isfinite isposinf isneginf bitwise_not logical_not relu clone
nn.functional.softplus nn.functional.gelu nn.functional.silu nn.functional.mish nn.functional.elu nn.functional.celu
nn.functional.selu nn.functional.leaky_relu nn.functional.relu6 nn.functional.hardtanh nn.functional.hardsigmoid
nn.functional.hardswish nn.functional.hardshrink nn.functional.softshrink nn.functional.tanhshrink
nn.functional.softsign nn.functional.logsigmoid
""".split()
BINARY = """
add sub mul div true_divide floor_divide remainder fmod pow atan2 hypot maximum minimum fmax fmin logaddexp
logaddexp2 copysign nextafter ldexp heaviside gcd lcm xlogy eq ne lt le gt ge bitwise_and bitwise_or bitwise_xor
bitwise_left_shift bitwise_right_shift logical_and logical_or logical_xor float_power isclose rsub dist
""".split()
QUOTIENTS = {"floor_divide", "remainder", "fmod", "div", "true_divide"}
COUNTS = {"bitwise_left_shift", "bitwise_right_shift", "ldexp", "pow", "float_power", "xlogy"}
SHAPES = array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
FEW = settings(max_examples=5, phases=[Phase.generate])  # small already: nothing to shrink


def find(P: Any, name: str) -> Any:
    for part in name.split("."):
        P = getattr(P, part)
    return P


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", UNARY)
@given(shape=SHAPES, layout=st.sampled_from(LAYOUTS))
@FEW
def test_unary(name: str, dtype: str, shape: tuple[int, ...], layout: str) -> None:
    array = numbers(shape, dtype, positive=name == "digamma")  # whose poles have slopes of any sign
    agree(lambda P, x: find(P, name)(x), [(array, dtype)], layout, gradient=dtype in ("float32", "float64"))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", BINARY)
@given(shapes=mutually_broadcastable_shapes(num_shapes=2, max_dims=3, max_side=3), layout=st.sampled_from(LAYOUTS))
@FEW
def test_binary(name: str, dtype: str, shapes: Any, layout: str) -> None:
    """With each other dtype on the right."""
    left, right = shapes.input_shapes
    for other in DTYPES:
        second = numbers(right, other, 1, positive=name in COUNTS)
        if name == "ldexp" and other not in INTEGERS:
            second = np.asarray(second * 4)
        if name in QUOTIENTS and other not in ("float32", "float64"):
            second = np.ones(right, bool) if other == "bool" else numbers(right, other, 1, positive=True)
        operands = [(numbers(left, dtype), dtype), (second, other)]
        gradient = dtype == other == "float64" and name not in ("nextafter", "heaviside")
        agree(lambda P, a, b: find(P, name)(a, b), operands, layout, gradient)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "remainder", "floor_divide", "maximum", "lt"])
@pytest.mark.parametrize("number", [2, 2.5, True])
def test_numbers_on_the_right(name: str, dtype: str, number: Any) -> None:
    operators = {
        "add": lambda x: x + number, "sub": lambda x: x - number, "mul": lambda x: x * number,
        "div": lambda x: x / number, "pow": lambda x: x**number, "remainder": lambda x: x % number,
        "floor_divide": lambda x: x // number, "maximum": lambda x: x.clamp(min=number), "lt": lambda x: x < number,
    }  # fmt: skip
    agree(lambda P, x: operators[name](x), [(numbers((3, 4), dtype), dtype)])
    reflected = {
        "add": lambda x: number + x, "sub": lambda x: number - x, "mul": lambda x: number * x,
        "div": lambda x: number / x, "pow": lambda x: number**x, "lt": lambda x: number > x,
    }  # fmt: skip
    if name in reflected:
        agree(lambda P, x: reflected[name](x), [(numbers((3, 4), dtype, positive=True), dtype)])


@pytest.mark.parametrize("source", DTYPES)
@pytest.mark.parametrize("target", [*DTYPES, "uint16", "uint32", "uint64", "float8_e4m3fn", "float8_e5m2"])
def test_casts(source: str, target: str) -> None:
    array = numbers((5, 7), source)
    agree(lambda P, x: x.to(getattr(P, target)).to(P.float64), [(array, source)], "transposed")


@pytest.mark.parametrize("name", ["where", "masked_fill", "lerp", "addcmul", "addcdiv", "clamp"])
@given(
    shapes=mutually_broadcastable_shapes(num_shapes=3, max_dims=3, max_side=3),
    dtype=st.sampled_from(DTYPES),
    layout=st.sampled_from(LAYOUTS),
)
@settings(max_examples=40, phases=[Phase.generate])
def test_three_operands(name: str, shapes: Any, dtype: str, layout: str) -> None:
    a, b, c = (numbers(shape, dtype, i, i == 2) for i, shape in enumerate(shapes.input_shapes))
    calls = {
        "where": lambda P, x, y, z: P.where(x.to(P.bool), y, z),
        "masked_fill": lambda P, x, y, z: (x + y + z).masked_fill(x.to(P.bool), 2),
        "lerp": lambda P, x, y, z: P.lerp(x, y, 0.25) if z.ndim else P.lerp(x, y, 0.75),
        "addcmul": lambda P, x, y, z: P.addcmul(x, y, z, value=2),
        "addcdiv": lambda P, x, y, z: P.addcdiv(x, y, z, value=2),
        "clamp": lambda P, x, y, z: P.clamp(x, y, y + z),
    }
    agree(calls[name], [(a, dtype), (b, dtype), (c, dtype)], layout, dtype == "float64")


def test_torch_is_a_release_that_these_tests_know() -> None:
    assert int(torch.__version__.split(".")[0]) >= 2
