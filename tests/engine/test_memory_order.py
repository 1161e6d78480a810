"""Tensors whose memory has another order than their dims, products with one column, and least squares of full rank."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, nn

SIDE = 80  # so that a matrix has more elements than those that are read in any order


def _matrix(seed: int, *shape: int, kind: str = "float32") -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * 9).astype(kind)


@pytest.mark.parametrize(
    "function",
    [
        lambda P, x, y: x > 1,
        lambda P, x, y: x != y,
        lambda P, x, y: P.where(x > 1, x, y),
        lambda P, x, y: P.where(y < 0, 2.5, x),
        lambda P, x, y: P.where(x > 1, x, y[:1]),
    ],
)
def test_choice_in_the_order_of_the_memory(function: Callable[..., object]) -> None:
    a, b = _matrix(0, SIDE, SIDE), _matrix(1, SIDE, SIDE)
    expected = function(np, a.T, b.T)
    found = function(pyapp, pyapp.from_numpy(a).t(), pyapp.from_numpy(b).t())
    assert isinstance(found, Tensor)
    np.testing.assert_array_equal(found.numpy(), expected)


def test_sums_of_all_elements_in_any_order() -> None:
    x = _matrix(0, 3, SIDE, 5)
    turned = pyapp.from_numpy(x).permute(2, 0, 1)
    assert int((turned > 0).sum()) == int((x > 0).sum())
    assert float(turned.amax()) == x.max()
    assert int(turned.argmax()) == int(x.transpose(2, 0, 1).argmax())


@pytest.mark.parametrize("kind", ["float32", "int64"])
@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((5, 7), (7, 1)), ((5, 7), (7,)), ((5, 0), (0, 1)), ((3, 5, 7), (3, 7, 1)), ((2, 1, 5, 7), (1, 3, 7, 1)),
        ((2, 5, 7), (7, 1)),
    ],
)  # fmt: skip
def test_products_with_one_column(left: tuple[int, ...], right: tuple[int, ...], kind: str) -> None:
    a, b = _matrix(0, *left, kind=kind), _matrix(1, *right, kind=kind)
    apart = pyapp.from_numpy(np.stack([b, b], -1))[..., 0]  # its elements do not follow one another
    for x in (pyapp.from_numpy(a), pyapp.from_numpy(np.ascontiguousarray(a.swapaxes(-1, -2))).mT):
        for y in (pyapp.from_numpy(b), apart):
            np.testing.assert_allclose((x @ y).numpy(), a @ b, rtol=1e-4, atol=1e-3)


def test_least_squares_of_full_rank_and_of_less() -> None:
    a, b = _matrix(0, 2, 9, 3), _matrix(1, 2, 9, 2)
    found = pyapp.linalg.lstsq(pyapp.from_numpy(a), pyapp.from_numpy(b), driver="gels")
    for at in range(2):
        solution, squares, _, _ = np.linalg.lstsq(a[at], b[at], rcond=None)
        np.testing.assert_allclose(found.solution[at].numpy(), solution, rtol=1e-3, atol=1e-5)
        np.testing.assert_allclose(found.residuals[at].numpy(), squares, rtol=1e-3)
    a[..., 2] = a[..., 0]
    less = pyapp.linalg.lstsq(pyapp.from_numpy(a), pyapp.from_numpy(b))
    assert less.rank.tolist() == [2, 2]
    np.testing.assert_allclose(
        less.solution[0].numpy(), np.linalg.lstsq(a[0], b[0], rcond=1e-5)[0], rtol=1e-2, atol=1e-4
    )


@pytest.mark.parametrize("shape", [(2, 8, 5, 5), (3, 4, 2, 3)])
def test_norms_of_channels_last(shape: tuple[int, ...]) -> None:
    """The same numbers and gradients as of row-major pictures."""
    x, g = (pyapp.from_numpy(_matrix(seed, *shape)) for seed in (1, 2))
    weight, bias = (pyapp.from_numpy(_matrix(seed, shape[1])) for seed in (3, 4))
    norms = {
        "batch": lambda x, *learnt: nn.functional.batch_norm(x, None, None, *learnt, training=True),
        "group": lambda x, *learnt: nn.functional.group_norm(x, 2, *learnt),
        "instance": lambda x, *learnt: nn.functional.instance_norm(x, weight=learnt[0], bias=learnt[1]),
    }
    for norm in norms.values():
        found = []
        for order in (pyapp.contiguous_format, pyapp.channels_last):
            leaves = [t.detach().requires_grad_() for t in (x.contiguous(memory_format=order), weight, bias)]
            y = norm(*leaves)
            found.append([y.detach(), *pyapp.autograd.grad(y, leaves, g)])
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-5)


def test_norms_of_many_columns() -> None:
    """Each column by itself, as among few."""
    x, g = (pyapp.from_numpy(_matrix(seed, 600, 256, kind="float64")) for seed in (1, 2))
    weight, bias = (pyapp.from_numpy(_matrix(seed, 256, kind="float64")) for seed in (3, 4))
    found = []
    for some in (slice(None), slice(30, 60)):
        leaves = [x[:, some].clone().requires_grad_(), *(t[some].clone().requires_grad_() for t in (weight, bias))]
        mean, var = pyapp.zeros(leaves[1].shape, dtype=x.dtype), pyapp.ones(leaves[1].shape, dtype=x.dtype)
        y = nn.functional.batch_norm(leaves[0], mean, var, *leaves[1:], training=True)
        found.append([y.detach(), mean, var, *pyapp.autograd.grad(y, leaves, g[:, some])])
    for whole, part in zip(*found, strict=True):
        np.testing.assert_allclose(whole[..., 30:60].numpy(), part.numpy(), rtol=1e-9, atol=1e-9)
