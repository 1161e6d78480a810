"""Odd calls, compared with torch's results (golden_corners.json)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pyapp
from tests.together import check_each

from .cases_corners import CASES

np = pytest.importorskip("numpy")
GOLDEN = json.loads(Path(__file__).with_name("golden_corners.json").read_text())


def check(found: Any, expected: Any) -> None:
    if isinstance(expected, list):
        assert len(found) == len(expected)
        for part, other in zip(found, expected, strict=True):
            check(part, other)
    elif isinstance(expected, dict):
        assert found.dtype.name == expected["dtype"] and list(found.shape) == expected["shape"]
        numbers = np.array([float(v) for v in expected["values"]])
        ours = found.detach().to("float64").numpy().reshape(-1)
        np.testing.assert_allclose(ours, numbers, rtol=2e-5, atol=2e-5)
    else:
        assert found == expected


def test_as_torch() -> None:
    check_each(check_case, zip(CASES))


def check_case(name: str) -> None:
    if GOLDEN[name] == "error":
        with pytest.raises((TypeError, ValueError, IndexError, RuntimeError)) as caught:
            CASES[name](pyapp)
        assert len(str(caught.value)) > 10
    else:
        check(CASES[name](pyapp), GOLDEN[name])


def test_a_numpy_array_is_an_index() -> None:
    x = pyapp.arange(8).reshape(4, 2)
    assert x[np.array([2, 0])].tolist() == [[4, 5], [0, 1]]
    assert x[np.array([True, False, False, True])].tolist() == [[0, 1], [6, 7]]


def test_bytes_are_resized_by_rounding() -> None:
    """torch computes in fixed point, and may differ by one."""
    x = pyapp.tensor([[[[0, 100, 255]]]], dtype=pyapp.uint8)
    y = pyapp.nn.functional.interpolate(x, (1, 6), mode="bilinear")
    assert y.dtype is pyapp.uint8 and y.tolist() == [[[[0, 25, 75, 139, 216, 255]]]]
