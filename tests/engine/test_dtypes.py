"""Unsigned integers and the 8-bit floats against torch; integers keep 64 bits where NumPy's own have 32."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from math import inf, nan, pi
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, tensor

from .float8_values import FLOAT8

TORCH = json.loads(Path(__file__).with_name("golden_torch.json").read_text())
FLOAT8_NAMES = ("float8_e4m3fn", "float8_e5m2")


@pytest.mark.parametrize("name", FLOAT8_NAMES)
def test_8_bit_floats_are_torchs(name: str) -> None:
    bits = tensor(FLOAT8).to(name).data_view().tolist()
    assert bits == TORCH["float8"][name]
    every = Tensor.from_buffer(bytes(range(256)), (256,), name)
    assert [repr(v) for v in every.float().tolist()] == TORCH["float8_values"][name]
    finite = every.float().isfinite()
    again = every.float()[finite].to(name)
    assert again.data_view().tolist() == [
        i for i in range(256) if math.isfinite(float(TORCH["float8_values"][name][i]))
    ]


@pytest.mark.parametrize("name", FLOAT8_NAMES)
def test_8_bit_floats_are_for_storage(name: str) -> None:
    x = tensor([[1.0, -2.0], [0.5, 3.0]], dtype=name)
    assert x.element_size() == 1 and x.is_floating_point() and x.numpy().dtype == np.float32
    for call in (lambda: x + x, lambda: x * 2.0, lambda: x + 1, lambda: x.exp(), lambda: x + x.float(), lambda: -x):
        with pytest.raises(TypeError, match="for storage"):
            call()
    moved = pyapp.cat([x.T.contiguous(), x[:1]])
    assert moved.dtype.name == name and moved.float().tolist() == [[1, 0.5], [-2, 3], [1, -2]]
    assert x[0, 1].item() == -2 and x.clone().half().tolist() == x.float().tolist()
    assert "float8" in repr(x) and "-2." in repr(x)
    x[0] = 7.0
    assert x.float().tolist()[0] == [7, 7]
    y = pyapp.linear(pyapp.ones(1, 2), x)
    assert y.dtype is pyapp.float32 and y.tolist() == [[14, 3.5]]


UNSIGNED = {"uint16": 16, "uint32": 32, "uint64": 64}


@pytest.mark.parametrize("own", UNSIGNED)
def test_unsigned_types_promote_as_in_torch(own: str) -> None:
    x = pyapp.ones(2, dtype=own)
    for name, expected in TORCH[own].items():
        other = pyapp.ones(2, dtype=name)
        if expected == "error":
            with pytest.raises(TypeError, match=own):
                x + other
        else:
            assert (x + other).dtype.name == (other + x).dtype.name == expected
    assert (x + 1).dtype is x.dtype and (x * 0.5).dtype is pyapp.float32


@pytest.mark.parametrize(("own", "bits"), UNSIGNED.items())
def test_unsigned_types_keep_their_bits(own: str, bits: int) -> None:
    top = 2**bits - 1
    x = tensor([top, 5], dtype=own)
    assert x.tolist() == [top, 5] and x.to("int64").tolist() == [-1 if bits == 64 else top, 5]
    assert (x + 1).tolist() == [0, 6] and x.max().item() == top
    assert x.sum().item() == (4 if bits == 64 else top + 5) and x.sum().dtype is pyapp.int64
    assert x[1].item() == 5 and x.data_view().tolist() == [top, 5]
    assert tensor([-1]).to(own).tolist() == [top]
    assert (x & 6).tolist() == [6, 4] and (x == x).all() and x.flip(0).tolist() == [5, top]
    assert x[tensor([1, 0, 0])].tolist() == [5, top, top] and x.sort()[0].tolist() == [5, top]
    assert pyapp.cat([x, x[:1]]).tolist() == [top, 5, top] and x.unique().tolist() == [5, top]
    assert x.clone().fill_(7).tolist() == [7, 7] and pyapp.where(x == 5, x, x * 0).tolist() == [0, 5]
    assert (pyapp.iinfo(own).min, pyapp.iinfo(own).max, pyapp.iinfo(own).bits) == (0, top, bits)
    assert str(top) in repr(x) and f"pyapp.{own}" in repr(x)
    assert x.numpy().dtype == own and pyapp.from_numpy(x.numpy()).dtype is x.dtype
    assert x.float().tolist() == [float(2**bits if bits > 16 else top), 5.0]
    with pytest.raises(ValueError, match="there is a number outside|cannot hold"):
        tensor([2**bits], dtype=own)


BIG = 2**40
WIDE: dict[str, Callable[[Tensor], Tensor]] = {
    "sum": lambda x: x.sum(),
    "cumsum": lambda x: x.cumsum(0),
    "prod": lambda x: x.prod(),
    "cumprod": lambda x: x.cumprod(0),
    "matmul": lambda x: x.to("int64") @ x.to("int64"),
    "dot": lambda x: x.to("int64").dot(x.to("int64")),
    "count": lambda x: (x > 0).sum(),
    "count_nonzero": lambda x: x.count_nonzero(),
    "argsort": lambda x: x.argsort(),
    "argmax": lambda x: x.argmax(),
    "nonzero": lambda x: x.nonzero(),
    "unique": lambda x: x.unique(return_inverse=True)[1],
    "bincount": lambda x: pyapp.bincount(x % 4),
    "searchsorted": lambda x: pyapp.searchsorted(x, x),
    "max_pool": lambda x: pyapp.max_pool1d(x.float().unsqueeze(0), 2, return_indices=True)[1],
    "one_hot": lambda x: pyapp.one_hot(x.to("int64") % 3),
    "median": lambda x: x.median(0)[1],
    "mode": lambda x: x.mode(0)[1],
    "topk": lambda x: x.topk(2)[1],
    "cummax": lambda x: x.cummax(0)[1],
    "tril_indices": lambda x: pyapp.tril_indices(3, 3),
    "randint": lambda x: pyapp.randint(5, size=(2,)),
    "randperm": lambda x: pyapp.randperm(3),
    "multinomial": lambda x: pyapp.multinomial(x.float(), 2),
    "arange": lambda x: pyapp.arange(3),
    "tensor": lambda x: tensor([1, 2]),
    "full": lambda x: pyapp.full((2,), 7),
    "bucketize": lambda x: pyapp.bucketize(x, x),
    "bool_sum": lambda x: (x > 1).cumsum(0),
}


@pytest.mark.parametrize("name", WIDE)
def test_integers_are_int64(name: str) -> None:
    assert WIDE[name](tensor([2**30, 2**30 + 1, 3], dtype="int32")).dtype is pyapp.int64


def test_integers_are_not_cut_to_32_bits() -> None:
    x = tensor([2**30, 2**30, 2**30], dtype="int32")
    assert x.sum().item() == 3 * 2**30 and x.cumsum(0).tolist() == [2**30, 2**31, 3 * 2**30]
    assert x.prod().item() == 2**90 % 2**64 and x[:2].prod().item() == 2**60 and x[:2].cumprod(0).tolist()[1] == 2**60
    y = tensor([BIG, -BIG, 3])
    assert (y + BIG).tolist() == [2 * BIG, 0, BIG + 3] and (y * 3).tolist() == [3 * BIG, -3 * BIG, 9]
    assert (y @ y).item() == (2 * BIG * BIG + 9) % 2**64 and (y // 2).tolist() == [BIG // 2, -BIG // 2, 1]
    assert pyapp.full((1,), BIG).item() == BIG and pyapp.arange(BIG, BIG + 2).tolist() == [BIG, BIG + 1]
    assert tensor(BIG).item() == BIG and y.clone().fill_(BIG).tolist() == [BIG] * 3
    assert pyapp.where(y > 0, y, BIG).tolist() == [BIG, BIG, 3] and y.sort()[0].tolist() == [-BIG, 3, BIG]
    assert pyapp.zeros(2, dtype="int64").scatter_add(0, tensor([1, 1]), tensor([BIG, BIG])).tolist() == [0, 2 * BIG]
    assert pyapp.clamp(y, -5, BIG - 1).tolist() == [BIG - 1, -5, 3] and (y << 3)[0].item() == 8 * BIG
    assert (y ^ 1)[0].item() == BIG + 1 and y.abs().max().item() == BIG and (y == BIG).tolist() == [True, False, False]
    assert tensor([float(BIG)], dtype="float64").to("int64").item() == BIG


@pytest.mark.parametrize(
    "write",
    [
        lambda x, at: x.__setitem__(at, 300), lambda x, at: x.__setitem__(at > 0, 300),
        lambda x, at: x.int().__setitem__(at, float("nan")), lambda x, at: x.half().__setitem__(at, 1e10),
        lambda x, at: x.index_fill(0, at, 300), lambda x, at: x.scatter(0, at, 300),
        lambda x, at: x.int().scatter(0, at, float("nan")), lambda x, at: pyapp.where(x > 1, x, 300),
        lambda x, at: x.half().masked_fill(x > 1, 1e10),
    ],
)  # fmt: skip
def test_numbers_that_a_dtype_cannot_hold_are_not_written(write: Any) -> None:
    x = pyapp.tensor([1, 2, 3], dtype=pyapp.uint8)
    with pytest.raises(ValueError, match="cannot hold"):
        write(x, pyapp.tensor([0, 2]))
    assert x.tolist() == [1, 2, 3]


@pytest.mark.parametrize("value", [object(), "a", [1.0], None, np.ones(3)])
def test_where_takes_tensors_and_numbers(value: Any) -> None:
    x = pyapp.ones(3)
    with pytest.raises(TypeError, match="where: expects tensors or numbers"):
        pyapp.where(x > 0, x, value)


def test_numbers_that_an_unsigned_type_refuses() -> None:
    """As in torch: negative whole numbers wrap, negative fractions and numbers above the largest are refused."""

    def writers(value: float, dtype: pyapp.DType) -> list[Callable[[], pyapp.Tensor]]:
        x, at = pyapp.zeros(2, dtype=dtype), pyapp.tensor([0])
        return [
            lambda: pyapp.tensor([value], dtype=dtype), lambda: x.clone().fill_(value),
            lambda: pyapp.full((1,), value, dtype=dtype), lambda: x.masked_fill(x == 0, value),
            lambda: x.scatter(0, at, value), lambda: x.index_fill(0, at, value), lambda: x.__setitem__(0, value),
        ]  # fmt: skip

    for value, dtype in ((-2.5, "uint8"), (-0.5, "uint8"), (255.5, "uint8"), (256, "uint8"), (-128.5, "int8")):
        for write in writers(value, pyapp.as_dtype(dtype)):
            with pytest.raises(RuntimeError, match="cannot hold"):
                write()
    assert [write().reshape(-1)[0].item() for write in writers(-1, pyapp.uint8)[:6]] == [255] * 6


def test_neighbours_and_angles() -> None:
    """nextafter moves by a step of its dtype; values from torch."""

    def both(dtype: str, given: list[float], towards: list[float]) -> list[float]:
        made = (pyapp.tensor(values, dtype=pyapp.as_dtype(dtype)) for values in (given, towards))
        return pyapp.nextafter(*made).tolist()

    given, towards = [1.0, 1.0, 0.0, 0.0, -1.0, inf, -0.0, 3.0], [2.0, 0.0, 1.0, -1.0, 0.0, 0.0, -0.0, 3.0]
    assert both("bfloat16", given, towards) == [
        1.0078125, 0.99609375, 9.183549615799121e-41, -9.183549615799121e-41, -0.99609375, 3.3895313892515355e38, 0.0,
        3.0,
    ]  # fmt: skip
    assert both("float16", given[:2], towards[:2]) == [1.0009765625, 0.99951171875]
    x = pyapp.tensor([1.0])
    assert x.nextafter_(pyapp.tensor([2.0])) is x and x.item() == 1.0000001192092896
    angles = pyapp.angle(pyapp.tensor([-2.0, 0.0, 3.0, nan]))
    assert angles[:3].tolist() == [pyapp.tensor(pi).item(), 0.0, 0.0] and angles[3].isnan()
    assert pyapp.tensor([-1, 2]).angle().dtype is pyapp.float32
    assert pyapp.real(x) is x and pyapp.conj_physical(x).tolist() == x.tolist()


def test_a_number_before_a_tensor() -> None:
    """It is rounded once, to the dtype of the tensor or to the default dtype."""
    for dtype, expected in (("float32", 0.1), ("float64", 0.1), ("bfloat16", 0.10009765625)):
        x = pyapp.zeros(2, dtype=dtype)
        for found in (0.1 - x, 0.1 + x, 3 - x - 2.9):
            assert found.dtype is x.dtype and abs(float(found[1]) - expected) < (0.02 if dtype == "bfloat16" else 1e-6)
    assert (16_777_217 - pyapp.zeros(1, dtype="float64")).tolist() == [16_777_217]
    assert (7 - pyapp.tensor([1, 2])).tolist() == [6, 5]
    assert (2.5 * pyapp.tensor([1, 2])).dtype is pyapp.float32
    with pytest.raises(OverflowError):
        10**39 - pyapp.zeros(1)
    pyapp.set_default_dtype("bfloat16")
    try:
        assert (0.5 - pyapp.zeros(1)).tolist() == [0.5]
    finally:
        pyapp.set_default_dtype("float32")


def test_whole_numbers_are_clamped() -> None:
    """Few of them and many, which go different ways."""
    for dtype in ("int8", "int32", "int64", "uint8"):
        for count in (5, 20_000):
            x = pyapp.arange(count).remainder(100).to(dtype)
            found = x.clamp(10, 50)
            assert found.dtype is x.dtype
            assert found.tolist() == [min(max(i % 100, 10), 50) for i in range(count)]
            assert x.clamp(50, 10).amax().item() == x.clamp(50, 10).amin().item() == 10
