"""What the golden values of cases_ported.py do not say: second derivatives, odd sizes, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, linalg, tensor
from pyapp.autograd import gradcheck, gradgradcheck
from pyapp.nn import functional as F


def matrix(*shape: int) -> Tensor:
    values = np.random.RandomState(math.prod(shape)).randn(*shape)
    return pyapp.from_numpy(np.asarray(values)).requires_grad_()


SMOOTH: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "matrix_exp": (linalg.matrix_exp, (2, 3, 3)),
    "pinv": (linalg.pinv, (4, 2)),
    "pinv of equal singular values": (lambda x: linalg.pinv(x * 0.1 + pyapp.eye(3, dtype=x.dtype)[:, :2]), (3, 2)),
    "lstsq": (lambda x: linalg.lstsq(x, x[:, :1].exp(), driver="gels").residuals, (4, 2)),
    "cond 1": (lambda x: linalg.cond(x, 1), (2, 2, 2)),
    "cond fro": (lambda x: linalg.cond(x, "fro"), (2, 2)),
    "as_strided": (lambda x: x.as_strided((3, 3), (1, 1)).sin(), (2, 3)),
    "renorm": (lambda x: x.renorm(3, 0, 0.5), (2, 3)),
    "diagonal_scatter": (lambda x: pyapp.diagonal_scatter(x.exp(), x[0] * x[1]), (2, 2)),
}


@pytest.mark.parametrize("name", SMOOTH)
def test_gradients_and_those_of_gradients(name: str) -> None:
    function, shape = SMOOTH[name]
    assert gradcheck(function, matrix(*shape)) and gradgradcheck(function, matrix(*shape))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_exponentials_in_every_float(dtype: str) -> None:
    found = linalg.matrix_exp(tensor([[0.0, 3.0], [-3.0, 0.0]], dtype=dtype))
    assert found.dtype.name == dtype
    wanted = [[math.cos(3), math.sin(3)], [-math.sin(3), math.cos(3)]]
    limit = {"float16": 1e-3, "bfloat16": 1e-2, "float32": 1e-6, "float64": 1e-14}[dtype]
    np.testing.assert_allclose(found.to("float64").numpy(), wanted, atol=limit)


def test_a_matrix_without_exponential_leaves_its_neighbours_alone() -> None:
    x = pyapp.zeros(3, 2, 2)
    x[0, 0, 1], x[2] = float("nan"), 1e5
    found = linalg.matrix_exp(x)
    assert found[0].isnan().all() and found[1].tolist() == [[1, 0], [0, 1]] and found[2].isinf().all()


def test_condition_numbers_of_the_singular_are_infinite_and_alone() -> None:
    x = pyapp.stack([pyapp.eye(2), pyapp.zeros(2, 2)])
    for p in (1, -1, "fro", float("inf")):
        found = linalg.cond(x, p).tolist()
        assert found[1] == math.inf and found[0] == pytest.approx(2 if p == "fro" else 1)


def test_the_view_that_a_tensor_becomes_is_known() -> None:
    x = pyapp.arange(6.0).reshape(2, 3)
    before = x._version
    assert x.t_() is x and x.shape == (3, 2) and x.strides == (1, 3) and x._version == before + 1
    leaf = pyapp.ones(2, 3, requires_grad=True)
    with pytest.raises(RuntimeError, match="t_: cannot write in place into a leaf"):
        leaf.t_()
    with pyapp.no_grad():
        leaf.t_()
    assert leaf.is_leaf and leaf.shape == (3, 2)
    kept = (leaf * 2).exp()
    kept.unsqueeze_(0)  # exp needs its result as it was
    with pytest.raises(RuntimeError, match="'exp'.*changed in place"):
        kept.sum().backward()


def test_shapes_alone() -> None:
    assert pyapp.broadcast_shapes((2, 1), 3, (1, 1, 1)) == (1, 2, 3) and pyapp.broadcast_shapes() == ()
    assert pyapp.broadcast_shapes((0, 1), (4,)) == (0, 4)
    with pytest.raises(ValueError, match="broadcast_shapes: shapes .* do not broadcast"):
        pyapp.broadcast_shapes((2,), (3,))
    with pytest.raises(ValueError, match="not negative"):
        pyapp.broadcast_shapes((-1,))


REFUSED: dict[str, Callable[[], object]] = {
    "addbmm: takes": lambda: pyapp.addbmm(pyapp.ones(3), pyapp.ones(2, 5), pyapp.ones(1, 5, 3)),
    "renorm: takes floats of 2 dims": lambda: pyapp.ones(3).renorm(2, 0, 1.0),
    "renorm: .* p above 0": lambda: pyapp.ones(3, 3).renorm(0, 0, 1.0),
    "t_: takes up to 2 dims": lambda: pyapp.ones(3, 2, 1).t_(),
    "diagonal_scatter: .* does not have the shape": lambda: pyapp.diagonal_scatter(pyapp.ones(3, 3), pyapp.ones(1)),
    "slice_scatter: .* does not have the shape": lambda: pyapp.slice_scatter(pyapp.ones(3, 3), pyapp.ones(3), 1, 0, 2),
    "lstsq: takes A": lambda: linalg.lstsq(pyapp.ones(5, 3), pyapp.ones(4, 1)),
    "lstsq: takes .* one dtype": lambda: linalg.lstsq(pyapp.ones(5, 3), pyapp.ones(5, 1, dtype="float64")),
    "lstsq: driver is one of gels": lambda: linalg.lstsq(pyapp.ones(5, 3), pyapp.ones(5, 1), driver="qr"),
    "cond: takes square": lambda: linalg.cond(pyapp.ones(5, 3), 1),
    "cond: unknown ord 3": lambda: linalg.cond(pyapp.eye(3), 3),
    "matrix_exp: takes square": lambda: linalg.matrix_exp(pyapp.ones(5, 3)),
    "matrix_exp: takes floating-point": lambda: linalg.matrix_exp(pyapp.eye(3, dtype="int64")),
    "as_strided: .* outside the memory": lambda: pyapp.ones(3).as_strided((2,), (3,)),
    "cannot follow a write": lambda: (pyapp.ones(3).requires_grad_() * 1).as_strided((2, 2), (1, 1)).mul_(2),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_does_not_fit_is_named(message: str) -> None:
    with pytest.raises((ValueError, TypeError, RuntimeError), match=message):
        REFUSED[message]()


def test_data_that_overlaps_is_copied_first() -> None:
    x = pyapp.arange(5.0)
    x[1:].copy_(x.data[:-1])  # the same memory by another storage
    assert x.tolist() == [0, 0, 1, 2, 3]
    y = pyapp.ones(4)
    for _ in range(3):
        y.data = y.data
    assert y.storage.owner is not None and y.storage.owner.owner is None  # no chain of owners
    kept = pyapp.arange(3.0).data  # outlives the tensor that it showed
    assert [pyapp.zeros(3).sum().item() for _ in range(3)] == [0, 0, 0] and kept.tolist() == [0, 1, 2]


def test_what_is_assigned_wrongly_is_named() -> None:
    x = pyapp.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"grad: the gradient has the shape \(2,\), the tensor \(3,\)"):
        x.grad = pyapp.ones(2)
    with pytest.raises(RuntimeError, match="grad: the gradient has the dtype .*float64"):
        x.grad = pyapp.ones(3, dtype="float64")
    with pytest.raises(RuntimeError, match="computed from others.*detach"):
        (x * 2).requires_grad = True
    with pytest.raises(RuntimeError, match=r"numpy: .*requires a gradient.*\.detach\(\)\.numpy\(\)"):
        x.numpy()


def test_diagonals_are_filled_as_in_torch() -> None:
    assert pyapp.zeros(5, 2).fill_diagonal_(1, wrap=True).tolist() == [[1, 0], [0, 1], [0, 0], [1, 0], [0, 1]]
    assert pyapp.zeros(2, 4).fill_diagonal_(1, wrap=True).tolist() == [[1, 0, 0, 0], [0, 1, 0, 0]]
    assert pyapp.zeros(3, 3, 3).fill_diagonal_(2).nonzero().tolist() == [[0, 0, 0], [1, 1, 1], [2, 2, 2]]
    x = pyapp.ones(3, 3, requires_grad=True)
    (x * 2).fill_diagonal_(5).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [[0, 2, 2], [2, 0, 2], [2, 2, 0]]
    with pytest.raises(RuntimeError, match="fill_diagonal_: takes a matrix"):
        pyapp.zeros(2, 3, 3).fill_diagonal_(1)


def test_pools_choose_the_last_nan_and_never_the_padding() -> None:
    """torch's indices."""
    nan, low = float("nan"), float("-inf")
    x = tensor([[[[1.0, nan, 2, 5], [nan, 4, 7, 8], [0, 0, nan, 1], [0, 0, 1, 2]]]])
    for pool in (F.max_pool2d, F.adaptive_max_pool2d):
        assert pool(x, 2, return_indices=True)[1].tolist() == [[[[4, 7], [8, 10]]]]
    assert F.max_pool1d(tensor([[nan, nan, 3.0, nan, 1, 1]]), 3, return_indices=True)[1].tolist() == [[1, 3]]
    y = tensor([[[[low, low], [low, 1.0]]]])
    assert F.max_pool2d(y, 3, 1, 1, return_indices=True)[1].tolist() == [[[[3, 3], [3, 3]]]]
    assert F.max_pool2d(y[..., :1, :], (1, 3), 1, (0, 1), return_indices=True)[1].tolist() == [[[[0, 0]]]]


def test_numpy_does_not_see_leaves_that_want_a_gradient() -> None:
    leaf = pyapp.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match="requires a gradient"):
        np.asarray(leaf)
    with pyapp.no_grad():
        assert np.asarray(leaf).tolist() == [1, 1]
    assert np.asarray(leaf.detach()).tolist() == [1, 1]


def test_uniform_and_normal_take_torchs_names() -> None:
    assert pyapp.zeros(50).normal_(mean=100, std=0.0).tolist() == [100] * 50
    x = pyapp.zeros(50).uniform_(**{"from": 3, "to": 4})
    assert 3 <= x.min().item() and x.max().item() < 4
