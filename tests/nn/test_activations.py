"""Activations as modules against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import pyapp
from pyapp import nn

X = np.linspace(-4, 4, 24, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize(
    ("module", "expected"),
    [
        (nn.ReLU(), lambda x: np.maximum(x, 0)),
        (nn.SiLU(), lambda x: x / (1 + np.exp(-x))),
        (nn.Sigmoid(), lambda x: 1 / (1 + np.exp(-x))),
        (nn.Tanh(), np.tanh),
        (nn.Softmax(0), lambda x: np.exp(x) / np.exp(x).sum(0)),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values(module: nn.Module, expected: Callable[[np.ndarray], np.ndarray]) -> None:
    np.testing.assert_allclose(module(pyapp.from_numpy(X.copy())).numpy(), expected(X), rtol=1e-5, atol=1e-6)


def test_unknown_names_are_attribute_errors() -> None:
    with pytest.raises(AttributeError, match="no attribute 'NoSuch'"):
        nn.NoSuch  # noqa: B018
