"""Functions of rows in pieces: values and gradients are those of the whole."""

from __future__ import annotations

import pytest

import pyapp
from pyapp.engine.row_pieces import rows_at_once, rows_of_pieces, sum_of_pieces
from pyapp.engine.tensor import Tensor


def parts() -> tuple[Tensor, Tensor, Tensor]:
    """rows (7, 3), a weight (4, 3), and a tensor (7, 4) that gets no gradient."""
    made = pyapp.Generator().manual_seed(5)
    rows, weight, other = (pyapp.randn(*shape, generator=made) for shape in ((7, 3), (4, 3), (7, 4)))
    return rows.requires_grad_(), weight.requires_grad_(), other


@pytest.mark.parametrize("size", [1, 3, 6, 7, 20])
def test_a_sum_and_its_gradients(size: int) -> None:
    rows, weight, other = parts()

    def total(x: Tensor, y: Tensor) -> Tensor:
        return ((x * 2 @ doubled.T).tanh() * y).sum()  # `doubled` is older than the pieces

    wanted = []
    for whole in (True, False):
        doubled = weight * 2
        found = total(rows, other) if whole else sum_of_pieces(total, size, rows, other)
        (found * 3).backward()
        wanted.append([found.detach(), rows.grad, weight.grad])
        rows.grad = weight.grad = None
    for mine, right in zip(wanted[1], wanted[0], strict=True):
        pyapp.testing.assert_close(mine, right, rtol=1e-5, atol=1e-5)
    with pyapp.no_grad():
        assert not sum_of_pieces(total, size, rows, other).requires_grad


def test_what_autocast_keeps_serves_all_pieces() -> None:
    rows, weight, _ = parts()
    with pyapp.autocast("cpu", pyapp.bfloat16):
        sum_of_pieces(lambda x: pyapp.nn.functional.linear(x, weight).float().sum(), 2, rows).backward()
    assert rows.grad is not None and weight.grad is not None
    pyapp.testing.assert_close(weight.grad[0], rows.detach().bfloat16().float().sum(0), rtol=2e-2, atol=2e-2)


def test_backward_again_and_second_derivatives() -> None:
    rows, weight, _ = parts()
    found = sum_of_pieces(lambda x: (x @ weight.T).square().sum(), 2, rows)
    found.backward(retain_graph=True)
    once = rows.grad.clone()
    found.backward()
    pyapp.testing.assert_close(rows.grad, once * 2)
    with pytest.raises(RuntimeError, match="retain_graph"):
        found.backward()
    found = sum_of_pieces(lambda x: (x @ weight.T).square().sum(), 2, rows)
    with pytest.raises(RuntimeError, match="no second derivatives"):
        pyapp.autograd.grad(found, rows, create_graph=True)


def test_numbers_of_rows() -> None:
    rows, weight, _ = parts()
    found = rows_of_pieces(lambda x: (x @ weight.T).exp().sum(1), 3, rows)
    factors = pyapp.arange(7.0)
    (found * factors).sum().backward()
    mine = rows.grad, weight.grad
    rows.grad = weight.grad = None
    ((rows @ weight.T).exp().sum(1) * factors).sum().backward()
    for gradient, right in zip(mine, (rows.grad, weight.grad), strict=True):
        pyapp.testing.assert_close(gradient, right, rtol=1e-5, atol=1e-5)


def test_a_piece_has_a_row_at_least() -> None:
    assert rows_at_once(1 << 40, pyapp.device("cpu")) == 1
    assert rows_at_once(1 << 20, pyapp.device("cpu")) == 16
