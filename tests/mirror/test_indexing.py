"""Indexing and reordering on a device whose memory the host cannot see: NumPy's values and the CPU's gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import Tensor
from pyapp.nn import functional as F

from . import device as _device  # noqa: F401 (registers the mirror)

SHAPE = (5, 4, 6)
ROWS, COLUMNS = np.array([[4, 0, -1]]), np.array([[1], [-2]])
Read = tuple[Callable[[Any, Any, Any], Any], Callable[[Any], Any] | None]


def _padded(mode: str, name: str) -> Read:
    """The last dim by 3 and 2; `name`: NumPy's for the mode."""
    return (
        lambda x, i, j: F.pad(x, (3, 2), mode=mode),
        lambda a: np.pad(a, ((0, 0), (0, 0), (3, 2)), name),  # type: ignore[call-overload]
    )


READS: dict[str, Read] = {
    "first dim": (lambda x, i, j: x[i], lambda a: a[ROWS]),
    "inner dim": (lambda x, i, j: x[:, :, i], lambda a: a[:, :, ROWS]),
    "two dims": (lambda x, i, j: x[i, j], lambda a: a[ROWS, COLUMNS]),
    "a dim between them": (lambda x, i, j: x[i, :, j], lambda a: a[ROWS, :, COLUMNS]),
    "with a slice, an int and a new dim": (lambda x, i, j: x[1:, None, 2, j], lambda a: a[1:, None, 2][:, :, COLUMNS]),
    "of what is not dense": (lambda x, i, j: x.transpose(0, 2)[i, 1:3], lambda a: a.transpose(2, 1, 0)[ROWS, 1:3]),
    "a list": (lambda x, i, j: x[:, [3, 0]], lambda a: a[:, [3, 0]]),
    "index_select": (lambda x, i, j: x.index_select(1, i[0, 0:2] % 4), lambda a: a.take(ROWS[0, :2] % 4, 1)),
    "flip": (lambda x, i, j: x.flip(0, 2), lambda a: a[::-1, :, ::-1]),
    "roll": (lambda x, i, j: x.roll((2, -7), (0, 2)), lambda a: np.roll(a, (2, -7), (0, 2))),
    "roll all": (lambda x, i, j: x.roll(9), lambda a: np.roll(a, 9)),
    "pad": (
        lambda x, i, j: F.pad(x, (1, 2, 0, 3), value=0.5),
        lambda a: np.pad(a, ((0, 0), (0, 3), (1, 2)), constant_values=0.5),
    ),
    "reflect": _padded("reflect", "reflect"),
    "replicate": _padded("replicate", "edge"),
    "circular": _padded("circular", "wrap"),
    "cummax": (lambda x, i, j: x.cummax(1).values, lambda a: np.maximum.accumulate(a, 1)),
    "cummin": (lambda x, i, j: x.cummin(2).values, lambda a: np.minimum.accumulate(a, 2)),
    "index_add": (lambda x, i, j: x.index_add(1, (i[0] % 4), x[:, :3]), None),
    "index_put": (lambda x, i, j: x.index_put((i, j), x[0, 0], True), None),
}  # fmt: skip


def _values(dtype: str) -> np.ndarray:
    return (np.random.RandomState(0).randn(*SHAPE) * 50).astype(dtype)


@pytest.mark.parametrize("name", READS)
def test_reads_and_their_gradients(name: str) -> None:
    function, expected = READS[name]
    found = []
    for device in ("cpu", "mirror"):
        x = pyapp.from_numpy(_values("float32")).to(device).requires_grad_()
        y = function(x, pyapp.from_numpy(ROWS).to(device), pyapp.from_numpy(COLUMNS).to(device))
        assert y.device == device
        (y * y).sum().backward()
        assert isinstance(x.grad, Tensor)
        found.append((y.detach().cpu().numpy(), x.grad.cpu().numpy()))
    for ours, theirs in zip(*found, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    if expected is not None:
        np.testing.assert_array_equal(found[1][0], expected(_values("float32")))


@pytest.mark.parametrize("dtype", ["bool", "int8", "float16", "int64", "float64"])
def test_dtypes(dtype: str) -> None:
    values = _values(dtype)
    x = pyapp.from_numpy(values).to("mirror")
    i, j = pyapp.from_numpy(ROWS.astype("int32")), pyapp.from_numpy(COLUMNS)  # on the CPU, as torch allows
    np.testing.assert_array_equal(x[i, 1:, j].cpu().numpy(), values[ROWS, 1:, COLUMNS])
    np.testing.assert_array_equal(x.index_select(2, i[0, :2].abs()).cpu().numpy(), values[:, :, [4, 0]])
    x[i, :, 2] = x[:1, :, 3]
    values[ROWS, :, 2] = values[:1, :, 3].copy()
    x[1:3, :, i] = pyapp.from_numpy(values[0, 0, 0:1]).to("mirror")
    values[1:3, :, ROWS] = values[0, 0, 0]
    x[j, j] = True
    values[COLUMNS, COLUMNS] = True
    mask = values[..., 1] > 0
    x[pyapp.from_numpy(mask)] = True
    values[mask] = True
    np.testing.assert_array_equal(x.cpu().numpy(), values)


def test_the_last_of_equal_places_counts_and_others_stay() -> None:
    x = pyapp.zeros(4, 3, device="mirror")
    x.t()[:, pyapp.tensor([1, 3, 1])] = pyapp.arange(9.0).reshape(3, 3).to("mirror")
    assert x.tolist() == [[0.0] * 3, [2.0, 5.0, 8.0], [0.0] * 3, [1.0, 4.0, 7.0]]


@pytest.mark.parametrize("device", ["cpu", "mirror"])
def test_what_is_out_of_range_is_refused(device: str) -> None:
    x = pyapp.zeros(4, 3, device=device)
    for index in ([4], [-5]):
        i = pyapp.tensor(index, device=device)
        with pytest.raises(IndexError):
            x[i]
        with pytest.raises(IndexError):
            x[:, i] = 1.0
        with pytest.raises(IndexError):
            x[i] = pyapp.ones(3, device=device)
    with pytest.raises(IndexError):
        x.index_select(0, pyapp.tensor([-1], device=device))
    with pytest.raises(ValueError, match="setitem"):
        x[pyapp.tensor([0, 1], device=device)] = pyapp.ones(2, 2, device=device)
    assert not x.any()


def test_writes_that_choose_nothing() -> None:
    """With dims before the indices, which the values have not in one walk."""
    x = pyapp.arange(100.0).reshape(5, 4, 5)
    there = x.to("mirror")
    rows, none = pyapp.tensor([[3], [-4]], device="mirror"), pyapp.zeros(5, dtype="bool", device="mirror")
    there[None, :, rows, none] = pyapp.zeros(1, 5, 2, 0, device="mirror")
    there[None, :, rows, none] *= 2
    assert (there.cpu() == x).all()
