"""Creation, dtypes, indexing, display, memory, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor, tensor

TORCH = json.loads(Path(__file__).with_name("golden_torch.json").read_text())
FLOATS = ["float16", "bfloat16", "float32", "float64"]
INTS = ["uint8", "int8", "int16", "int32", "int64"]


@pytest.mark.parametrize("pair", TORCH["promotion"])
def test_promotion_is_torchs(pair: str) -> None:
    a, b = pair.split(" ")
    for x, y in ((2, 2), (2, 1), (1, 2), (1, 1)):
        left = pyapp.ones((1,) if x == 2 else (), dtype=a)
        right = pyapp.ones((1,) if y == 2 else (), dtype=b)
        assert (left + right).dtype.name == TORCH["promotion"][pair][f"{x}{y}"], (x, y)


@pytest.mark.parametrize("dtype", ["bool", *INTS, *FLOATS])
def test_python_numbers_do_not_widen(dtype: str) -> None:
    x = pyapp.ones(2, dtype=dtype)
    for number, name in ((2, "int"), (2.0, "float"), (True, "bool")):
        assert (x + number).dtype.name == TORCH["numbers"][f"{dtype} {name}"]
        assert (number + x).dtype.name == TORCH["numbers"][f"{dtype} {name}"]


@pytest.mark.parametrize("name", TORCH["repr"])
def test_repr_is_torchs(name: str) -> None:
    assert repr(REPRS[name](pyapp)) == TORCH["repr"][name]


REPRS: dict[str, Any] = {
    "scalar": lambda P: P.tensor(3.5),
    "integer": lambda P: P.tensor([[1, -20], [300, 4]]),
    "floats": lambda P: P.tensor([1.5, -2.25, 3.0]),
    "whole": lambda P: P.tensor([1.0, 2.0, -3.0]),
    "far_apart": lambda P: P.tensor([1e-6, 1.0, 1e5]),
    "nan": lambda P: P.tensor([float("nan"), 1.5, float("inf")]),
    "bools": lambda P: P.tensor([True, False]),
    "half": lambda P: P.tensor([0.5, 2.0]).half(),
    "bfloat16": lambda P: P.tensor([0.5, 2.25]).bfloat16(),
    "double": lambda P: P.tensor([0.5, 2.25]).double(),
    "empty": lambda P: P.tensor([]),
    "empty_shape": lambda P: P.zeros(0, 3),
    "gradient": lambda P: P.tensor([1.0, 2.0], requires_grad=True),
    "matrix": lambda P: P.arange(12.0).reshape(3, 4) / 7,
    "cube": lambda P: P.arange(12).reshape(2, 3, 2),
    "long": lambda P: P.arange(2000),
    "wide": lambda P: P.arange(40),
    "big": lambda P: (P.arange(3000.0) / 8).reshape(30, 100),
    "whole_far_apart": lambda P: P.tensor([10000.0, 1.0]),
    "whole_and_nan": lambda P: P.tensor([float("nan"), 1.0, float("-inf")]),
    "no_number": lambda P: P.tensor([float("nan"), 0.0, float("-inf")]),
    "two_notes": lambda P: P.tensor([7.5e-7, -1e-7, 4e-7], dtype=P.float64, requires_grad=True),
    "note_on_a_line": lambda P: (P.arange(1200.0) / 7).reshape(30, 40).double().requires_grad_(),
    "empty_integers": lambda P: P.zeros(2, 0, dtype=P.int64),
    "empty_bools": lambda P: P.tensor([], dtype=P.bool),
}


def test_casts_round_as_torch() -> None:
    values = [0.0, -0.0, 1.0, 1.00390625, 1.01171875, 65504.0, 65520.0, 1e-8, 3.4e38, -1.9, 2.5, float("inf")]
    x = tensor(values)
    assert x.half().double().tolist() == TORCH["cast"]["float16"]
    assert x.bfloat16().double().tolist() == TORCH["cast"]["bfloat16"]
    assert tensor([-1.9, 2.5, 300.7]).to("int32").tolist() == [-1, 2, 300]
    assert np.isnan(tensor([float("nan")]).bfloat16().float().tolist()[0])
    assert tensor([0.0, 0.3, -2.0]).bool().tolist() == [False, True, True]


@pytest.mark.parametrize("dtype", ["bool", *INTS, *FLOATS])
def test_creation(dtype: str) -> None:
    for make, value in ((pyapp.zeros, 0), (pyapp.ones, 1)):
        x = make(2, 3, dtype=dtype)
        assert x.shape == (2, 3) and x.dtype.name == dtype and x.float().tolist() == [[value] * 3] * 2
    assert pyapp.full((2,), 1, dtype=dtype).dtype.name == dtype
    assert pyapp.zeros(0, dtype=dtype).numel() == 0
    assert pyapp.tensor([1, 0], dtype=dtype).int().tolist() == [1, 0]


def test_integers_stay_int64() -> None:
    """On wasm NumPy's default integer has 32 bits."""
    x = tensor([2**40, 1])
    assert x.dtype is pyapp.int64 and (x * 2).tolist() == [2**41, 2] and x.sum().item() == 2**40 + 1
    assert pyapp.arange(3).dtype is pyapp.int64 and tensor([True, True]).sum().dtype is pyapp.int64
    assert tensor([1.0, 3.0]).argmax().dtype is pyapp.int64


def test_arange_linspace_eye() -> None:
    assert pyapp.arange(1, 10, 3).tolist() == [1, 4, 7]
    assert pyapp.arange(0, 1, 0.25).tolist() == [0, 0.25, 0.5, 0.75]
    assert pyapp.arange(5, 0, -2).tolist() == [5, 3, 1]
    assert pyapp.linspace(0, 1, 5).tolist() == [0, 0.25, 0.5, 0.75, 1]
    bits = [
        -1.0,
        -0.6666666269302368,
        -0.3333333134651184,
        -2.9802322387695312e-08,
        0.3333333134651184,
        0.6666666269302368,
        1.0,
    ]  # torch's
    assert pyapp.linspace(-1, 1, 7).tolist() == bits
    identity = pyapp.eye(2, 3).unsqueeze(0)
    grid = pyapp.nn.functional.affine_grid(identity, (1, 1, 7, 7), align_corners=False)
    assert grid[0, 0, :, 0].tolist() == (pyapp.tensor(bits) * 6 / 7).tolist()
    assert pyapp.eye(2, 3).tolist() == [[1, 0, 0], [0, 1, 0]]
    with pytest.raises(ValueError, match="step"):
        pyapp.arange(0, 3, 0)


def test_views_share_memory() -> None:
    x = pyapp.zeros(3, 4)
    x[1:, ::2][0, 1] = 5.0
    x.T[3] = 7.0
    x.reshape(-1)[0] = 1.0
    assert x.tolist() == [[1, 0, 0, 7], [0, 0, 5, 7], [0, 0, 0, 7]]
    assert x.T._storage is x._storage and not x.T.is_contiguous() and x.T.contiguous().is_contiguous()
    with pytest.raises(ValueError, match="view"):
        x.T.view(12)
    assert x.T.reshape(12).tolist() == [v for row in zip(*x.tolist(), strict=True) for v in row]


def test_overlapping_copies() -> None:
    x = pyapp.arange(6.0)
    x[1:] = x[:-1]
    assert x.tolist() == [0, 0, 1, 2, 3, 4]


def test_assignment() -> None:
    x = pyapp.zeros(2, 3)
    x[0] = 1
    x[:, 2] = tensor([8.0, 9.0])
    x[x > 8] = -1.0
    x[tensor([1]), tensor([0])] = 4.0
    assert x.tolist() == [[1, 1, 8], [4, 0, -1]]
    with pytest.raises(ValueError, match="setitem"):
        x[0] = tensor([1.0, 2.0])


@pytest.mark.parametrize("dtype", ["bool", *INTS, *FLOATS])
def test_a_number_is_written_where_a_mask_holds(dtype: str) -> None:
    values = np.arange(24).reshape(2, 3, 4)
    masks = [values % 5 == 0, values[..., 0] > 3, values[:, 0, 0] > 3, values > 99]

    def dense() -> Tensor:
        return tensor(values).to(dtype)

    for mask in masks:
        for make in (dense, lambda: dense()[:, :, ::2], lambda: dense().transpose(0, 1).contiguous().transpose(0, 1)):
            for number in (1, 7.0, tensor(3), tensor(2.5)):
                x = make()
                chosen = mask[:, :, : x.shape[2]] if mask.ndim == 3 else mask
                expected = np.array(x.tolist())
                expected[chosen] = tensor(number).to(dtype).item()
                x[tensor(chosen)] = number
                assert x.tolist() == expected.tolist() and x.dtype.name == dtype
    x = dense() != 3
    x[x] = False  # the mask is the tensor itself
    assert not x.any()
    with pytest.raises(IndexError, match="setitem"):
        dense()[tensor([True] * 3)] = 1


def test_from_numpy_shares_and_copies() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    x = pyapp.from_numpy(array)
    x[0, 0] = 9
    assert array[0, 0] == 9
    assert pyapp.from_numpy(array[:, ::-1]).tolist() == array[:, ::-1].tolist()
    assert pyapp.from_numpy(array.T).tolist() == array.T.tolist()
    frozen = np.arange(3.0)
    frozen.flags.writeable = False
    pyapp.from_numpy(frozen)[0] = 5
    assert frozen[0] == 0


def test_numpy_keeps_memory_alive() -> None:
    array = (pyapp.zeros(1000) + 3).numpy()
    [pyapp.ones(1000) for _ in range(10)]
    assert (array == 3).all()


def test_from_buffer_and_data_view() -> None:
    x = Tensor.from_buffer(bytes(range(12)), (3, 4), "uint8")
    assert x.tolist() == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
    x.data_view()[5] = 99
    assert x[1, 1].item() == 99 and list(x[1].data_view()) == [4, 99, 6, 7]
    with pytest.raises(ValueError, match="holds 12 bytes, the buffer 11"):
        Tensor.from_buffer(bytes(11), (3, 4), "uint8")
    with pytest.raises(ValueError, match="not contiguous"):
        x.T.data_view()


def test_numbers_and_truth() -> None:
    assert float(tensor(2.5)) == 2.5 and int(tensor([7])) == 7 and bool(tensor(1)) and [1, 2][tensor(1)] == 2
    assert (
        tensor([[1.5]]).item() == 1.5
        and f"{tensor(1.23456):.2f}" == "1.23"
        and pyapp.full((), 2.5, dtype="bfloat16").item() == 2.5
    )
    with pytest.raises(ValueError, match="ambiguous"):
        bool(tensor([1, 2]))
    with pytest.raises(ValueError, match="not one"):
        tensor([1, 2]).item()


@pytest.mark.parametrize("count", [3, 65])  # read and written one by one, and by NumPy
def test_a_few_numbers(count: int) -> None:
    values = [0.1 * k for k in range(count)]
    x, whole = pyapp.tensor(values), pyapp.tensor(list(range(count)))
    assert x.dtype is pyapp.float32 and whole.dtype is pyapp.int64 and whole.tolist() == list(range(count))
    np.testing.assert_array_equal(np.array(x.tolist(), np.float32), np.array(values, np.float32))
    assert x[::2].tolist() == x.tolist()[::2] and x.expand(2, count)[:, 1].tolist() == [x[1].item()] * 2
    assert pyapp.equal(x, x.clone()) and not pyapp.equal(x, -x) and pyapp.equal(x * 0.0, x * -0.0)
    x[1] = float("nan")
    assert not pyapp.equal(x, x)
    for wrong in ([1, 1 << 63], 1 << 63, [-(1 << 63) - 1]):
        with pytest.raises(ValueError, match="outside int64"):
            pyapp.tensor(wrong)
    assert pyapp.tensor([1e39, 1.0]).tolist() == [float("inf"), 1.0] and pyapp.tensor([True, 1]).tolist() == [1, 1]


def test_dlpack_like_interop_with_numpy() -> None:
    x = tensor([1.0, 2.0])
    assert (
        np.asarray(x).tolist() == [1, 2]
        and (np.float32(2) * x).tolist() == [2, 4]
        and (np.ones(2, np.float32) + x).tolist() == [2, 3]
    )


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: pyapp.ones(2, 3) + pyapp.ones(4), ValueError, r"add: The size .* shapes \(2, 3\) and \(4,\)"),
        (
            lambda: pyapp.ones(2, 3) @ pyapp.ones(4, 5),
            ValueError,
            r"matmul: .* cannot be multiplied \(2x3 and 4x5\): inner sizes differ: float32\[2, 3\] on cpu",
        ),
        (lambda: pyapp.ones(2).reshape(3), ValueError, "2 elements do not fit"),
        (lambda: pyapp.ones(2).sum(3), IndexError, "dim 3 is out of range"),
        (lambda: pyapp.ones(2)[5], IndexError, "5 is out of range"),
        (lambda: pyapp.ones(2)[0, 0], IndexError, "2 indices"),
        (lambda: pyapp.ones(2).to("float33"), TypeError, "unknown dtype 'float33'"),
        (lambda: pyapp.zeros(2, device="tpu"), ValueError, "no device 'tpu'"),
        (lambda: pyapp.zeros(2) + "x", TypeError, "unsupported"),
        (lambda: tensor([[1, 2], [3]]), ValueError, "equal lengths"),
        (lambda: tensor(["a"]), ValueError, "cannot make numbers"),
        (lambda: tensor([1, 2]).mean(), TypeError, "floating-point"),
        (lambda: pyapp.cat([pyapp.ones(2, 3), pyapp.ones(3, 2)]), ValueError, "cat"),
        (lambda: pyapp.ones(2, 2).gather(0, tensor([[5, 0]])), IndexError, "outside 0 .. 1"),
        (lambda: pyapp.zeros(0).amax(), ValueError, "no elements"),
        (lambda: Tensor(2.5), TypeError, "a size is an integer"),
        (lambda: pyapp.zeros(-1), ValueError, "not negative"),
        (lambda: pyapp.ones(2).expand(3), ValueError, "expand"),
    ],
)
def test_errors(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_huge_allocation_is_a_memory_error() -> None:
    with pytest.raises(MemoryError, match="cannot allocate"):
        pyapp.empty(1 << 45 if pyapp.engine.native.POINTER_BYTES == 8 else 1 << 29)


def test_tensors_of_older_constructors_take_part_in_gradients() -> None:
    x = pyapp.Tensor([1.0, 2.0]).requires_grad_()
    (x.new([3.0, 4.0]) * x * pyapp.FloatTensor([1.0, 2.0])).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [3.0, 8.0]
    assert pyapp.LongTensor([1, 2]).clone().tolist() == [1, 2] and not pyapp.Tensor(2).requires_grad
