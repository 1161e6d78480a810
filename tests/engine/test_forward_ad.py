"""Dual tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn, tensor
from pyapp.autograd.forward_ad import dual_level, enter_dual_level, exit_dual_level, make_dual, unpack_dual

from .leaves import leaf64

X, T = [1.0, 2.0], [3.0, 4.0]


def test_tangents_of_functions() -> None:
    x, y, t = tensor(X), tensor([0.5, -1.0]), tensor(T)
    with dual_level():
        a, b = make_dual(x, t), make_dual(y, pyapp.ones(2))
        found = unpack_dual(a.sin() * b)
        np.testing.assert_allclose(found.primal.numpy(), np.sin(X) * y.numpy())
        np.testing.assert_allclose(found.tangent.numpy(), np.cos(X) * T * y.numpy() + np.sin(X), rtol=1e-6)
        assert not found.primal.requires_grad and not found.tangent.requires_grad
        assert unpack_dual(a).tangent.tolist() == T and unpack_dual(a + b).tangent.tolist() == [4, 5]
        assert unpack_dual(x).tangent is None and unpack_dual(a.detach() * 2).tangent is None
        assert unpack_dual(a.round()).tangent.tolist() == [0, 0]
        w = leaf64(1, 2)
        assert unpack_dual(w * 2).tangent is None
    after = unpack_dual(a)
    assert after.tangent is None


def test_tangents_are_those_of_jvp() -> None:
    pyapp.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 2))
    x, parameters = pyapp.randn(5, 3), dict(model.named_parameters())
    along = {name: pyapp.randn(*p.shape) for name, p in parameters.items()}

    def run(given: Any) -> Any:
        return pyapp.func.functional_call(model, given, (x,))

    expected = pyapp.func.jvp(run, (parameters,), (along,))[1]
    with dual_level():
        duals = {name: make_dual(p.detach(), along[name]) for name, p in parameters.items()}
        tangent = unpack_dual(run(duals)).tangent
    assert tangent is not None
    np.testing.assert_allclose(tangent.numpy(), expected.detach().numpy(), rtol=1e-6)


def test_gradients_of_tangents() -> None:
    x = leaf64(*X)
    with dual_level():
        found = unpack_dual(make_dual(x, tensor(T, dtype="float64")) ** 3)
        assert found.tangent.tolist() == [9, 48] and found.tangent.requires_grad and found.primal.requires_grad
        (second,) = pyapp.autograd.grad(found.tangent.sum(), x)
    assert second.tolist() == [18, 48]

    # Inside a function that is differentiated.
    def slope(a: Any) -> Any:
        with dual_level():
            return unpack_dual(make_dual(a, pyapp.ones(2, dtype="float64")) ** 3).tangent.sum()

    assert pyapp.func.grad(slope)(x.detach()).tolist() == [6, 12]


def test_levels_and_errors() -> None:
    x, t = tensor(X), tensor(T)
    assert enter_dual_level() == 0
    assert unpack_dual(make_dual(x, t) * 2).tangent.tolist() == [6, 8]
    with pytest.raises(RuntimeError, match="they cannot be nested"):
        enter_dual_level()
    with pytest.raises(RuntimeError, match=r"the tangent is float32\[3\] on cpu, the tensor float32\[2\]"):
        make_dual(x, pyapp.ones(3))
    with pytest.raises(ValueError, match="takes floating-point and complex tensors, got int64"):
        make_dual(tensor([1, 2]), tensor([1, 2]))
    with pytest.raises(RuntimeError, match="which no_grad does not record"), pyapp.no_grad():
        make_dual(x, t)
    exit_dual_level()
    with pytest.raises(RuntimeError, match="there is no such level"):
        exit_dual_level()
    with pytest.raises(RuntimeError, match="there is no level"):
        make_dual(x, t)
