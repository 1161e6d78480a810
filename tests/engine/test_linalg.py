"""Linear algebra: second derivatives, odd sizes, errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, linalg, tensor
from pyapp.autograd import gradcheck, gradgradcheck
from pyapp.engine.ops.linalg import factor


def matrix(*shape: int) -> Tensor:
    values = np.random.RandomState(math.prod(shape)).randn(*shape)
    return pyapp.from_numpy(np.asarray(values)).requires_grad_()


SMOOTH: dict[str, tuple[Callable[[Tensor], Tensor], tuple[int, ...]]] = {
    "matrix_exp": (linalg.matrix_exp, (2, 3, 3)),
    "pinv": (linalg.pinv, (4, 2)),
    "pinv of equal singular values": (lambda x: linalg.pinv(x * 0.1 + pyapp.eye(3, dtype=x.dtype)[:, :2]), (3, 2)),
    "solve_triangular": (
        lambda x: (
            linalg.solve_triangular(x, x[0, :, :2].sin(), upper=True)
            + linalg.solve_triangular(
                pyapp.complex(x[0], x[1]), x[:, :2] + 0j, upper=False, left=False, unitriangular=True
            )
            .abs()
            .sum()
        ),
        (2, 3, 3),
    ),
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


def test_a_matrix_beside_a_batch_of_as_many_is_no_batch_of_vectors() -> None:
    a, b = matrix(3, 3, 3).detach(), matrix(3, 3).detach()
    expected = np.stack([np.linalg.solve(np.tril(own), b.numpy()) for own in a.numpy()])  # as torch has it
    np.testing.assert_allclose(linalg.solve_triangular(a, b, upper=False).numpy(), expected, rtol=1e-10)


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
    "no gradient for a write": lambda: (pyapp.ones(3).requires_grad_() * 1).as_strided((2, 2), (1, 1)).mul_(2),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_does_not_fit_is_named(message: str) -> None:
    with pytest.raises((ValueError, TypeError, RuntimeError), match=message):
        REFUSED[message]()


@pytest.mark.parametrize("bad", [math.inf, -math.inf, math.nan])
def test_a_matrix_that_is_not_finite_is_nan_at_once(bad: float) -> None:
    """LAPACK's divide and conquer may never end there."""
    x = pyapp.eye(4).repeat(2, 1, 1)
    x[0, 3, 0], x[0, 1, 0] = bad, 1e-30
    for found in (linalg.svdvals(x), linalg.svd(x).S, linalg.eigvalsh(x), linalg.eigh(x)[0]):
        assert found[0].isnan().all() and found[1].tolist() == [1.0] * 4


def test_approximations_of_low_rank() -> None:
    """What has a low rank is found exactly, wide or high; the largest singular values of others nearly."""
    pyapp.manual_seed(0)
    low = pyapp.randn(20, 3) @ pyapp.randn(3, 12)
    for x in (low, low.T, low.expand(2, 20, 12)):
        u, s, v = pyapp.svd_lowrank(x, 4)
        assert u.shape[-1] == v.shape[-1] == s.shape[-1] == 4
        assert pyapp.allclose(u * s.unsqueeze(-2) @ v.mT, x, atol=1e-4)
        assert pyapp.allclose(s, pyapp.linalg.svdvals(x)[..., :4], atol=1e-4)
    u, s, v = pyapp.pca_lowrank(low + 5.0, q=3)
    centred = low - low.mean(0)
    assert pyapp.allclose(s, pyapp.linalg.svdvals(centred)[:3], atol=1e-3) and v.shape == (12, 3)
    assert pyapp.allclose((centred @ v @ v.T), centred, atol=1e-3) and pyapp.pca_lowrank(low)[1].shape == (6,)
    moved = pyapp.svd_lowrank(low, 3, M=low * 0.5)
    assert pyapp.allclose(moved.S * 2, pyapp.linalg.svdvals(low)[:3], atol=1e-3)
    for refused in (lambda: pyapp.svd_lowrank(low, 13), lambda: pyapp.pca_lowrank(low, q=13)):
        with pytest.raises(RuntimeError, match="q 13"):
            refused()


@pytest.mark.parametrize("shape", [(75, 75), (40, 70), (70, 40), (6, 5, 4), (3, 50, 40)])
def test_lu_by_panels(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more columns than a panel has, wide and high, of several small matrices, and of more than are taken together:
    the pivots are the largest."""
    monkeypatch.setattr(factor, "_TOGETHER", 2 * 50 * 40)
    x = matrix(*shape)
    for given in (x.detach(), x):  # in one pass, and with a gradient
        p, lower, upper = linalg.lu(given)
        np.testing.assert_allclose((p @ lower @ upper).detach().numpy(), x.detach().numpy(), rtol=1e-12, atol=1e-12)
        assert float(lower.detach().abs().max()) == 1.0 and bool((p.sum(-1) == 1).all())
    packed, pivots = linalg.lu_factor(x.detach())
    assert pyapp.allclose(packed, linalg.lu_factor(x)[0].detach(), rtol=1e-8) and pivots.dtype is pyapp.int32
    singular = x.detach().clone()
    singular[..., 1] = 0.0  # one pivot is 0
    p, lower, upper = linalg.lu(singular)
    np.testing.assert_allclose((p @ lower @ upper).numpy(), singular.numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("count", "n"), [(300, 2), (130, 3), (12, 16), (3, 31)])
def test_batches_of_small_matrices(count: int, n: int, dtype: str) -> None:
    """Of so many elements that kernels compute them, against LAPACK."""
    limit: Any = {"rtol": 0, "atol": 2e-4 if dtype == "float32" else 1e-11}
    x = np.random.default_rng(n).standard_normal((count, n, n)).astype(dtype)
    positive, sides = x @ x.swapaxes(-1, -2) + np.eye(n, dtype=dtype), x[..., :2].copy()
    well = (x / 4 + 2 * np.eye(n) * n**0.5).astype(dtype)
    of, one = pyapp.from_numpy, np.broadcast_to(np.eye(n), x.shape)

    def check(found: Any, expected: Any) -> None:
        np.testing.assert_allclose(found.numpy(), expected, **limit)

    check(linalg.cholesky(of(positive)), np.linalg.cholesky(positive))
    check(linalg.inv(of(well)), np.linalg.inv(well))
    check(linalg.solve(of(well), of(sides)), np.linalg.solve(well, sides))
    for upper, triangle in ((False, np.tril(well)), (True, np.triu(well))):
        given = of(well), of(sides)  # the other triangle is not read
        check(linalg.solve_triangular(*given, upper=upper), np.linalg.solve(triangle, sides))
    q, r = linalg.qr(of(x))
    check(q @ r, x)
    check(q.mT @ q, one)
    assert not np.tril(r.numpy(), -1).any()
    values, vectors = linalg.eigh(of(positive))
    np.testing.assert_allclose(values.numpy(), np.linalg.eigh(positive)[0], rtol=1e-4)
    check(vectors.mT @ vectors, one)
    np.testing.assert_allclose(((vectors * values.unsqueeze(-2)) @ vectors.mT).numpy(), positive, rtol=0, atol=1e-3)
    u, s, v = linalg.svd(of(x))
    check(s, np.linalg.svd(x)[1])
    check(u.mT @ u, one)
    check((u * s.unsqueeze(-2)) @ v, x)


def test_matrices_of_low_rank_in_a_batch() -> None:
    """The columns of U that no singular value belongs to are orthonormal, too; a singular matrix is named, and one that
    is not finite leaves its neighbours alone."""
    x = pyapp.ones(100, 4, 4)
    x[1] = 0.0
    x[2] = float("nan")
    u, s, v = linalg.svd(x)
    kept = [0, 1, 3]
    assert pyapp.allclose(u[kept] @ u[kept].mT, pyapp.eye(4).expand(3, 4, 4), atol=1e-5) and bool(u[2].isnan().all())
    assert pyapp.allclose(s[0], pyapp.tensor([4.0, 0.0, 0.0, 0.0]), atol=1e-5) and not s[1].any()
    values, _ = linalg.eigh(x)
    assert bool(values[2].isnan().all()) and bool(values[kept].isfinite().all())
    with pytest.raises(RuntimeError, match="singular"):
        linalg.inv(x[:1].expand(100, 4, 4))
    with pytest.raises(RuntimeError, match="not positive-definite"):
        linalg.cholesky(-x)
