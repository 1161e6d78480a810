"""Products and look-ups in every dtype run in kernels: a Graph can record them, and their results are NumPy's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.engine import quant
from pyapp.engine.launch import capture
from pyapp.nn import functional as F

HALVES = ["float16", "bfloat16"]
STEP = {"float16": 2.0**-10, "bfloat16": 2.0**-7}


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def replayed(function: Any) -> np.ndarray:
    """The result of a Graph of the function. A Graph cannot record NumPy's computations."""
    graph = capture(function)
    return graph.replay().to("float64").numpy()


def tensors(dtype: str, *arrays: np.ndarray) -> tuple[list[Any], list[np.ndarray]]:
    """Tensors of the dtype, and their values in float64."""
    made = [pyapp.tensor(array).to(dtype) for array in arrays]
    return made, [t.to("float64").numpy() for t in made]


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("rows", [1, 5, 70])
def test_linear_of_halves(dtype: str, rows: int) -> None:
    (x, w, b, r), values = tensors(dtype, normal(rows, 48), normal(30, 48, seed=1), normal(30), normal(rows, 30))
    expected = values[0] @ values[1].T + values[2]
    assert F.linear(x, w, b).dtype is x.dtype
    np.testing.assert_allclose(replayed(lambda: F.linear(x, w, b)), expected, rtol=STEP[dtype], atol=1e-4)
    found = replayed(lambda: pyapp.engine.ops.linear(x, w, b, r))
    np.testing.assert_allclose(found, expected + values[3], rtol=2 * STEP[dtype], atol=4 * STEP[dtype])


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("kind", ["q4_0", "q5_0", "q8_0"])
@pytest.mark.parametrize("rows", [1, 6])
def test_halves_with_block_weights(dtype: str, kind: str, rows: int) -> None:
    """As float32 activations of the same values, rounded once."""
    w = quant.quantize(pyapp.tensor(normal(24, 64, seed=1)), kind)
    (x, b, r), _ = tensors(dtype, normal(rows, 64), normal(24), normal(rows, 24))
    for add in ({"bias": b}, {"residual": r}, {}):
        wide = {name: t.to("float32") for name, t in add.items()}
        expected = pyapp.engine.ops.linear(x.to("float32"), w, **wide).to("float64").numpy()
        found = replayed(lambda add=add: pyapp.engine.ops.linear(x, w, **add))
        np.testing.assert_allclose(found, expected, rtol=STEP[dtype], atol=1e-6)


@pytest.mark.parametrize("dtype", HALVES)
def test_gradients_of_halves(dtype: str) -> None:
    (x, w, b), values = tensors(dtype, normal(4, 16), normal(8, 16, seed=1), normal(8))
    for t in (x, w, b):
        t.requires_grad_()
    F.linear(x, w, b).sum().backward()
    np.testing.assert_allclose(x.grad.to("float64").numpy()[0], values[1].sum(0), rtol=4 * STEP[dtype], atol=0.02)
    np.testing.assert_allclose(w.grad.to("float64").numpy()[0], values[0].sum(0), rtol=4 * STEP[dtype], atol=0.02)
    assert b.grad.dtype is b.dtype and b.grad.tolist() == [4.0] * 8


@pytest.mark.parametrize("dtype", [*HALVES, "float32", "float64"])
@pytest.mark.parametrize("shapes", [((3, 5), (5, 7)), ((2, 3, 5), (5, 7)), ((2, 1, 3, 5), (4, 5, 7)), ((0, 5), (5, 7))])
def test_matmul_of_floats(dtype: str, shapes: tuple[tuple[int, ...], ...]) -> None:
    (a, b), values = tensors(dtype, normal(*shapes[0]), normal(*shapes[1], seed=1))
    found = replayed(lambda: a @ b)
    np.testing.assert_allclose(found, values[0] @ values[1], rtol=STEP.get(dtype, 1e-5), atol=1e-4)
    np.testing.assert_allclose(replayed(lambda: b.mT @ a.mT), np.swapaxes(found, -1, -2), atol=1e-5)


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "int32", "int64"])
def test_matmul_of_integers(dtype: str) -> None:
    limits = np.iinfo(dtype)
    a, b = (np.random.default_rng(i).integers(limits.min, limits.max, (2, 9, 9), dtype, True) for i in range(2))
    graph = capture(lambda: pyapp.tensor(a) @ pyapp.tensor(b).mT)
    np.testing.assert_array_equal(graph.replay().numpy(), a @ np.swapaxes(b, 1, 2))


@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "uint8", "int32", "int64", "bool"])
@pytest.mark.parametrize("ids_of", ["int32", "int64"])
def test_rows_of_tables(dtype: str, ids_of: str) -> None:
    values = (normal(6, 5) * 3).astype(dtype)
    table, ids = pyapp.tensor(values), pyapp.tensor([[5, 0], [2, 2]]).to(ids_of)
    rows = capture(lambda: F.embedding(ids, table)).replay()
    assert rows.dtype is table.dtype
    np.testing.assert_array_equal(rows.numpy(), values[[[5, 0], [2, 2]]])
    for wrong in (-1, 6):
        with pytest.raises(IndexError, match="out of range"):
            F.embedding(pyapp.tensor([0, wrong]).to(ids_of), table)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((2, 3, 4, 5), (5, 6)), ((3, 1, 5), (5, 6)), ((2, 1, 4, 5), (3, 5, 6)), ((1, 4, 5), (3, 5, 6)),
        ((4, 5), (3, 5, 6)), ((2, 3, 1, 5), (2, 3, 5, 6)), ((0, 4, 5), (5, 6)), ((2, 4, 0), (0, 3)),
        ((5,), (5,)), ((5,), (5, 6)), ((4, 5), (5,)), ((2, 3, 5), (5,)), ((5,), (2, 5, 3)),
    ],
)  # fmt: skip
def test_products_of_layouts(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    """Dense operands, parts of longer rows, other orders of the dims, and repeated ones."""

    def layouts(shape: tuple[int, ...], seed: int) -> list[Any]:
        x = pyapp.tensor(normal(*shape, seed=seed))
        wide = pyapp.tensor(normal(*shape[:-1], shape[-1] + 3, seed=seed))
        turned = pyapp.tensor(normal(*shape[::-1], seed=seed)).permute(*reversed(range(len(shape))))
        repeated = pyapp.tensor(normal(*(1,) * (len(shape) - 1), shape[-1], seed=seed)).expand(shape)
        return [x, wide[..., 1 : shape[-1] + 1], turned, repeated]

    for a in layouts(left, 0):
        for b in layouts(right, 1):
            found, expected = a @ b, a.numpy() @ b.numpy()
            assert found.shape == expected.shape
            np.testing.assert_allclose(found.numpy(), expected, rtol=1e-5, atol=1e-5)
