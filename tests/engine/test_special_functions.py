"""Special functions: their precision, their limits, their gradients."""

from __future__ import annotations

import math
from math import inf, nan

import numpy as np
import pytest

import pyapp
from pyapp.autograd import gradcheck, gradgradcheck


def test_special_functions_in_float64() -> None:
    """Against the C library over the whole range, within a few units in the last place."""
    x = np.concatenate([np.linspace(-7, 7, 1001), [0.0, 1e-300, 1e-9, 1e5]])
    t = pyapp.from_numpy(x)
    np.testing.assert_allclose(t.erf().numpy(), [math.erf(v) for v in x], rtol=4e-15, atol=0)
    away = x[np.abs(x - np.rint(x)) > 1e-3]
    ours = pyapp.from_numpy(away).lgamma().numpy()
    np.testing.assert_allclose(ours, [math.lgamma(v) for v in away], rtol=2e-14, atol=2e-14)
    large = np.array([1e-300, 12.5, 170.0, 1e10, 1e300])
    np.testing.assert_allclose(pyapp.from_numpy(large).lgamma().numpy(), [math.lgamma(v) for v in large], rtol=1e-14)
    y = np.linspace(-0.999, 0.999, 401)
    np.testing.assert_allclose(pyapp.from_numpy(y).erfinv().erf().numpy(), y, rtol=1e-13, atol=1e-16)


def test_special_functions_at_their_limits() -> None:
    inf, nan = math.inf, math.nan
    x = pyapp.tensor([inf, -inf, nan])
    np.testing.assert_array_equal(x.erf().numpy(), [1, -1, nan])
    np.testing.assert_array_equal(x.lgamma().numpy(), [inf, inf, nan])
    np.testing.assert_array_equal(pyapp.tensor([0.0, -1.0, 1.0, 2.0]).lgamma().numpy()[:2], [inf, inf])
    np.testing.assert_array_equal(pyapp.tensor([1.0, -1.0, 1.5]).erfinv().numpy(), [inf, -inf, nan])


def test_gradients_of_gradients() -> None:
    x = pyapp.tensor([0.4, 1.3], dtype="float64", requires_grad=True)
    for name, second in (
        ("erf", lambda v: -4 * v / math.sqrt(math.pi) * math.exp(-v * v)),
        ("tan", lambda v: 2 * math.tan(v) / math.cos(v) ** 2),
    ):
        (first,) = pyapp.grad(getattr(x, name)().sum(), x, create_graph=True)
        assert first is not None
        (found,) = pyapp.grad(first.sum(), x)
        assert found is not None
        np.testing.assert_allclose(found.numpy(), [second(0.4), second(1.3)], rtol=1e-12)


def test_incomplete_gamma_functions_at_their_limits() -> None:
    a = pyapp.tensor([0.0, 0.0, 1.0, 2.0, -1.0, 1.0, inf, inf, nan])
    x = pyapp.tensor([0.0, 1.0, 0.0, inf, 1.0, -1.0, 1.0, inf, 1.0])
    np.testing.assert_array_equal(pyapp.igamma(a, x).numpy(), [nan, 1, 0, 1, nan, nan, 0, nan, nan])
    np.testing.assert_array_equal(pyapp.igammac(a, x).numpy(), [nan, 0, 1, 0, nan, nan, 1, nan, nan])


def test_second_derivatives() -> None:
    x = pyapp.tensor([0.4, -1.3, 2.1], dtype="float64").requires_grad_()
    assert gradcheck(pyapp.i0, [x]) and gradgradcheck(pyapp.i0, [x], atol=1e-4)
    a = pyapp.tensor([0.7, 2.0, 1.5], dtype="float64")
    assert gradgradcheck(lambda y: pyapp.igammac(a, y.square() + 0.1), [x], atol=1e-4)


def test_what_has_no_gradient_or_no_sense() -> None:
    a = pyapp.tensor([0.7, 2.0]).requires_grad_()
    with pytest.raises(RuntimeError, match="no gradient for its first argument"):
        pyapp.igamma(a, a.detach()).sum().backward()
    with pytest.raises(ValueError, match="mvlgamma"):
        a.mvlgamma(0)
    with pytest.raises(RuntimeError, match="gradient: dim 0"):
        pyapp.gradient(pyapp.ones(1, 3), dim=0)
    with pytest.raises(ValueError, match="spacings for"):
        pyapp.gradient(pyapp.ones(3, 3), spacing=(1.0,))
    assert pyapp.isreal(a).all()
