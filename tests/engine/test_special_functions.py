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


def test_bessel_functions_and_the_zeta_function() -> None:
    """torch's values, in float64."""
    special = pyapp.special
    at = pyapp.tensor([-40.0, -3.0, 0.0, 0.5, 2.0, 29.0, 31.0, 500.0], dtype="float64")
    some = pyapp.tensor([-3.0, 0.0, 0.5, 2.0, 20.0], dtype="float64")
    cases = {
        "i0e": [
            0.0632782798752, 0.243000354162, 1, 0.645035270449, 0.308508322554, 0.0744074682222, 0.071946496697,
            0.0178457065002,
        ],
        "i1e": [
            -0.0624822290744, -0.196826713297, 0, 0.156420803185, 0.215269289249, 0.0731131179394, 0.0707763928344,
            0.0178278518529,
        ],
        "bessel_j0": [
            0.00736689058424, -0.260051954907, 1, 0.938469807241, 0.223890779141, -0.147848764683, 0.0512081453045,
            -0.0341005568807,
        ],
        "bessel_j1": [
            -0.126038318038, -0.339058958528, 0, 0.242268457675, 0.576724807757, 0.00693420455927, -0.133024316666,
            0.0104726134704,
        ],
    }  # fmt: skip
    for name, values in cases.items():
        np.testing.assert_allclose(getattr(special, name)(at).numpy(), values, rtol=1e-9, err_msg=name)
        limits = getattr(special, name)(pyapp.tensor([inf, -inf, nan])).numpy()
        np.testing.assert_array_equal(np.abs(limits), [0, 0, nan], err_msg=name)
    np.testing.assert_allclose(
        special.erfcx(some).numpy(), [16205.988854, 1, 0.615690344193, 0.255395676311, 0.0281743487411], rtol=1e-11
    )
    np.testing.assert_allclose(special.i1(some).numpy()[[0, 2, 3]], [-3.9533702174, 0.257894305391, 1.59063685464])
    powers = pyapp.tensor([2.0, 3.0, 1.5, 2.0, 1.0, 0.5], dtype="float64")
    starts = pyapp.tensor([1.0, 0.3, 100.0, -0.5, 2.0, 2.0], dtype="float64")
    expected = [1.64493406685, 37.6362682944, 0.200501249982, 8.93480220054, inf, nan]
    np.testing.assert_allclose(special.zeta(powers, starts).numpy(), expected, rtol=1e-11)
    assert special.zeta(2.0, pyapp.tensor([1.0])).item() == pytest.approx(math.pi**2 / 6)
    assert special.i0e(pyapp.arange(2)).dtype is pyapp.float32


def test_bessel_functions_of_the_second_kind_and_airys() -> None:
    """mpmath's values; torch's have seven digits."""
    special = pyapp.special
    at = pyapp.tensor([1e-9, 0.25, 1.5, 2.5, 12.0, 45.0], dtype="float64")
    cases = {
        "bessel_y0": [
            -13.266645074938387, -0.93157302493005867, 0.38244892379775886, 0.49807035961523188, -0.22523731263436145,
            0.027060469763313288,
        ],
        "bessel_y1": [
            -636619772.36758137, -2.7041052293152825, -0.4123086269739113, 0.14591813796678579, -0.05709921826089652,
            -0.11552517964639944,
        ],
        "modified_bessel_k0": [
            20.839197352604824, 1.5415067512483027, 0.21380556264752573, 0.062347553200366189, 2.2008253973114916e-6,
            5.3334561226187247e-21,
        ],
        "modified_bessel_k1": [
            999999999.99999988, 3.7470259744407115, 0.2773878004568438, 0.073890816347747065, 2.2907574647671878e-6,
            5.3923945937225042e-21,
        ],
    }  # fmt: skip
    limits = pyapp.tensor([0.0, -1.0, inf, nan])
    for name, values in cases.items():
        np.testing.assert_allclose(getattr(special, name)(at).numpy(), values, rtol=4e-13, err_msg=name)
        first = -inf if "y" in name else inf
        np.testing.assert_array_equal(getattr(special, name)(limits).numpy(), [first, nan, 0, nan], err_msg=name)
        if "k" in name:
            scaled = getattr(special, f"scaled_{name}")
            np.testing.assert_allclose(scaled(at).numpy(), np.exp(at.numpy()) * values, rtol=4e-13, err_msg=name)
            assert scaled(pyapp.tensor([1e30])).item() == pytest.approx(math.sqrt(math.pi / 2e30))
    x = pyapp.tensor([-7.5, -0.5, 0.0, 1.25, 4.0, 9.0], dtype="float64")
    values = [
        0.32177571638064789, 0.47572809161053958, 0.35502805388781722, 0.09964454475691667, 0.00095156385120480184,
        2.4711684308724899e-9,
    ]  # fmt: skip
    np.testing.assert_allclose(special.airy_ai(x).numpy(), values, rtol=4e-13)
    numbers = [getattr(special, name)(at[2]).item() for name in cases] + [special.airy_ai(x[0]).item()]
    np.testing.assert_allclose(numbers, [*(found[2] for found in cases.values()), values[0]], rtol=4e-13)
    for name in (*cases, *(f"scaled_{name}" for name in cases if "k" in name), "airy_ai"):
        function, x = getattr(special, name), pyapp.tensor([0.4, 1.7, 2.6, 33.0], dtype="float64").requires_grad_()
        assert gradcheck(function, [x]) and gradgradcheck(function, [x[1:3]], atol=1e-4)
        assert function(pyapp.arange(2)).dtype is pyapp.float32


def test_gradients_of_bessel_functions() -> None:
    x = pyapp.tensor([0.4, -1.3, 2.1, 33.0], dtype="float64").requires_grad_()
    for name in ("i0e", "i1e", "bessel_j0", "bessel_j1", "erfcx"):
        assert gradcheck(getattr(pyapp.special, name), [x]) and gradgradcheck(getattr(pyapp.special, name), [x[:3]])
    s, q = pyapp.tensor([2.0, 3.5], dtype="float64"), pyapp.tensor([0.4, 2.0], dtype="float64").requires_grad_()
    assert gradcheck(lambda y: pyapp.special.zeta(s, y), [q])
    with pytest.raises(NotImplementedError, match="first argument"):
        pyapp.special.zeta(s.clone().requires_grad_(), q).sum().backward()


POLYNOMIALS = {
    "chebyshev_polynomial_t": [-4.64816, 1, -0.792], "chebyshev_polynomial_u": [-15.54432, 1, -0.984],
    "chebyshev_polynomial_v": [-25.44992, 1, -0.344], "chebyshev_polynomial_w": [-5.63872, 1, -1.624],
    "hermite_polynomial_h": [29.42368, 12, -3.384], "hermite_polynomial_he": [-4.80051, 3, -0.873],
    "laguerre_polynomial_l": [15.08677508, 1, 0.2305], "legendre_polynomial_p": [-3.09901625, 0.375, -0.3825],
    "shifted_chebyshev_polynomial_t": [-4729.34912, 1, 0.944],
    "shifted_chebyshev_polynomial_u": [-9708.04224, 5, 1.088],
    "shifted_chebyshev_polynomial_v": [-11263.88384, 9, 1.448],
    "shifted_chebyshev_polynomial_w": [-8152.20064, 1, 0.728],
}  # fmt: skip


def test_polynomials() -> None:
    """torch's values at -1.1, 0 and 0.3, of degrees 5, 4 and 3."""
    x, degrees = pyapp.tensor([-1.1, 0.0, 0.3], dtype="float64"), pyapp.tensor([5, 4, 3])
    for name, values in POLYNOMIALS.items():
        function = getattr(pyapp.special, name)
        np.testing.assert_allclose(function(x, degrees).numpy(), values, rtol=1e-9, err_msg=name)
        assert function(x, 4)[1].item() == pytest.approx(values[1], abs=1e-12)
        assert function(x, -1).tolist() == [0, 0, 0] and function(x, 0).tolist() == [1, 1, 1]
        assert function(pyapp.tensor([2]), pyapp.tensor([-1])).tolist() == [0]
    assert gradcheck(lambda y: pyapp.special.legendre_polynomial_p(y, 4), [x.clone().requires_grad_()])
    with pytest.raises(ValueError, match="at most 10000"):
        pyapp.special.legendre_polynomial_p(x, 10**6)
