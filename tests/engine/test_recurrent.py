"""Recurrent layers over all steps: the kernels against the definitions, with gradients of first and second order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor
from pyapp.engine import capture
from pyapp.engine.ops.recurrent import gru_steps, lstm_steps, rnn_steps
from tests.engine.test_fused import definitions_only, normal
from tests.together import fewer_in_browser

STEPS, ROWS, UNITS = 5, 3, 6


def arguments(kind: str, units: int = UNITS, steps: int = STEPS, rows: int = ROWS) -> list[Any]:
    """A tensor of the first states, and the weights, without `reverse`."""
    gates = {"lstm": 4, "gru": 3}.get(kind, 1)
    x, h, c = normal(steps, rows, gates * units), normal(rows, units, seed=1), normal(rows, units, seed=2)
    weight, bias = normal(gates * units, units, seed=3) / 3, normal(gates * units, seed=4)
    return {"lstm": [x, h, c, weight], "gru": [x, h, weight, bias]}.get(kind, [x, h, weight, kind])


OPS: dict[str, Callable[..., Tensor]] = {"lstm": lstm_steps, "gru": gru_steps, "tanh": rnn_steps, "relu": rnn_steps}


def results(kind: str, given: list[Any], reverse: bool) -> list[np.ndarray]:
    """The result, and the gradients of a weighted sum of it."""
    tensors = [t.detach().clone().requires_grad_() if isinstance(t, Tensor) else t for t in given]
    y = OPS[kind](*tensors, reverse)
    (y * normal(*y.shape, seed=9).to(y.dtype)).sum().backward()
    return [np.array(t.numpy()) for t in (y.detach(), *(t.grad for t in tensors if isinstance(t, Tensor)))]


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("kind", OPS)
def test_kernels_and_definitions(kind: str, reverse: bool) -> None:
    given = arguments(kind)
    found = results(kind, given, reverse)
    with definitions_only():
        expected = results(kind, given, reverse)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=2e-6)


@pytest.mark.parametrize("kind", OPS)
def test_arguments_that_are_no_dense_float32(kind: str) -> None:
    """Views, float64, and a single row."""
    given = arguments(kind)
    views = [t.t().contiguous().t() if isinstance(t, Tensor) and t.ndim == 2 else t for t in given]
    views[0] = given[0].transpose(0, 1).contiguous().transpose(0, 1)
    wide = [t.double() if isinstance(t, Tensor) else t for t in given]
    for one, other, double in zip(*(results(kind, g, True) for g in (given, views, wide)), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(one, double, rtol=2e-5, atol=2e-6)
    single = [t[:, :1] if i == 0 else t[:1] if isinstance(t, Tensor) and t.shape[0] == ROWS else t
              for i, t in enumerate(given)]  # fmt: skip
    y, whole = OPS[kind](*single), OPS[kind](*given)
    np.testing.assert_allclose(y.numpy(), whole[..., :1, :].numpy(), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("kind", fewer_in_browser(["lstm", "gru", "tanh"]))
def test_second_order(kind: str) -> None:
    given = [t.double() if isinstance(t, Tensor) else t for t in arguments(kind, 2, 3, 2)]
    tensors = [t.requires_grad_() for t in given if isinstance(t, Tensor)]
    constants = [t for t in given if not isinstance(t, Tensor)]
    assert pyapp.autograd.gradgradcheck(lambda *t: OPS[kind](*t, *constants), tensors)


@pytest.mark.parametrize("kind", OPS)
def test_a_graph_repeats_a_training_step(kind: str) -> None:
    given = arguments(kind)
    tensors = [t.requires_grad_() if isinstance(t, Tensor) else t for t in given]

    def compute() -> Tensor:
        for t in tensors:
            if isinstance(t, Tensor):
                t.grad = None
        y = OPS[kind](*tensors)
        y.square().sum().backward()
        return tensors[1].grad

    first = np.array(compute().numpy())
    graph = capture(compute)
    tensors[0].data.mul_(0.5)
    changed = np.array(compute().numpy())
    assert not np.allclose(first, changed)
    np.testing.assert_array_equal(graph.replay().numpy(), changed)


def test_what_is_not_finite_stays_in_its_row() -> None:
    x, h, c, weight = arguments("lstm")
    x[2, 1, 0] = float("nan")
    y = lstm_steps(x, h, c, weight)
    assert y[:, :2].isfinite().all() and y[:, :, [0, 2]].isfinite().all() and y[:, 3:, 1].isnan().all()


def test_states_of_other_sizes_do_not_reach_the_kernels() -> None:
    """One row stands for all; other sizes are errors."""
    for kind, op in (("lstm", lstm_steps), ("gru", gru_steps), ("rnn", rnn_steps)):
        x, *given = arguments(kind)
        count = 2 if kind == "lstm" else 1
        states, rest = given[:count], given[count:]
        one_row = [h[:1] for h in states]
        y = op(x, *one_row, *rest)
        whole = op(x, *(h.expand(x.shape[1], -1).contiguous() for h in one_row), *rest)
        np.testing.assert_allclose(y.detach().numpy(), whole.detach().numpy(), rtol=1e-5, atol=1e-6)
        with pytest.raises((ValueError, RuntimeError)):
            op(x, *(pyapp.zeros(x.shape[1], h.shape[1] + 1) for h in states), *rest)
