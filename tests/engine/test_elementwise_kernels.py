"""Arithmetic of float32, which kernels compute, against NumPy in float64: any layout, any broadcasting, numbers, and in
captured graphs.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import from_numpy, no_grad
from pyapp.engine import capture

SHAPES = [
    ((3, 4, 5), (3, 4, 5)), ((3, 4, 5), (5,)), ((4, 5), (3, 4, 5)), ((3, 4, 5), (4, 1)), ((3, 1, 1), (3, 4, 5)),
    ((3, 4, 5), (3, 1, 5)), ((3, 1), (1, 7)), ((2, 1, 3, 1), (1, 4, 1, 5)), ((3, 4), ()), ((), (3, 4)), ((), ()),
    ((1, 1), (1,)), ((0, 3), (3,)), ((2, 0), (2, 1)), ((1, 3, 1, 2), (4, 3, 2, 2)),
]  # fmt: skip
BINARY: dict[str, Any] = {
    "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide, "maximum": np.maximum,
    "minimum": np.minimum,
}  # fmt: skip
UNARY: dict[str, Any] = {
    "neg": np.negative, "exp": np.exp, "tanh": np.tanh, "sqrt": lambda x: np.sqrt(np.abs(x)), "abs": np.abs,
    "sigmoid": lambda x: 1 / (1 + np.exp(-x)), "relu": lambda x: np.maximum(x, 0), "reciprocal": lambda x: 1 / x,
    "log": lambda x: np.log(np.abs(x)), "rsqrt": lambda x: 1 / np.sqrt(np.abs(x)), "square": np.square,
}  # fmt: skip
OF_POSITIVE = ("sqrt", "log", "rsqrt")


def normal(shape: tuple[int, ...], seed: int) -> np.ndarray:
    return np.asarray(np.random.default_rng(seed).standard_normal(shape), np.float32)


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("shapes", SHAPES, ids=str)
def test_broadcasting(name: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (normal(shape, seed) for seed, shape in enumerate(shapes))
    found = getattr(pyapp, name)(from_numpy(a), from_numpy(b))
    assert found.dtype is pyapp.float32
    np.testing.assert_array_equal(found.numpy(), BINARY[name](a, b))


@pytest.mark.parametrize("name", BINARY)
def test_layouts(name: str) -> None:
    a, b = normal((6, 4, 10), 1), normal((6, 4, 10), 2)
    for view in (lambda x: x.transpose(2, 0, 1), lambda x: x[::2, 1:, ::3], lambda x: x[:, :1]):
        for left, right in ((view(a), view(b)), (view(a).copy(), view(b)), (view(a), view(b).copy())):
            found = getattr(pyapp, name)(from_numpy(left), from_numpy(right))
            np.testing.assert_array_equal(found.numpy(), BINARY[name](left, right))


EXPANDED: list[tuple[tuple[int, ...], tuple[int, ...]]] = [
    ((), (3, 4)), ((3, 1), (3, 4)), ((1, 4), (3, 4)), ((4,), (2, 3, 4)), ((2, 1, 4), (2, 3, 4)),
    ((1, 3, 1), (2, 3, 4)), ((3, 1), (2, 3, 4)), ((1, 1), (1, 1)), ((3, 1), (3, 0)),
]  # fmt: skip


@pytest.mark.parametrize("name", BINARY)
@pytest.mark.parametrize("shapes", EXPANDED, ids=str)
def test_expanded_operands(name: str, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    few, shape = normal(shapes[0], 1), shapes[1]
    whole, repeated = normal(shape, 2), np.broadcast_to(few, shape)
    x, y = from_numpy(few).expand(shape), from_numpy(whole)
    op = getattr(pyapp, name)
    for left, right in ((x, y), (y, x), (x, x), (x, y[:1]), (x.transpose(0, -1), y.transpose(0, -1))):
        found = op(left, right)
        np.testing.assert_array_equal(found.numpy(), BINARY[name](left.numpy(), right.numpy()))
    if name in ("add", "sub", "mul", "div"):
        np.testing.assert_array_equal(getattr(y.clone(), name + "_")(x).numpy(), BINARY[name](whole, repeated))
    found = op(x, y)
    found[..., :1] = 7  # the result has memory for each element
    assert not shape[-1] > 1 or (found[..., 1:] != 7).all()


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_any_layout(name: str) -> None:
    x = normal((6, 4, 10), 1)
    x = np.abs(x) if name in OF_POSITIVE else x
    for view in (x, x.transpose(2, 0, 1), x[::2, 1:, ::3], x[:0], x[1, 2, 3]):
        found = getattr(pyapp, name)(from_numpy(view))
        exact = np.asarray(UNARY[name](view.astype(np.float64)), np.float32)
        np.testing.assert_allclose(found.numpy(), exact, rtol=1e-6, atol=1e-7)


def test_a_result_lies_as_its_operand_does() -> None:
    x = pyapp.randn(2, 3, 4).permute(0, 2, 1)
    for y in (x * 2, x.tanh(), x + x, -x):
        assert y.strides == x.strides


@pytest.mark.parametrize("number", [0.5, 3, -1e-3, 1e30, math.inf, -0.0])
def test_numbers(number: float) -> None:
    x = normal((3, 5), 1)
    t, wide = from_numpy(x), np.float32(number)
    with np.errstate(all="ignore"):
        for found, expected in (
            (t + number, x + wide), (t - number, x - wide), (t * number, x * wide), (t / number, x / wide),
            (number + t, wide + x), (number - t, wide - x), (number * t, wide * x), (number / t, wide / x),
        ):  # fmt: skip
            assert found.dtype is pyapp.float32
            np.testing.assert_array_equal(found.numpy(), expected)


def test_numbers_that_float32_does_not_hold() -> None:
    assert (pyapp.ones(2) * 1e300).tolist() == [math.inf, math.inf]
    assert (pyapp.ones(2) * True).tolist() == [1.0, 1.0]


def test_clamp_and_nan() -> None:
    x = np.array([-2.0, -0.5, 0.5, 2.0, np.nan, np.inf, -np.inf], np.float32)
    for low, high in ((-1, 1), (None, 0.25), (0, None), (1.0, -1.0)):
        expected = x if low is None else np.maximum(x, np.float32(low))
        expected = expected if high is None else np.minimum(expected, np.float32(high))
        np.testing.assert_array_equal(from_numpy(x).clamp(low, high).numpy(), expected)
    np.testing.assert_array_equal(from_numpy(x).relu().numpy(), np.maximum(x, np.float32(0)))


def test_a_chain_is_replayed() -> None:
    x, row = pyapp.randn(33, 70), pyapp.randn(1, 70)

    def chain() -> Any:
        return (x * 0.5 + row).tanh() * x - (-x * x).exp() / 2 + (x.abs() + 1).sqrt().maximum(row.sigmoid())

    with no_grad():
        graph = capture(chain)
        x.copy_(pyapp.randn(33, 70))
        np.testing.assert_array_equal(graph.replay().numpy(), chain().numpy())


WHOLE = (pyapp.bool, pyapp.uint8, pyapp.int8, pyapp.int32, pyapp.int64)


@pytest.mark.parametrize("kind", WHOLE, ids=lambda kind: kind.name)
def test_whole_numbers_wrap_and_compare_as_numpys(kind: pyapp.dtype) -> None:
    """Dense, in rows that begin at any byte, broadcast, and beside numbers."""
    sizes = np.arange(2 * 300).reshape(2, 300)
    a, b = (pyapp.from_numpy(values).to(kind) for values in (sizes * 7 % 251 - 100, sizes * 13 % 241 - 90))
    pairs = [(a, b), (a[:, 1:], b[:, :-1]), (a[:, ::2], b[:, 1::2]), (a, b[:1]), (a[:, :1], b), (a.t(), b.t())]
    logical = {"bitwise_and": np.logical_and, "bitwise_or": np.logical_or, "bitwise_xor": np.logical_xor}
    for x, y in pairs:
        for name in ("add", "subtract", "multiply", "maximum", "minimum", *logical, "equal", "less", "greater_equal"):
            if kind is pyapp.bool and name == "subtract":
                continue
            ours = {"equal": "eq", "less": "lt", "greater_equal": "ge"}.get(name, name)
            expected = getattr(np, name)(x.numpy(), y.numpy())
            assert np.array_equal(getattr(pyapp, ours)(x, y).numpy(), expected), (name, x.shape)
        for name, function in logical.items():
            found = getattr(pyapp, name.replace("bitwise", "logical"))(x, y).numpy()
            assert np.array_equal(found, function(x.numpy(), y.numpy())), name
        assert np.array_equal(pyapp.logical_not(x).numpy(), np.logical_not(x.numpy()))
        assert np.array_equal(pyapp.bitwise_not(x).numpy(), np.bitwise_not(x.numpy()))
    for number in (3, 300, -1) if kind is not pyapp.bool else ():
        own = np.asarray(number).astype(a.numpy().dtype)  # as torch: a number takes the tensor's type, and wraps
        assert np.array_equal((a == number).numpy(), a.numpy() == own), number
        assert np.array_equal((a < number).numpy(), a.numpy() < own), number
        assert np.array_equal((a * number).numpy(), a.numpy() * own), number


def test_parts_of_rows_are_read_where_they_lie() -> None:
    x = np.random.default_rng(0).standard_normal((5, 301)).astype(np.float32)
    ours = pyapp.from_numpy(x)
    assert np.array_equal((ours[:, 1:] - ours[:, :-1]).numpy(), x[:, 1:] - x[:, :-1])
    assert np.array_equal((ours[:, 3:103] * ours[:1, :100]).numpy(), x[:, 3:103] * x[:1, :100])
    assert np.array_equal((ours[1:, 200:] + ours[1:, 200:]).numpy(), 2 * x[1:, 200:])
    assert np.array_equal((ours[:, :100] / ours[:, 7:8]).numpy(), x[:, :100] / x[:, 7:8])


def test_sums_of_a_transposed_tensor() -> None:
    x = np.random.default_rng(0).standard_normal((70, 45)).astype(np.float32)
    ours = pyapp.from_numpy(x).t()
    for name in ("sum", "mean", "amax", "prod"):
        expected = getattr(x.T.astype(np.float64), name.removeprefix("a"))(1)
        assert np.allclose(getattr(ours, name)(1).numpy(), expected, rtol=1e-4, atol=1e-6), name
    assert np.array_equal(ours.argmax(1).numpy(), x.T.argmax(1))


def test_expanded_operands_of_other_orders() -> None:
    """What an expansion repeats lies before, between and after other dims; few elements, and long rows."""
    for columns in (32, 3000):
        rows = pyapp.rand(2, columns)
        wide = pyapp.rand(2, 2 * columns)
        operands = [
            rows.reshape(2, 1, 1, columns).expand(2, 2, 3, columns),
            rows.reshape(2, columns, 1, 1).expand(2, columns, 2, 3).permute(0, 2, 3, 1),
            rows.reshape(1, 2, 1, columns).expand(2, 2, 3, columns),
            wide[:, ::2].reshape(2, 1, 1, columns).expand(2, 2, 3, columns),
            wide[:, :columns].reshape(2, 1, 1, columns).expand(2, 2, 3, columns),
            pyapp.rand(2, 3, 2, columns).transpose(1, 2),
            rows[0], rows[:, :1].reshape(2, 1, 1), rows[:, :3].reshape(2, 3, 1), pyapp.rand(columns * 2)[::2],
        ]  # fmt: skip
        for a in operands:
            for b in operands:
                pairs = [(a * b, a.numpy() * b.numpy()), (a - b, a.numpy() - b.numpy())]
                pairs += [(a.clone().sub_(b), pairs[1][1])] if a.ndim == 4 else []
                for found, wanted in pairs:
                    assert found.shape == wanted.shape, (a.shape, a.strides, b.shape, b.strides)
                    np.testing.assert_array_equal(found.numpy(), wanted)
