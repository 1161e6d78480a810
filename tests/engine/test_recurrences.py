"""Recurrences: what the kernels compute, by their definitions, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import pyapp
from pyapp import Tensor
from pyapp.engine.ops.recurrences import advance_states
from tests.engine.test_fused import definitions_only, normal

SHAPES = {
    "state": (2, 6, 5), "x": (2, 7, 6), "steps": (2, 7, 6), "inward": (2, 7, 5), "outward": (2, 7, 5), "decay": (6, 5),
}  # fmt: skip


def arguments(tokens: int = 7) -> dict[str, Tensor]:
    found = {name: normal(*shape, seed=i) for i, (name, shape) in enumerate(SHAPES.items())}
    found = {name: t.narrow(1, 0, tokens) if t.shape[1] == 7 else t for name, t in found.items()}
    return found | {"steps": found["steps"].sigmoid(), "decay": -found["decay"].exp()}


def test_linear_scan_is_the_recurrence() -> None:
    for length in (1, 2, 5, 8, 13):
        a, b, start = normal(2, length, 3), normal(2, length, 3, seed=1), normal(2, 3, seed=2)
        for reverse in (False, True):
            before, found = start.numpy(), np.zeros((2, length, 3))
            for t in reversed(range(length)) if reverse else range(length):
                found[:, t] = before = a.numpy()[:, t] * before + b.numpy()[:, t]
            with definitions_only():
                np.testing.assert_allclose(pyapp.linear_scan(a, b, start, reverse).numpy(), found, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("tokens", [1, 7])
def test_states_by_the_kernel_and_the_definition(tokens: int) -> None:
    given, again = arguments(tokens), arguments(tokens)
    y = advance_states(**given)
    with definitions_only():
        expected = advance_states(**again)
    for mine, defined in ((y, expected), (given["state"], again["state"])):
        np.testing.assert_allclose(mine.numpy(), defined.numpy(), rtol=1e-5, atol=1e-6)
    assert not np.allclose(given["state"].numpy(), arguments(tokens)["state"].numpy())  # it changed


def test_what_does_not_fit_is_refused() -> None:
    for name in SHAPES:
        given = arguments()
        wrong = given | {name: given[name].narrow(-1, 0, 4)}
        with pytest.raises(ValueError, match="advance_states: (?!x )"):
            advance_states(**wrong)
        with pytest.raises(ValueError, match="without gradients"):
            advance_states(**(given | {name: given[name].detach().requires_grad_()}))
    x = normal(2, 3, 4)
    for a, b, start in ((x, x[:, :2], None), (x, x, x), (x[0, 0], x[0, 0], None), (x[:, :0], x[:, :0], None)):
        with pytest.raises(ValueError, match="linear_scan"):
            pyapp.linear_scan(a, b, start)
