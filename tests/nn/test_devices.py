"""Modules and optimisers on a device with separate memory: tests/mirror."""

from __future__ import annotations

from typing import Any

import pytest

import pyapp
from pyapp import nn, optim
from pyapp.errors import StateError
from tests.mirror import device as _mirror  # noqa: F401 (registers the device)


def tied() -> Any:
    """Two layers that share one weight, with a buffer and gradients."""
    pyapp.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 6), nn.SiLU(), nn.Linear(6, 6))
    net[2].weight = net[0].weight
    net.register_buffer("count", pyapp.tensor([3], dtype=pyapp.int64))
    (net(pyapp.ones(2, 6)) ** 2).sum().backward()
    return net


def test_to_moves_parameters_gradients_and_buffers() -> None:
    net = tied()
    weight, before, gradient = net[0].weight, net[0].weight.tolist(), net[0].weight.grad.tolist()
    assert net.to("mirror") is net
    assert net[0].weight is net[2].weight is weight and weight.is_parameter and weight.requires_grad
    assert {str(t.device) for t in (*net.parameters(), *net.buffers(), weight.grad)} == {"mirror"}
    assert weight.tolist() == before and weight.grad.tolist() == gradient and net.count.tolist() == [3]
    net.cpu()
    assert str(weight.device) == "cpu" and weight.tolist() == before and weight.grad.tolist() == gradient


def test_to_converts_and_moves_at_once() -> None:
    net = tied().to("mirror", pyapp.float64)
    assert net[0].weight.dtype is pyapp.float64 and net[0].weight.grad.dtype is pyapp.float64
    assert net.count.dtype is pyapp.int64 and str(net.count.device) == "mirror"


def test_an_optimiser_keeps_the_parameters_that_are_moved() -> None:
    net = tied()
    optimizer = optim.AdamW(net.parameters(), lr=0.1)
    net.to("mirror").to("cpu")
    before = net[0].weight.tolist()
    optimizer.step()
    assert net[0].weight.tolist() != before


@pytest.mark.parametrize("make", [optim.AdamW, lambda p: optim.AdamW(p, weight_decay=0.0)])
def test_a_training_step_on_another_device_is_that_of_the_cpu(make: Any) -> None:
    results = []
    for device in ("cpu", "mirror"):
        net = tied().to(device)
        optimizer = make(net.parameters())
        for _ in range(3):
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            optimizer.step()
        state = optimizer.state_dict()
        assert {str(entry["exp_avg"].device) for entry in state["state"].values()} == {device}
        results.append([p.tolist() for p in net.parameters()] + [state["state"][0]["exp_avg"].tolist()])
    assert results[0] == results[1]


def test_states_are_loaded_into_the_device() -> None:
    source, target = tied(), tied().to("mirror")
    with pyapp.no_grad():
        source[0].weight.mul_(2)
    target.load_state_dict(source.state_dict())
    assert str(target[0].weight.device) == "mirror" and target[0].weight.tolist() == source[0].weight.tolist()
    back = tied()
    back.load_state_dict(target.state_dict())
    assert str(back[0].weight.device) == "cpu" and back[0].weight.tolist() == source[0].weight.tolist()
    first, second = optim.AdamW(source.parameters()), optim.AdamW(target.parameters())
    first.step()
    second.load_state_dict(first.state_dict())
    assert str(second.state[target[0].weight]["exp_avg"].device) == "mirror"


def test_to_empty_and_zeros_on_a_device() -> None:
    net = tied().to_empty(device="mirror")
    assert net[0].weight is net[2].weight and str(net[0].weight.device) == "mirror" and net[0].weight.grad is None
    assert net[0].weight.shape == (6, 6)


@pytest.mark.parametrize("dtype", [pyapp.int32, "q8_0"])
def test_a_dtype_without_gradients_is_refused(dtype: Any) -> None:
    with pytest.raises(TypeError, match="floating-point"):
        nn.Linear(2, 2).to(dtype=dtype)


def test_block_weights_are_moved_and_emptied() -> None:
    net = nn.Sequential(nn.Linear(64, 8))
    nn.quantize(net, "q8_0")
    x = pyapp.ones(1, 64)
    before = net(x).tolist()
    assert net.to("mirror")[0].weight.dtype.name == "q8_0" and str(net[0].weight.device) == "mirror"
    assert net.to("cpu")(x).tolist() == before
    net.to_empty(device="cpu")
    assert net(x).shape == (1, 8) and net[0].weight.dtype.name == "q8_0"


def test_what_cannot_be_done_says_so() -> None:
    with pytest.raises(RuntimeError, match="Expected one of cpu, cuda, .* device type .*: gpu"):
        pyapp.device("gpu")
    with pytest.raises(NotImplementedError, match="give one"):
        nn.DataParallel(nn.Linear(1, 1), device_ids=[0, 1])
    assert nn.DataParallel(nn.Linear(2, 1), device_ids=[0])(pyapp.ones(1, 2)).shape == (1, 1)
    with pytest.raises(StateError):
        nn.Linear(2, 2).load_state_dict({})
