"""Optimisers of named parameters, as torch has them."""

from __future__ import annotations

import pytest

import pyapp
from pyapp import nn, optim


def test_names_stay_with_the_groups_and_in_the_state() -> None:
    model = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    optimizer = optim.Adam([{"params": model[0].named_parameters()}, {"params": [("last.weight", model[1].weight)]}])
    assert [group["param_names"] for group in optimizer.param_groups] == [["weight", "bias"], ["last.weight"]]
    model(pyapp.ones(1, 2)).sum().backward()
    optimizer.step()
    state = optimizer.state_dict()
    assert [group["param_names"] for group in state["param_groups"]] == [["weight", "bias"], ["last.weight"]]
    other = optim.Adam([{"params": list(model[0].parameters()), "lr": 1.0}, {"params": [model[1].weight]}])
    other.load_state_dict(state)
    assert (other.param_groups[0]["param_names"], other.param_groups[0]["lr"]) == (["weight", "bias"], 1e-3)
    own = optim.SGD(model.named_parameters(), lr=0.1)
    assert own.param_groups[0]["param_names"] == [name for name, _ in model.named_parameters()]
    with pytest.raises(ValueError, match="1 of 2 parameters"):
        optim.SGD([("weight", model[0].weight), model[0].bias], lr=0.1)
