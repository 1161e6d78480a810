"""gcd, lcm, frexp and the special functions of a kernel that CUDA alone has: the numbers and gradients of the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, special
from pyapp.errors import UnsupportedTypeError
from tests.cuda import emulated
from tests.engine.test_fused import normal
from tests.together import check_each

pytestmark = [pytest.mark.native_only, pytest.mark.filterwarnings("error:.*the host computes it from copies")]
EDGES = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 0.5, -2.5, -3.0, 1e-30, 1e-40, 30.0, 2e4]
REALS = np.concatenate([EDGES, np.random.RandomState(0).randn(50) * 4])
POSITIVE = np.concatenate([EDGES, np.random.RandomState(1).rand(60) * 20, [1e4, 1.01e4, 12345.0, 1e6, 9.9e5]])
PAIRS = np.stack(np.meshgrid(POSITIVE, POSITIVE)).reshape(2, -1)
MASSES = np.concatenate([EDGES, [0.02, 0.98, 0.0199, 0.5 + 1e-9, 1e-300], np.random.RandomState(2).rand(60)])
ORDERS = [(s, q) for s in (0.5, 1.0, 1.5, 2.0, 3.0, 7.5, 50.0, np.nan) for q in (*REALS, -9.5, -10.0, -12000.5)]
FUNCTIONS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "ndtri": (special.ndtri, (MASSES,)),
    "igamma": (pyapp.igamma, tuple(PAIRS)),
    "igammac": (pyapp.igammac, tuple(PAIRS)),
    "zeta": (special.zeta, tuple(np.array(ORDERS).T)),
    "polygamma 2": (lambda x: pyapp.polygamma(2, x), (REALS,)),
    "polygamma 5": (lambda x: pyapp.polygamma(5, x), (REALS,)),
    "polygamma 100": (lambda x: pyapp.polygamma(100, x), (REALS[-20:],)),
    "mantissa": (lambda x: x.frexp().mantissa, (REALS,)),
    "exponent": (lambda x: x.frexp().exponent, (REALS,)),
}
TOLERANCES = {"float64": 2e-12, "float32": 4e-7, "float16": 1e-3, "bfloat16": 8e-3}


def both(function: Callable[..., Any], *given: Tensor) -> tuple[Any, Any]:
    found = function(*(x.to(emulated.DEVICE) for x in given))
    assert found.device == emulated.DEVICE
    expected = function(*given)
    assert found.dtype is expected.dtype and found.shape == expected.shape
    as_numbers = (lambda x: x.double()) if expected.dtype.is_floating_point else (lambda x: x)
    return as_numbers(found.cpu()).numpy(), as_numbers(expected).numpy()


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_values(dtype: str) -> None:
    def check(name: str) -> None:
        function, arrays = FUNCTIONS[name]
        given = [pyapp.from_numpy(np.ascontiguousarray(a)).to(dtype) for a in arrays]
        found, expected = both(function, *given)
        np.testing.assert_allclose(found, expected, rtol=TOLERANCES[dtype], atol=TOLERANCES[dtype] * 1e-2)

    check_each(check, [(name,) for name in FUNCTIONS])
    emulated.check()


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", "int32", "int64"])
def test_whole_numbers(dtype: str) -> None:
    values = np.array([0, 1, 2, 12, 18, 97, 100, 127, *([-12, -128] if dtype != "uint8" else [255])])
    a, b = (pyapp.from_numpy(np.ascontiguousarray(v)).to(dtype) for v in (values[:, None], values))
    for function in (pyapp.gcd, pyapp.lcm):
        np.testing.assert_array_equal(*both(function, a, b))
    np.testing.assert_array_equal(*both(lambda x: pyapp.gcd(x.t(), 6), a))


def test_gradients() -> None:
    def check(name: str, function: Callable[..., Tensor], *given: Tensor) -> None:
        grads = []
        for device in ("cpu", emulated.DEVICE):
            leaves = [x.detach().to(device) for x in given]
            leaves[-1].requires_grad_()
            y = function(*leaves)
            (y * pyapp.arange(y.numel(), device=device).reshape(y.shape)).sum().backward()
            grads.append(leaves[-1].grad.cpu().numpy())
        np.testing.assert_allclose(grads[1], grads[0], rtol=1e-5, atol=1e-6)

    x, column = normal(3, 4).abs() + 0.5, normal(3, 1, seed=1).abs() + 1.5
    check_each(
        check,
        [
            ("ndtri", special.ndtri, x.sigmoid()),
            ("igamma", pyapp.igamma, column, x),
            ("igammac", pyapp.igammac, column, x),
            ("zeta", special.zeta, column, x),
            ("polygamma", lambda x: pyapp.polygamma(3, x), x),
            ("trigamma", lambda x: pyapp.polygamma(1, x), x),
            ("frexp", lambda x: x.frexp().mantissa, x),
        ],
    )


def test_numbers_views_and_errors() -> None:
    x = normal(4, 6).abs().to(emulated.DEVICE)
    np.testing.assert_allclose(*both(lambda x: pyapp.igamma(x.t()[1:], 2.0), normal(4, 6).abs()), rtol=1e-6)
    np.testing.assert_allclose(*both(lambda x: pyapp.igammac(x, 3), pyapp.arange(6)), rtol=1e-6)
    np.testing.assert_allclose(*both(lambda x: pyapp.polygamma(2, x), pyapp.arange(5) + 1), rtol=1e-6)
    with pytest.raises(ValueError, match=r"order 101 is not in 0 \.\. 100"):
        pyapp.polygamma(101, x)
    with pytest.raises(TypeError, match="frexp: takes floating-point"):
        pyapp.arange(3, device=emulated.DEVICE).frexp()
    with pytest.raises(RuntimeError, match="no gradient for its first argument"):
        pyapp.igamma(x.requires_grad_(), 2.0).sum().backward()
    with pytest.warns(UserWarning, match="the host computes"), pytest.raises(UnsupportedTypeError, match="gcd: takes"):
        pyapp.gcd(x.detach(), 2.0)
