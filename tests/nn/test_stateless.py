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
