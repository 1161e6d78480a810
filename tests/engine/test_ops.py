"""Every op against torch's values and gradients, in several memory layouts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor
from tests.together import check_each

from .cases import LAYOUTS, SUBJECTS, cases_of, make_inputs, weights_for

GOLDEN = {subject: np.load(Path(__file__).with_name(f"golden_{subject}.npz")) for subject in SUBJECTS}
CASES = [(subject, *case) for subject in SUBJECTS for case in cases_of(subject)]


def laid_out(array: np.ndarray, layout: str) -> Tensor:
    """The same values, in memory with other strides."""
    x = pyapp.from_numpy(array.copy())
    if layout == "transposed" and array.ndim >= 2:
        return x.transpose(0, -1).contiguous().transpose(0, -1)
    if layout == "sliced" and array.ndim >= 1:
        wide = pyapp.zeros(*array.shape[:-1], array.shape[-1] * 2 + 1, dtype=x.dtype)
        wide[..., 1::2] = x
        return wide[..., 1::2]
    if layout == "expanded" and array.ndim >= 1:
        return x.unsqueeze(0).expand(2, *array.shape)[1]
    return x


def close(actual: Any, expected: np.ndarray, tolerance: float = 2e-5) -> None:
    actual = actual.detach().numpy()
    assert actual.shape == expected.shape
    if expected.dtype == np.float32:
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)
    else:
        np.testing.assert_array_equal(actual, expected)


def layouts_of(inputs: list[np.ndarray]) -> list[str]:
    """Dense, and the layouts in which some of these inputs differ from it: all natively, one of them in a browser."""
    rank = max((array.ndim for array in inputs), default=0)
    others = [layout for layout in LAYOUTS[1:] if rank >= (2 if layout == "transposed" else 1)]
    if sys.platform == "emscripten" and others:  # layouts are the work of Python, which is the same everywhere
        others = [others[sum(array.size for array in inputs) % len(others)]]
    return [LAYOUTS[0], *others]


@pytest.mark.parametrize(("subject", "name", "function", "specs"), CASES, ids=[case[1] for case in CASES])
def test_op(subject: str, name: str, function: Any, specs: list[Any]) -> None:
    inputs = make_inputs(name, specs)
    check_each(lambda layout: check_op(layout, GOLDEN[subject], name, function, inputs), zip(layouts_of(inputs)))


def check_op(layout: str, golden: Any, name: str, function: Any, inputs: list[np.ndarray]) -> None:
    tensors = [laid_out(array, layout) for array in inputs]
    for tensor in tensors:
        if tensor.is_floating_point():
            tensor.requires_grad_()
    value = function(pyapp, *tensors)
    close(value, golden[name])
    expected = {i: golden[f"{name}/grad{i}"] for i in range(len(tensors)) if f"{name}/grad{i}" in golden}
    assert value.requires_grad == bool(expected) or not expected
    if expected:
        (value * pyapp.tensor(weights_for(value.shape))).sum().backward()
    for i, gradient in expected.items():
        if tensors[i].grad is None:
            assert not gradient.any(), f"no gradient for input {i}"
        else:
            close(tensors[i].grad, gradient, 1e-4)


def test_names_of_cases_differ() -> None:
    assert len({name for _, name, _, _ in CASES}) == len(CASES)


def test_dims_of_a_sum_may_be_any_iterable() -> None:
    x = pyapp.ones(2, 3)
    assert x.sum(np.int64(0)).tolist() == x.mean(np.int64(0)).mul(2).tolist() == [2.0, 2.0, 2.0]
    assert x.sum(np.array([0])).tolist() == [2.0, 2.0, 2.0] and x.sum({0, 1}).item() == x.sum([0, 1]).item() == 6.0
    with pytest.raises(TypeError, match="a dim is an integer"):
        x.sum([[0]])
