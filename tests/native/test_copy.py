"""copy_bytes and copy_strided against NumPy's own assignment between views."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.native.checks import run_checked
from tests.native.kernels import BAD_ARGUMENT, OK, Kernels

DTYPES = [np.uint8, np.uint16, np.float32, np.float64, np.complex128]


def copy_strided(kernels: Kernels, to: np.ndarray, source: np.ndarray) -> None:
    """One record that copies a view into another of the same shape."""
    assert to.shape == source.shape
    dims: dict[str, Any] = {"element_bytes": to.itemsize, "rank": to.ndim}
    for i in range(to.ndim):
        dims |= {
            f"shape{i}": to.shape[i],
            f"to{i}": to.strides[i] // to.itemsize,
            f"from{i}": source.strides[i] // to.itemsize,
        }
    pointers: dict[str, Any] = {"to": to, "from": source}
    kernels.library.pyapp_set_threads(3)
    try:
        assert kernels.run("copy_strided", **pointers, **dims) == OK
    finally:
        kernels.library.pyapp_set_threads(1)


@pytest.mark.parametrize("size", [0, 1, 63, 4097, 100_003])
def test_copy_bytes(kernels: Kernels, size: int) -> None:
    source = np.random.default_rng(1).integers(0, 255, size + 1, np.uint8)[1:]
    memory = np.full(size + 3, 7, np.uint8)
    run_checked(kernels, "copy_bytes", "to", to=memory[1:], **{"from": source}, bytes=size)
    np.testing.assert_array_equal(memory[1 : size + 1], source)
    assert memory[0] == 7 and (memory[size + 1 :] == 7).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "shape", [(), (1,), (0, 3), (7,), (3, 5), (70, 33), (2, 3, 4), (2, 1, 40, 3), (2, 3, 2, 3, 2, 3)]
)
def test_every_order_of_axes(kernels: Kernels, shape: tuple[int, ...], dtype: type) -> None:
    random = np.random.default_rng(2)
    source: np.ndarray = random.integers(0, 250, shape).astype(dtype)
    for _ in range(4):
        order = random.permutation(len(shape))
        to = np.zeros(tuple(np.array(shape, int)[order]), dtype)
        copy_strided(kernels, to, source.transpose(order))
        np.testing.assert_array_equal(to, source.transpose(order))


@pytest.mark.parametrize("rows, columns", [(1, 1), (31, 33), (100, 65), (288, 768)])
def test_transposition(kernels: Kernels, rows: int, columns: int) -> None:
    source: np.ndarray = np.random.default_rng(3).standard_normal((rows, columns), np.float32)
    to = np.zeros((columns, rows), np.float32)
    copy_strided(kernels, to, source.T)
    np.testing.assert_array_equal(to, source.T)


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.float32, np.float64])
@pytest.mark.parametrize(
    "shape, order", [((2, 70, 3, 16), (0, 2, 1, 3)), ((130, 66), (1, 0)), ((3, 20, 5, 130), (3, 0, 2, 1))]
)
def test_transposed_dims(kernels: Kernels, shape: tuple[int, ...], order: tuple[int, ...], dtype: type) -> None:
    """Heads and tokens that change places, and transposes with dims outside and between."""
    source: np.ndarray = np.random.default_rng(5).integers(0, 250, shape).astype(dtype)
    to = np.zeros(tuple(shape[k] for k in order), dtype)
    copy_strided(kernels, to, source.transpose(order))
    np.testing.assert_array_equal(to, source.transpose(order))
    back = np.zeros(shape, dtype)
    copy_strided(kernels, back.transpose(order), to)  # a dense view to one that is not
    np.testing.assert_array_equal(back, source)


def test_steps_reversal_and_broadcast(kernels: Kernels) -> None:
    source = np.arange(60, dtype=np.float32).reshape(6, 10)
    views = [source[::-1], source[:, ::-1], source[::2, 1::3], np.broadcast_to(source[2], (4, 10))]
    views.append(np.broadcast_to(source[:, 2:3], (6, 100)))
    for view in views:
        to = np.zeros(view.shape, np.float32)
        copy_strided(kernels, to, view)
        np.testing.assert_array_equal(to, view)


def test_writes_only_the_view(kernels: Kernels) -> None:
    memory = np.zeros((9, 50), np.float32)
    copy_strided(kernels, memory[1::2, 3:40:2].T, np.ones((19, 4), np.float32))
    expected = np.zeros_like(memory)
    expected[1::2, 3:40:2] = 1
    np.testing.assert_array_equal(memory, expected)


def test_long_rows_are_shared_out(kernels: Kernels) -> None:
    source = np.random.default_rng(4).standard_normal((3, 20_001), np.float32)
    to = np.zeros((3, 20_000), np.float32)
    copy_strided(kernels, to, source[:, 1:])
    np.testing.assert_array_equal(to, source[:, 1:])


@pytest.mark.parametrize(
    "dims", [{"rank": 7}, {"rank": -1}, {"rank": 1, "shape0": -1}, {"rank": 1, "shape0": 2, "element_bytes": 0}]
)
def test_bad_views_are_refused(kernels: Kernels, dims: dict[str, int]) -> None:
    memory = np.zeros(2, np.float32)
    arguments: dict[str, Any] = {"element_bytes": 4, "to": memory, "from": memory, **dims}
    assert kernels.run("copy_strided", **arguments) == BAD_ARGUMENT
