"""Element programs: the kernel computes the same as the function does with tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, no_grad
from pyapp.engine.element_programs import ElementProgram
from pyapp.engine.ops.element_updates import update_elements


def _every_operation(x: Any, y: Any, scale: Any, rate: Any) -> Any:
    turned = (x.abs() + 1.0).sqrt() * y / (2.0 - rate) + x * y
    chosen = turned.where(x > y, (y - 1.0).maximum(x).minimum(rate)).where(x < 2.0, 3 * x)
    return chosen * scale, 1 / (y.sign() + rate), None


PROGRAM = ElementProgram(_every_operation, 3, 1)


def _tensors(dtype: str) -> list[Tensor]:
    return [pyapp.from_numpy(np.random.RandomState(seed).randn(5, 7)).to(dtype) for seed in range(3)]


def test_the_kernel_computes_what_the_function_does() -> None:
    tensors, wide = _tensors("float32"), _tensors("float64")
    tensors[2] = wide[2] = pyapp.tensor(0.75)
    views = [x.t().contiguous().t() for x in tensors[:2]]  # not dense: the function itself runs
    for first, others in ((tensors[0], tensors[1:]), (wide[0], wide[1:]), (views[0], [views[1], tensors[2]])):
        with no_grad():
            assert update_elements(first, tuple(others), PROGRAM, (0.25,)) is first
    for found, same, exact in zip(tensors[:2], views, wide[:2], strict=True):
        np.testing.assert_allclose(found.numpy(), exact.numpy(), rtol=1e-5)
        np.testing.assert_allclose(same.numpy(), exact.numpy(), rtol=1e-5)


def test_a_change_of_numbers_is_seen() -> None:
    program = ElementProgram(lambda x, y, factor: (x * factor + 1.0, None), 2, 1)
    x, y = pyapp.ones(3), pyapp.ones(3)
    versions = [x._storage.version + 3, y._storage.version]
    for factor in (2.0, 2.0, 5.0):
        update_elements(x, (y,), program, (factor,))
    assert x.tolist() == [36.0] * 3 and [x._storage.version, y._storage.version] == versions


@pytest.mark.parametrize(
    ("function", "tensors", "message"),
    [
        (lambda x, y: (x + y, x * y), 2, "argument 0 is used after its new value"),
        (lambda x: (x,), 1, "every result must be computed"),
        (lambda x: (None,), 1, "returns the new value of each of 1 tensors"),
        (lambda x, y: (x + y,), 2, "returns the new value of each of 2 tensors"),
        (lambda *every: (sum(every[1:], every[0] * 2), *(None,) * 6), 7, "takes up to 6 tensors"),
        (lambda x: (sum((x * float(n) for n in range(17)), x),), 1, "and 16 numbers"),
        (lambda x: (_used_backwards(x),), 1, "more than 8 values at a time"),
    ],
)
def test_programs_that_no_record_holds(function: Callable[..., Any], tensors: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _ = ElementProgram(function, tensors, 0).code


def _used_backwards(x: Any) -> Any:
    values = [x + float(n) for n in range(9)]
    total = values.pop()
    while values:
        total = total * values.pop()
    return total
