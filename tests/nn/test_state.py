"""Hooks around state_dict and load_state_dict, and extra state, beside what torch does (golden_state.json)."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

import pyapp
from pyapp import nn

from .state_cases import CASES, constant, counting, network

GOLDEN = json.loads(Path(__file__).with_name("golden_state.json").read_text())


@pytest.mark.parametrize("name", CASES)
def test_as_torch(name: str) -> None:
    if GOLDEN[name] == "error":
        with pytest.raises((RuntimeError, KeyError)) as caught:
            CASES[name](pyapp)
        assert len(str(caught.value)) > 10
    else:
        assert json.loads(json.dumps(CASES[name](pyapp))) == GOLDEN[name]


def test_nothing_is_loaded_where_something_is_wrong() -> None:
    """But for names that a hook may still excuse."""
    layer = constant(pyapp, 0)
    with pytest.raises(KeyError, match="Missing .*bias"):
        layer.load_state_dict({"weight": pyapp.ones(1, 1)})
    layer.register_load_state_dict_pre_hook(lambda *args: args[-1].append("made by version 3"))
    with pytest.raises(RuntimeError, match="Linear: made by version 3"):
        layer.load_state_dict({"weight": pyapp.ones(1, 1), "bias": pyapp.ones(1)})
    assert layer.weight.item() == 0


def test_extra_state_and_other_ways_to_load() -> None:
    net = counting(pyapp)
    weights = {"inner.weight": pyapp.ones(2, 1), "inner.bias": pyapp.zeros(2)}
    assert nn.Weights(weights).load(net) == ([], [])  # checkpoints hold tensors
    assert net.inner.weight.tolist() == [[1], [1]]
    other = counting(pyapp)
    net.seen = 4
    other.load_state_dict(net.state_dict(), assign=True)
    assert other.seen == 4 and other.inner.weight.tolist() == [[1], [1]]
    renamed: dict[str, Any] = {name.replace("inner", "old"): value for name, value in net.state_dict().items()}
    assert counting(pyapp).load_state_dict(renamed, renames={"old": "inner"}) == ([], [])


def test_hooks_are_copied_with_their_module() -> None:
    net = network(pyapp)
    net.register_state_dict_post_hook(lambda m, state, prefix, told: state.update(added=1))
    twin = copy.deepcopy(net)
    assert "added" in twin.state_dict() and twin._state_hooks is not net._state_hooks


def test_a_part_may_collect_its_state_itself() -> None:
    class Own(nn.Module):
        def state_dict(self, *, destination: Any = None, prefix: str = "", keep_vars: bool = False) -> dict[str, Any]:
            destination[prefix + "own"] = pyapp.ones(1)
            return dict(destination)

    assert list(nn.Sequential(constant(pyapp, 1), Own()).state_dict()) == ["0.weight", "0.bias", "1.own"]
