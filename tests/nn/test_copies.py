"""Copies and pickles of tensors and modules have new memory; shared memory stays shared in them."""

from __future__ import annotations

import copy
import pickle

import pytest

import pyapp
from pyapp import nn, quant


@pytest.mark.parametrize("through", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_modules_are_copied_with_their_state(through) -> None:
    net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3), nn.Linear(3, 3), nn.Linear(3, 3))
    net[3].weight = net[2].weight
    x = pyapp.tensor([[1.0, 2.0], [0.5, -1.0], [3.0, 1.0]])
    net(x).sum().backward()
    other = through(net)
    assert other.eval()(x).tolist() == net.eval()(x).tolist()
    first = other[0].weight
    assert first.requires_grad and first.is_parameter and first.grad is None
    assert other[3].weight is other[2].weight and other[1]._buffers["running_mean"] is other[1].running_mean
    with pyapp.no_grad():
        first.zero_()
    assert net[0].weight.abs().sum().item() > 0


def test_views_stay_views() -> None:
    x = pyapp.arange(6).reshape(2, 3)
    same, turned = copy.deepcopy([x, x.t()])
    same[0, 1] = 9
    assert turned.tolist() == [[0, 3], [9, 4], [2, 5]] and x[0, 1].item() == 1
    assert copy.copy(x).data_ptr() == x.data_ptr()


def test_every_dtype_is_copied() -> None:
    for x in (pyapp.ones(3, dtype="bfloat16"), pyapp.zeros(0, 2), quant.quantize(pyapp.ones(2, 32), "q8_0")):
        other = copy.deepcopy(x)
        assert other.dtype is x.dtype and other.shape == x.shape
        assert other._storage.bytes_view() == x._storage.bytes_view()


def test_what_is_computed_has_no_copy_with_its_gradient() -> None:
    y = pyapp.ones(2, requires_grad=True) * 2
    with pytest.raises(RuntimeError, match="detach"):
        copy.deepcopy(y)
