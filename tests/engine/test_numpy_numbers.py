"""NumPy's numbers beside tensors: they count as Python's, as in torch."""

from __future__ import annotations

import enum
from typing import Any

import numpy as np
import pytest

import pyapp
from tests.mirror import device as _device  # noqa: F401 (registers the mirror)

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


def test_lists_keep_the_dtypes_of_numpy_and_of_tensors() -> None:
    """As in torch: NumPy's numbers, arrays and tensors inside lists have their dtype, Python's floats the default."""
    f64, f32, f16, i32, u8 = np.float64, np.float32, np.float16, np.int32, np.uint8
    for data, dtype, values in (
        ([f64(1), f64(2)], "float64", [1, 2]), ([f32(1), 2.0], "float32", [1, 2]), ([1, f64(2)], "float64", [1, 2]),
        ([f16(2), 1], "float16", [2, 1]), ([[f64(2)], [1.0]], "float64", [[2], [1]]),
        ([i32(2), i32(1)], "int32", [2, 1]),
        ((u8(1), np.int8(2)), "int16", [1, 2]), ([np.ones(2), np.zeros(2)], "float64", [[1, 1], [0, 0]]),
        ([np.ones(2, "i4"), [1, 2]], "int64", [[1, 1], [1, 2]]), ([np.array([])], "float64", [[]]),
        ([], "float32", []),
        ([pyapp.tensor(1, dtype="int32")], "int32", [1]), ([pyapp.tensor(1.0).double(), 2], "float64", [1, 2]),
        ([pyapp.tensor([1.0]), pyapp.tensor([2.0])], "float32", [1, 2]),
        ([[pyapp.tensor([[3]]), 4]], "int64", [[3, 4]]),
        ([pyapp.tensor(1.0).bfloat16()], "bfloat16", [1]),
    ):  # fmt: skip
        found = pyapp.tensor(data)
        assert (found.dtype.name, found.tolist()) == (dtype, values), data
    with pytest.raises(ValueError, match="datetime64"):
        pyapp.tensor([np.datetime64("2020-01-01")])


def test_operators_with_arrays_have_numpys_dtype() -> None:
    x, whole, half = pyapp.tensor([0.5, 1.0]), pyapp.tensor([1, 2]), pyapp.tensor([0.5, 1.0]).half()
    wide, single, integers = np.array([1.0, 2.0]), np.array([1.0, 2.0], "f4"), np.array([1, 2])
    for found, dtype in (
        (x + wide, "float64"), (x * single, "float32"), (x - integers, "float64"), (whole / integers, "float64"),
        (whole // integers, "int64"), (half * single, "float32"), (half**wide, "float64"), (whole + single, "float64"),
        (wide / x, "float64"), (x + np.array(2.0), "float64"), (x + wide[0], "float32"), (x > wide, "bool"),
        (x.bfloat16() + single, "float32"), (x @ wide, "float64"),
    ):  # fmt: skip
        assert isinstance(found, pyapp.Tensor) and found.dtype.name == dtype
    assert (wide - x).tolist() == [0.5, 1.0] and (x - wide).tolist() == [-0.5, -1.0]
    y = x
    y += wide  # another tensor, as in torch
    assert y.dtype is pyapp.float64 and y.tolist() == [1.5, 3.0] and x.tolist() == [0.5, 1.0]
    parameter = pyapp.ones(2, requires_grad=True)
    (parameter * wide).sum().backward()
    assert parameter.grad is not None and parameter.grad.tolist() == [1.0, 2.0]


def test_functions_of_numpy_give_tensors() -> None:
    x = pyapp.tensor([0.25, 1.0])
    for found, dtype, values in (
        (np.sqrt(x), "float32", [0.5, 1.0]), (np.add(np.ones(2), x), "float64", [1.25, 2.0]),
        (np.add.reduce(x), "float32", 1.25), (np.greater(x, 0.5), "uint8", [0, 1]),
        (np.cumsum(x), "float32", [0.25, 1.25]),
        (np.modf(x)[0], "float32", [0.25, 0.0]), (np.floor(pyapp.tensor(1.5)), "float32", 1.0),
        (np.reshape(x, (2, 1)), "float32", [[0.25], [1.0]]),
    ):  # fmt: skip
        assert isinstance(found, pyapp.Tensor) and (found.dtype.name, found.tolist()) == (dtype, values)
    assert isinstance(np.concatenate([x, x]), np.ndarray) and isinstance(np.sin(x, out=np.zeros(2, "f4")), np.ndarray)
    with pytest.raises(RuntimeError, match="requires grad"):
        np.sin(pyapp.ones(2, requires_grad=True))


def test_elements_cannot_be_deleted() -> None:
    with pytest.raises(TypeError, match="does not support deleting"):
        del pyapp.ones(3)[0]


class Rate(float):
    """A number of a class of one's own, as settings of optimisers are."""


class Level(enum.IntEnum):
    LOW = 2


@pytest.mark.parametrize("device", ["cpu", "mirror"])
@pytest.mark.parametrize(
    "number", [np.float64(0.5), np.float32(0.5), np.float16(0.5), np.int64(2), Rate(0.5), Level.LOW], ids=repr
)
def test_kernels_take_them_on_every_device(number: Any, device: str) -> None:
    """The mirror has no host that computes what its kernels do not take."""
    x, own = pyapp.tensor([1.0, 4.0]).to(device), float(number)
    for found, wanted in (
        (x * number, x * own), (number * x, own * x), (x - number, x - own), (number - x, own - x),
        (x / number, x / own), (x**number, x**own), (pyapp.pow(number, x), pyapp.pow(own, x)), (x > number, x > own),
        (x.clamp(number, 3.0), x.clamp(own, 3.0)), (pyapp.where(x > 1, x, number), pyapp.where(x > 1, x, own)),
        (pyapp.add(x, x, alpha=number), pyapp.add(x, x, alpha=own)), (x.clone().mul_(number), x * own),
    ):  # fmt: skip
        assert (found.device, found.dtype, found.tolist()) == (wanted.device, wanted.dtype, wanted.tolist())
