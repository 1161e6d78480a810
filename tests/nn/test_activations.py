"""Activations as modules against NumPy."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import pyapp
from pyapp import nn
from pyapp.errors import ModelError
from pyapp.nn.layers.experts import Experts
from pyapp.nn.layers.gated import activation_named

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


def test_names_of_configurations() -> None:
    """The numbers are those of transformers' ACT2FN."""
    x = pyapp.tensor([-12.0, -1.5, 0.7, 12.0])
    tanh = [0.0, -0.100428, 0.53057, 12.0]
    exact = [0.0, -0.100211, 0.530625, 12.0]
    wanted = {
        "silu": [-7.37301e-05, -0.273638, 0.467731, 11.9999], "gelu": exact, "gelu_python": exact,
        "gelu_10": [*exact[:3], 10.0], "gelu_new": tanh, "gelu_fast": tanh, "gelu_pytorch_tanh": tanh,
        "gelu_python_tanh": tanh, "gelu_accurate": tanh, "quick_gelu": [0.0, -0.108338, 0.536894, 12.0],
        "relu2": [0.0, 0.0, 0.49, 144.0], "relu6": [0.0, 0.0, 0.7, 6.0], "leaky_relu": [-0.12, -0.015, 0.7, 12.0],
        "mish": [-7.37303e-05, -0.2981, 0.561148, 12.0], "linear": [-12.0, -1.5, 0.7, 12.0],
        "hardswish": [0.0, -0.375, 0.431667, 12.0],
    }  # fmt: skip
    for name, values in wanted.items():
        found = activation_named(name)(x).numpy()
        np.testing.assert_allclose(found, values, rtol=2e-5, atol=1e-6, err_msg=name)


def test_unknown_activations_are_refused_before_the_model_runs() -> None:
    with pytest.raises(ModelError, match="the activation 'gelo' is not known"):
        Experts(8, 8, 2, "gelo")
