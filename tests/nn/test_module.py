"""Modules: names, state, modes."""

from __future__ import annotations

import numpy as np
import pytest

import pyapp
from pyapp import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.rest = nn.ModuleList([nn.Linear(4, 4, bias=False), nn.RMSNorm(4)])
        self.scale = nn.Parameter(pyapp.ones(1))
        self.register_buffer("count", pyapp.zeros(1))
        self.register_buffer("table", pyapp.zeros(9), persistent=False)

    def forward(self, x: pyapp.Tensor) -> pyapp.Tensor:
        x = self.first(x)
        for module in self.rest:
            x = module(x)
        return x * self.scale


NAMES = ["scale", "first.weight", "first.bias", "rest.0.weight", "rest.1.weight"]


def test_names() -> None:
    net = Net()
    assert [name for name, _ in net.named_parameters()] == NAMES
    assert set(net.state_dict()) == {*NAMES, "count"}
    assert [name for name, _ in net.named_modules()] == ["", "first", "rest", "rest.0", "rest.1"]
    assert sum(p.numel() for p in net.parameters()) == 1 + 12 + 4 + 16 + 4


def test_state_goes_from_one_to_another() -> None:
    pyapp.manual_seed(0)
    a, b = Net(), Net()
    x = pyapp.ones(2, 3)
    assert a(x).tolist() != b(x).tolist()
    assert b.load_state_dict(a.state_dict()) == ([], [])
    np.testing.assert_array_equal(a(x).detach().numpy(), b(x).detach().numpy())


def test_loading_checks_names_and_shapes() -> None:
    net = Net()
    state = net.state_dict()
    del state["scale"]
    state["other"] = pyapp.zeros(1)
    with pytest.raises(KeyError, match=r"missing \['scale'\], unexpected \['other'\]"):
        net.load_state_dict(state)
    assert net.load_state_dict(state, strict=False) == (["scale"], ["other"])
    state["first.weight"] = pyapp.zeros(4, 5)
    with pytest.raises(ValueError, match=r"first.weight is float32\[4, 3\] on cpu, the state holds float32\[4, 5\]"):
        net.load_state_dict(state, strict=False)


def test_training_a_net_lowers_its_loss() -> None:
    pyapp.manual_seed(1)
    net = nn.Sequential(nn.Linear(2, 16), nn.RMSNorm(16), nn.Linear(16, 1))
    x = pyapp.randn(64, 2)
    y = (x[:, :1] * x[:, 1:]).detach()
    losses = []
    for _ in range(150):
        net.zero_grad()
        loss = ((net(x).tanh() - y.tanh()) ** 2).mean()
        loss.backward()
        losses.append(loss.item())
        with pyapp.no_grad():
            for p in net.parameters():
                p.sub_(p.grad * 0.4)
    assert losses[-1] < 0.6 * losses[0]


def test_modes_apply_and_to() -> None:
    net = Net()
    assert all(not m.training for m in net.eval().modules()) and all(m.training for m in net.train().modules())
    seen: list[str] = []
    net.apply(lambda m: seen.append(type(m).__name__))
    assert seen == ["Linear", "Linear", "RMSNorm", "ModuleList", "Net"]
    half = net.to("float16")
    assert half.first.weight.dtype is pyapp.float16 and half.first.weight.requires_grad
    assert [name for name, _ in half.named_parameters()] == NAMES


def test_shared_parameters_count_once() -> None:
    net = Net()
    net.rest[0].weight = net.first.weight
    assert [n for n, _ in net.named_parameters()] == ["scale", "first.weight", "first.bias", "rest.1.weight"]


def test_quantized_weight_in_the_same_layer() -> None:
    pyapp.manual_seed(0)
    layer = nn.Linear(64, 24, bias=False)
    x = pyapp.randn(3, 64)
    exact = layer(x).detach().numpy()
    layer.replace("weight", pyapp.quant.quantize(layer.weight, "q8_0"))
    assert "dtype=q8_0" in repr(layer)
    assert np.abs(layer(x).numpy() - exact).max() < 0.02
    with pytest.raises(KeyError, match="no parameter 'weights'"):
        layer.replace("weights", pyapp.zeros(1))


def test_repr_shows_the_tree() -> None:
    assert repr(Net()) == (
        "Net(\n  (first): Linear(in_features=3, out_features=4, bias=True)\n"
        "  (rest): ModuleList(\n    (0): Linear(in_features=4, out_features=4, bias=False)\n"
        "    (1): RMSNorm((4,), eps=None, elementwise_affine=True)\n  )\n)"
    )


def test_a_module_without_forward_says_so() -> None:
    with pytest.raises(NotImplementedError, match="Module has no forward"):
        nn.Module()(1)
