"""Modules: names, state, modes."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn, ones, zeros


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.rest = nn.ModuleList([nn.Linear(4, 4, bias=False), nn.RMSNorm(4)])
        self.scale = nn.Parameter(ones(1))
        self.register_buffer("count", zeros(1))
        self.register_buffer("table", zeros(9), persistent=False)

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
    state["other"] = zeros(1)
    with pytest.raises(
        KeyError, match=r'Missing key\(s\) in state_dict: "scale"\.\n\tUnexpected key\(s\) in state_dict: "other"\.'
    ):
        net.load_state_dict(state)
    assert net.load_state_dict(state, strict=False) == (["scale"], ["other"])
    state["first.weight"] = zeros(4, 5)
    with pytest.raises(
        ValueError, match=r"size mismatch for first.weight: the module has float32\[4, 3\] .* float32\[4, 5\]"
    ):
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
        layer.replace("weights", zeros(1))


def test_repr_shows_the_tree() -> None:
    assert repr(Net()) == (
        "Net(\n  (first): Linear(in_features=3, out_features=4, bias=True)\n"
        "  (rest): ModuleList(\n    (0): Linear(in_features=4, out_features=4, bias=False)\n"
        "    (1): RMSNorm((4,), eps=None, elementwise_affine=True)\n  )\n)"
    )


def test_a_module_without_forward_says_so() -> None:
    with pytest.raises(NotImplementedError, match="it has no forward"):
        nn.Module()(1)


def test_buffers_stay_buffers_and_parameters_parameters() -> None:
    net = nn.Module()
    net.count = nn.Buffer(zeros(2))
    net.shadow = nn.Buffer(zeros(1), persistent=False)
    net.weight = nn.Parameter(ones(2))
    net.count = net.count + 1
    assert list(net.state_dict()) == ["weight", "count"] and net.get_buffer("count").tolist() == [1, 1]
    assert [name for name, _ in net.named_buffers()] == ["count", "shadow"]
    with pytest.raises(TypeError, match="cannot assign float32.* as parameter 'weight' of"):
        net.weight = ones(2)
    net.weight = None
    del net.shadow
    assert list(net.parameters()) == [] and [name for name, _ in net.named_buffers()] == ["count"]
    with pytest.raises(TypeError, match="takes a Parameter or None"):
        net.register_parameter("bias", ones(1))

    class Early(nn.Module):
        def __init__(self) -> None:
            self.inner = nn.Linear(1, 1)

    with pytest.raises(AttributeError, match="call super"):
        Early()


def test_walks_take_prefixes_and_find_what_is_shared_once() -> None:
    inner = nn.Linear(2, 2)
    net = nn.Sequential(inner, nn.ReLU(), inner)
    assert [name for name, _ in net.named_modules(prefix="net")] == ["net", "net.0", "net.1"]
    assert [name for name, _ in net.named_children()] == ["0", "1"]
    assert [name for name, _ in net.named_parameters("net", remove_duplicate=False)] == [
        "net.0.weight", "net.0.bias", "net.2.weight", "net.2.bias",
    ]  # fmt: skip
    assert list(net.parameters(recurse=False)) == [] and len(list(net.parameters())) == 2
    assert list(net.state_dict(prefix="x.")) == ["x.0.weight", "x.0.bias", "x.2.weight", "x.2.bias"]
    assert net.state_dict(keep_vars=True)["0.weight"] is inner.weight
    net.set_submodule("1", nn.Tanh())
    assert isinstance(net[1], nn.Tanh) and [name for name, _ in net.named_children()] == ["0", "1"]


def test_lists_change_and_sequences_have_names() -> None:
    net = nn.Sequential({"first": nn.Linear(2, 3), "act": nn.ReLU()})
    assert list(net.state_dict()) == ["first.weight", "first.bias"] and net.act is net[1]
    both = net + [nn.Tanh()]
    assert isinstance(both, nn.Sequential) and [name for name, _ in both.named_children()] == ["0", "1", "2"]
    plain = nn.ModuleList([nn.ReLU(), nn.Tanh()])
    plain.insert(1, nn.Sigmoid())
    assert isinstance(plain.pop(0), nn.ReLU)
    plain += [nn.GELU()]
    del plain[0]
    assert [type(m).__name__ for m in plain] == ["Tanh", "GELU"] and list(dict(plain.named_children())) == ["0", "1"]


def test_states_are_assigned_and_modules_moved() -> None:
    net = nn.Linear(2, 1)
    found = net.load_state_dict({"weight": ones(1, 2, dtype="float64")}, strict=False, assign=True)
    assert found.missing_keys == ["bias"] and found.unexpected_keys == []
    assert net.weight.dtype.name == "float64" and net.weight.requires_grad
    assert net.to("cpu", "float16").bias.dtype.name == "float16" and net.to(ones(1)).weight.dtype.name == "float32"
    assert net.to("float64").weight.dtype.name == "float64" and net.type("float32").weight.dtype.name == "float32"
    with pytest.raises(ValueError, match="no device 'cuda'"):
        net.to("cuda")
    net.weight.grad = ones(1, 2)
    net.zero_grad(set_to_none=False)
    assert net.weight.grad.tolist() == [[0, 0]]


def test_what_replaces_a_member_takes_its_place() -> None:
    """As in torch: in the order of modules and parameters, so in Sequential."""
    net = nn.Sequential(nn.Linear(1, 1), nn.ReLU(), nn.Linear(1, 1))
    net.set_submodule("0", nn.Identity())
    setattr(net, "1", nn.Tanh())
    assert [type(part).__name__ for part in net] == ["Identity", "Tanh", "Linear"]
    layer = nn.Linear(2, 2)
    layer.weight = nn.Parameter(pyapp.zeros(2, 2))
    assert [name for name, _ in layer.named_parameters()] == ["weight", "bias"]


def test_a_buffer_that_is_none_is_one_again_when_it_is_set() -> None:
    module = nn.Module()
    module.register_buffer("cache", None)
    module.register_buffer("hidden", None, persistent=False)
    module.register_buffer("mean", pyapp.ones(1))
    assert list(module.state_dict()) == ["mean"]
    module.cache, module.hidden = pyapp.zeros(2), pyapp.zeros(3)
    assert sorted(module.state_dict()) == ["cache", "mean"]
    assert sorted(name for name, _ in module.named_buffers()) == ["cache", "hidden", "mean"]
    module.mean = None
    assert [name for name, _ in module.named_buffers()] == ["cache", "hidden"]
    module.mean = pyapp.ones(2)
    assert module.half().mean.dtype is pyapp.float16 and "mean" in module.state_dict()
    del module.cache
    module.cache = pyapp.zeros(1)
    assert "cache" not in module.state_dict()


def test_copies_of_parameters_have_no_gradient() -> None:
    """As in torch, whose copies of other tensors have theirs."""
    layer = nn.Linear(2, 2)
    layer(pyapp.ones(1, 2)).sum().backward()
    x = pyapp.ones(2, requires_grad=True)
    (x * 2).sum().backward()
    assert copy.deepcopy(layer).weight.grad is None and copy.copy(layer).weight.grad is not None
    assert copy.deepcopy(x).grad.tolist() == [2.0, 2.0]


def test_methods_of_modules_inside_are_called() -> None:
    told: list[Any] = []

    class Merging(nn.Linear):
        def train(self, mode: bool = True) -> nn.Module:
            told.append(mode)
            return super().train(mode)

        def _apply(self, change: Any, recurse: bool = True) -> nn.Module:
            self.table = change(pyapp.ones(1))
            return super()._apply(change, recurse)

    model = nn.Sequential(nn.Sequential(Merging(2, 2)), nn.Linear(2, 2)).eval()
    assert told == [False] and not model[0][0].training and not model[1].training
    model.train().double()
    assert told == [False, True] and model[0][0].table.dtype is pyapp.float64
    assert {parameter.dtype.name for parameter in model.parameters()} == {"float64"}
