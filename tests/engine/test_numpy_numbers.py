"""NumPy's numbers beside tensors: they count as Python's, as in torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyapp

WHOLE = [np.int64(2), np.int32(2), np.uint8(2)]
INTEGERS = ["int64", "int32", "int8", "uint8"]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("number", WHOLE, ids=lambda number: str(number.dtype))
def test_whole_numbers_keep_the_tensors_dtype(dtype: str, number: Any) -> None:
    x = pyapp.tensor([3, 5], dtype=dtype)
    for found, values in (
        (x + number, [5, 7]), (x * number, [6, 10]), (x - number, [1, 3]), (x // number, [1, 2]), (x % number, [1, 1]),
        (x**number, [9, 25]), (number + x, [5, 7]), (pyapp.add(x, number), [5, 7]),
        (pyapp.where(x > 3, x, number), [2, 5]),
    ):  # fmt: skip
        assert (found.dtype, found.tolist()) == (x.dtype, values)
    x += number
    assert x.tolist() == [5, 7]


def test_large_whole_numbers_are_not_rounded() -> None:
    assert (pyapp.arange(2) + np.int64(16_777_217)).tolist() == [16_777_217, 16_777_218]


def test_bools_and_fractions() -> None:
    assert (pyapp.tensor([True, False]) * np.int64(3)).tolist() == [3, 0]
    assert (pyapp.tensor([1, 2]) * np.float64(1.5)).dtype is pyapp.float32
    assert (pyapp.ones(2) * np.int64(3)).dtype is pyapp.float32


def test_arange_of_whole_numbers() -> None:
    for found in (
        pyapp.arange(np.int64(3)), pyapp.arange(pyapp.tensor(3)), pyapp.arange(np.int32(0), np.int64(3), np.uint8(1)),
    ):  # fmt: skip
        assert (found.dtype, found.tolist()) == (pyapp.int64, [0, 1, 2])
    assert pyapp.arange(np.float64(0), pyapp.tensor(1.0), 0.5).tolist() == [0.0, 0.5]
