"""The ops of cases_gamma.py against torch's values and gradients, and their limits."""

from __future__ import annotations

from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp.autograd import gradcheck, gradgradcheck

from .cases import LAYOUTS
from .cases_gamma import CASES
from .test_ops import check

GOLDEN = np.load(Path(__file__).with_name("golden_gamma.npz"))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("name", "function", "specs"), CASES, ids=[case[0] for case in CASES])
def test_op(name: str, function: Any, specs: list[Any], layout: str) -> None:
    check(GOLDEN, name, function, specs, layout)


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
