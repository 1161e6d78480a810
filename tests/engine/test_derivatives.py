"""autograd.functional with known derivatives; attributes of a tensor's graph and size."""

from __future__ import annotations

import math
from typing import Any

import pytest

import pyapp
from pyapp import tensor
from pyapp.autograd import functional


def two(x: Any, y: Any) -> Any:
    return x * y, (x * x).sum()


X, Y = [1.0, 2.0], [3.0, 5.0]


def test_jacobians() -> None:
    found = functional.jacobian(two, (tensor(X), tensor(Y)))
    assert [[part.tolist() for part in row] for row in found] == [
        [[[3, 0], [0, 5]], [[1, 0], [0, 2]]],
        [[2, 4], [0, 0]],
    ]
    assert functional.jacobian(lambda x: x**2, tensor([[1.0, 2.0]])).shape == (1, 2, 1, 2)
    x = tensor(X, requires_grad=True)
    functional.jacobian(lambda x: x**3, x, create_graph=True).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [6, 12]
    with pytest.raises(RuntimeError, match="jacobian: .* does not depend on every input"):
        functional.jacobian(two, (tensor(X), tensor(Y)), strict=True)


def test_hessians() -> None:
    assert functional.hessian(lambda x: (x**3).sum(), tensor(X)).tolist() == [[6, 0], [0, 12]]
    found = functional.hessian(lambda x, y: (x * x * y).sum(), (tensor(X), tensor(Y)))
    assert [[part.tolist() for part in row] for row in found] == [
        [[[6, 0], [0, 10]], [[2, 0], [0, 4]]],
        [[[2, 0], [0, 4]], [[0, 0], [0, 0]]],
    ]
    with pytest.raises(RuntimeError, match="hessian: the function must give one number"):
        functional.hessian(lambda x: x, tensor(X))


def test_products_with_vectors() -> None:
    out, found = functional.vjp(lambda x: x**2, tensor(X), tensor([1.0, 10.0]))
    assert out.tolist() == [1, 4] and found.tolist() == [2, 40] and not found.requires_grad
    out, found = functional.jvp(lambda x, y: x * y, (tensor(X), tensor(Y)), (tensor([1.0, 0.0]), tensor([0.0, 1.0])))
    assert out.tolist() == [3, 10] and found.tolist() == [3, 2]
    for product in (functional.hvp, functional.vhp):
        out, found = product(lambda x: (x**3).sum(), tensor(X), tensor([1.0, 2.0]))
        assert out.item() == 9 and found.tolist() == [6, 24]
    with pytest.raises(RuntimeError, match="vjp: v does not have the shapes of the output"):
        functional.vjp(lambda x: x**2, tensor(X), tensor([1.0]))


def test_what_a_node_tells() -> None:
    x = tensor(X, requires_grad=True)
    y = x.exp() * 2
    assert y.grad_fn is not None and y.grad_fn.name() == "MulBackward0"
    ((inner, _),) = y.grad_fn.next_functions
    assert inner.name() == "ExpBackward0" and inner.next_functions[0][0].variable is x


def test_sizes_and_texts() -> None:
    x = pyapp.zeros(2, 3, 4)
    assert x.size() == (2, 3, 4) == x.shape and x.size().numel() == 24 and repr(x.size()) == "pyapp.Size([2, 3, 4])"
    assert x.size()[1:].numel() == 12 and (x.size() + (5,)).numel() == 120
    assert f"{tensor(3)} {tensor(2.5)} {tensor([1])}" == "3 2.5 tensor([1])"
    assert pyapp.int8.is_signed and not pyapp.uint64.is_signed and not pyapp.float32.is_complex


def test_dims_of_one_before_an_assigned_value_do_not_count() -> None:
    x = pyapp.zeros(2, 3)
    x[0] = tensor([[[1.0, 2.0, 3.0]]])
    x[1, 2] = tensor([7.0])
    x[x > 6] = tensor([[9.0]])
    assert x.tolist() == [[1, 2, 3], [0, 0, 9]]
    leaf = tensor([[4.0]], requires_grad=True)
    y = pyapp.zeros(2)
    y[0] = leaf
    y.sum().backward()
    assert leaf.grad is not None and leaf.grad.tolist() == [[1]]
    with pytest.raises(RuntimeError, match="setitem"):
        x[0] = pyapp.ones(2, 3)


def test_derivatives_along_tangents() -> None:
    x, y = tensor(X), tensor(Y)
    value, along = pyapp.func.linearize(lambda a, b: (a * b, a.exp().sum()), x, y)
    assert value[0].tolist() == [3, 10] and not value[0].requires_grad
    for u, v in (([1.0, 0.0], [0.0, 1.0]), ([2.0, 1.0], [0.0, 0.0])):
        tangents = tensor(u), tensor(v)
        product, total = along(*tangents)
        assert product.tolist() == [a * q + b * p for a, b, p, q in zip(u, v, X, Y, strict=True)]
        assert total.item() == pytest.approx(sum(t * math.exp(a) for t, a in zip(u, X, strict=True)))
        expected = pyapp.func.jvp(lambda a, b: (a * b, a.exp().sum()), (x, y), tangents)[1]
        assert product.tolist() == expected[0].tolist() and total.item() == expected[1].item()
    # Nested in a gradient: d/dx of (d(x³) along 1) = 6x.
    slope = pyapp.func.grad(lambda a: pyapp.func.linearize(lambda b: b**3, a)[1](pyapp.ones(2)).sum())
    assert slope(x).tolist() == [6, 12]
    with pytest.raises(RuntimeError, match=r"jvp: the tangents have the shapes \[\(1,\)\], the primals \[\(2,\)\]"):
        pyapp.func.jvp(lambda a: a, (x,), (pyapp.ones(1),))
    constant = pyapp.func.jvp(lambda a: (a * 2, y), (x,), (pyapp.ones(2),))
    assert [part.tolist() for part in constant[1]] == [[2, 2], [0, 0]]
    with pytest.raises(RuntimeError, match="jvp: output 1, .* does not depend on the inputs"):
        pyapp.func.jvp(lambda a: (a * 2, y), (x,), (pyapp.ones(2),), strict=True)


def test_batch_norms_that_keep_nothing() -> None:
    net = pyapp.nn.Sequential(pyapp.nn.Linear(2, 3), pyapp.nn.Sequential(pyapp.nn.BatchNorm1d(3)))
    assert pyapp.func.replace_all_batch_norm_modules_(net) is net
    norm = net[1][0]
    assert norm.running_mean is None and not norm.track_running_stats and not list(net.buffers())
    found = net.eval()(pyapp.randn(8, 2))
    assert found.mean(0).abs().max().item() < 1e-5


def test_many_examples_are_computed_by_the_kernels_of_one() -> None:
    x, y = pyapp.randn(9, 4), pyapp.randn(4, 9)
    calls = []

    def slope(a: pyapp.Tensor, b: pyapp.Tensor) -> pyapp.Tensor:
        calls.append(1)
        return pyapp.func.grad(lambda a: (a * b).sum().square())(a)

    found = pyapp.func.vmap(slope, (0, 1), 1)(x, y)  # (4, 9)
    assert len(calls) == 2 and found.shape == (4, 9)
    assert pyapp.allclose(found, 2 * (x.T * y).sum(0) * y, rtol=1e-4, atol=1e-5)
    nested = pyapp.vmap(lambda a: pyapp.vmap(lambda b: b * a.sum())(a))(x)
    assert pyapp.allclose(nested, x * x.sum(1, keepdim=True), rtol=1e-5, atol=1e-6)
    turned, last = pyapp.vmap(lambda a: (a.reshape(2, 2).T, a[1:3]), out_dims=(1, None))(x)  # (2, 9, 2), (2,)
    assert turned.tolist() == x.reshape(9, 2, 2).permute(2, 0, 1).tolist() and last.tolist() == x[0, 1:3].tolist()
    with pytest.raises(IndexError):
        pyapp.vmap(lambda i: x.index_select(0, i[None]))(pyapp.arange(20) - 5)
    # Each is called where values decide, and where an example is written.
    assert pyapp.vmap(lambda a: a if a > 2 else -a)(pyapp.arange(7.0)).tolist() == [0, -1, -2, 3, 4, 5, 6]
    assert pyapp.vmap(lambda a: a.add_(1).clone())(z := pyapp.zeros(7)).tolist() == z.tolist() == [1] * 7


def test_gradients_of_many_examples_are_computed_by_the_kernels_of_one() -> None:
    x, w, calls = pyapp.randn(9, 4, requires_grad=True), pyapp.ones(4, requires_grad=True), []

    def weighted(a: pyapp.Tensor) -> pyapp.Tensor:
        calls.append(1)
        return (a * w).sum()

    found = pyapp.vmap(weighted)(x)
    assert len(calls) == 2 and w.requires_grad
    found.sum().backward()
    assert len(calls) == 3
    assert w.grad is not None and pyapp.allclose(w.grad, x.sum(0), rtol=1e-4, atol=1e-5)
    assert x.grad is not None and x.grad.tolist() == [[1] * 4] * 9
    with pytest.raises(RuntimeError, match="freed"):
        found.sum().backward()
    found = pyapp.vmap(weighted)(x)
    with pyapp.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        found.sum().backward()
    # The function asks for gradients of a learnt tensor itself: it is called for each example.
    slopes = pyapp.vmap(lambda a: pyapp.autograd.grad((a * w**3).sum(), w, create_graph=True)[0])(x)
    assert pyapp.allclose(slopes, 3 * x * w**2, rtol=1e-4, atol=1e-5) and slopes.requires_grad


def test_rows_of_a_jacobian_are_computed_by_the_kernels_of_one() -> None:
    x, w = pyapp.randn(8), pyapp.randn(7, 8)
    found = pyapp.func.jacrev(lambda a, b: {"y": (w @ a).tanh(), "z": b * 2}, (0, 1))(x, y := pyapp.randn(6))
    slope = 1 - (w @ x).tanh() ** 2  # (7,)
    assert pyapp.allclose(found["y"][0], slope[:, None] * w, rtol=1e-4, atol=1e-5)
    assert found["z"][1].tolist() == (2 * pyapp.eye(6)).tolist()
    assert found["y"][1].shape == (7, 6) and not found["y"][1].any() and not found["z"][0].any()
    second = pyapp.func.hessian(lambda a: (a**3).sum())(x)
    assert pyapp.allclose(second, pyapp.diag(6 * x), rtol=1e-4, atol=1e-5)
    rows = pyapp.vmap(pyapp.func.jacrev(lambda a: a.sin() * a.sum()))(w)  # (7, 8, 8)
    exact = pyapp.stack([pyapp.diag(v.cos() * v.sum()) + v.sin()[:, None] for v in w])
    assert pyapp.allclose(rows, exact, rtol=1e-4, atol=1e-5)
    w.requires_grad_()  # a gradient passes through
    pyapp.func.jacrev(lambda a: w @ a)(x).sum().backward()
    assert w.grad is not None and w.grad.tolist() == [[1] * 8] * 7
    assert y.grad is None


def test_mistakes_are_named() -> None:
    x = tensor([1.0, 2.0], requires_grad=True)
    y = (x**3).sum()
    pyapp.autograd.grad(y, x)
    for again in (y, y * 2):  # not "takes no part in the outputs"
        with pytest.raises(RuntimeError, match="freed by an earlier backward.*retain_graph"):
            pyapp.autograd.grad(again, x)
    with pytest.raises(RuntimeError, match="do not take part"):
        pyapp.autograd.grad((x.detach().requires_grad_() * 2).sum(), x)
    with pytest.raises(ValueError, match="in_dims is a number"):
        pyapp.func.vmap(lambda a: a, in_dims=None)(x)
    with pytest.raises(RuntimeError, match="modules of one class.*Linear, ReLU"):
        pyapp.func.stack_module_state([pyapp.nn.Linear(2, 2), pyapp.nn.ReLU()])
    with pytest.raises(TypeError, match="0-d tensor"):
        list(tensor(1.0))
