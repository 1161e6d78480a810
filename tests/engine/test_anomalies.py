"""The search for anomalies: what it says, and that it ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor
from pyapp.autograd import Function, detect_anomaly, set_detect_anomaly
from pyapp.engine.grad_mode import WATCHERS

from .leaves import leaf64


def zero_over_zero(x: Tensor) -> Tensor:
    y = x.sqrt()
    return (y * 0 / y).sum()


def test_nan_is_found_where_it_arises() -> None:
    x = leaf64(1, 0)
    with detect_anomaly():
        loss = zero_over_zero(x)
        calls = loss.grad_fn.next_functions[0][0].metadata["traceback_"]
        assert "in zero_over_zero" in calls[-1] and "return (y * 0 / y).sum()" in calls[-1]
        with pytest.warns(UserWarning, match="the gradient of DivBackward0 has failed") as caught:
            with pytest.raises(RuntimeError, match="'DivBackward0' returned nan values .* gave NaN as gradient 1 of"):
                loss.backward()
        assert "return (y * 0 / y).sum()" in str(caught[0].message)
    assert x.grad is None
    with detect_anomaly(check_nan=False):
        zero_over_zero(x).backward()
    assert np.isnan(x.grad.tolist()[1])


def test_nan_in_slices_and_of_forward_passes_before() -> None:
    x = leaf64(1, 2)
    part = x[1:]
    with set_detect_anomaly(True):
        with pytest.warns(UserWarning, match="before the op runs to see where"):
            with pytest.raises(RuntimeError, match="'StridedBackward0' returned nan values"):
                part.backward(pyapp.tensor([float("nan")], dtype="float64"))


def test_errors_of_functions() -> None:
    class Fails(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Any:
            raise ValueError("mine")

    with detect_anomaly():
        y = Fails.apply(leaf64(1, 2)).sum()
        with pytest.warns(UserWarning, match=r"(?s)the gradient of FailsBackward has failed.*y = Fails.apply"):
            with pytest.raises(ValueError, match="mine"):
                y.backward()


def test_gradients_are_the_same() -> None:
    x, w = leaf64(0.5, 1.5), leaf64(2, 3)

    def derivatives() -> list[Any]:
        y = pyapp.cat([(x * w).sin(), x[1:] * x[:1]]).exp().sum()
        (first,) = pyapp.autograd.grad(y, x, create_graph=True)
        return [first.tolist(), *(g.tolist() for g in pyapp.autograd.grad(first.sum(), (x, w)))]

    expected = derivatives()
    with detect_anomaly():
        assert derivatives() == expected


def test_how_it_is_turned_on_and_off() -> None:
    states = lambda: (pyapp.is_anomaly_enabled(), pyapp.is_anomaly_check_nan_enabled())  # noqa: E731
    assert states() == (False, True) and WATCHERS.count == 0
    with set_detect_anomaly(True, check_nan=False):
        assert states() == (True, False)
        with detect_anomaly():
            assert states() == (True, True)
            with set_detect_anomaly(False):
                assert states() == (False, True)
        assert states() == (True, False) and WATCHERS.count == 1
    assert states() == (False, True) and WATCHERS.count == 0
    set_detect_anomaly(True)
    assert states() == (True, True)
    pyapp.set_anomaly_enabled(False)
    assert states() == (False, True) and WATCHERS.count == 0
    assert "traceback_" not in (leaf64(1) * 2).grad_fn.metadata
