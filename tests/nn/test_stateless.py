"""Calls of a module with other parameters, and states of older files. The expectations are torch 2.14's."""

from __future__ import annotations

import pytest

import pyapp
from pyapp import nn
from pyapp.nn.utils.stateless import functional_call


def test_other_parameters() -> None:
    layer, x = nn.Linear(2, 1), pyapp.ones(1, 2)
    kept = layer.weight
    given = {"weight": pyapp.full((1, 2), 2.0), "bias": pyapp.ones(1)}
    assert functional_call(layer, given, x).tolist() == [[5.0]] and layer.weight is kept
    assert functional_call(layer, {**given, "unknown": x}, (x,)).tolist() == [[5.0]]
    with pytest.raises(KeyError, match="unexpected \\['unknown'\\], missing \\['bias'\\]"):
        functional_call(layer, {"weight": given["weight"], "unknown": x}, x, strict=True)


def test_a_count_of_batches_may_be_missing() -> None:
    """Files from before PyTorch 0.4.1 have none."""
    layer = nn.Sequential(nn.BatchNorm1d(2))
    layer(pyapp.ones(3, 2))
    state = {name: value for name, value in layer.state_dict().items() if "num_batches" not in name}
    assert not any(nn.Sequential(nn.BatchNorm1d(2)).load_state_dict(state))
    with pytest.raises(RuntimeError, match="running_var"):
        layer.load_state_dict({name: value for name, value in state.items() if "running_var" not in name})


def test_every_tensor_of_a_module_can_be_replaced() -> None:
    """Buffers with two names, tensors that are neither parameters nor buffers, and what a module assigns, as in
    torch."""

    class Counts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first = nn.Buffer(pyapp.zeros(1))
            self.second, self.plain = self.first, pyapp.ones(1)

        def forward(self, x: pyapp.Tensor) -> pyapp.Tensor:
            out = x + self.first + 10 * self.second + 100 * self.plain
            self.first = self.first + 1
            return out

    net, two = Counts(), pyapp.ones(1) * 2
    given = {"first": two, "plain": pyapp.ones(1) * 3}
    assert functional_call(net, given, (pyapp.zeros(1),)).tolist() == [322]
    assert given["first"].tolist() == [3] and two.tolist() == [2]
    assert net.first.tolist() == [0] and net.plain.tolist() == [1] and "plain" not in net.state_dict()
    with pytest.raises(ValueError, match=r"\['first'\] are in several mappings"):
        functional_call(net, ({"first": two}, {"first": two}), (pyapp.zeros(1),))
    with pytest.raises(ValueError, match=r"\['first', 'second'\] are names of one tensor"):
        functional_call(net, {"first": two, "second": pyapp.ones(1)}, (pyapp.zeros(1),))
    assert functional_call(
        net, {"first": two, "second": pyapp.ones(1)}, (pyapp.zeros(1),), tie_weights=False
    ).tolist() == [112]
