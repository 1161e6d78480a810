"""Hooks of modules whose inputs require no gradient, and names that a state cannot contain."""

from __future__ import annotations

from typing import Any

import pytest

from pyapp import nn, ones


def test_backward_hooks_of_a_first_layer() -> None:
    """As in torch, whose hook runs when the gradients of the outputs are known, with None for each input."""
    net = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    seen: list[Any] = []
    for i, layer in enumerate(net):
        layer.register_full_backward_hook(
            lambda module, before, after, i=i: seen.append(
                (i, [None if g is None else tuple(g.shape) for g in before], [tuple(g.shape) for g in after])
            )
        )
    net(ones(4, 2)).sum().backward()
    assert seen == [(1, [(4, 3)], [(4, 1)]), (0, [None], [(4, 3)])]
    assert net[0].weight.grad is not None


def test_hooks_may_be_taken_away_from_a_first_layer() -> None:
    layer, calls = nn.Linear(2, 1), []
    handle = layer.register_full_backward_hook(lambda *_: calls.append(1))
    layer(ones(1, 2)).sum().backward()
    handle.remove()
    layer(ones(1, 2)).sum().backward()
    assert calls == [1]


@pytest.mark.parametrize("name", ["a.b", ""])
def test_names_that_a_state_could_not_hold(name: str) -> None:
    net = nn.Linear(2, 1)
    with pytest.raises(KeyError, match="register_buffer"):
        net.register_buffer(name, ones(1))
    with pytest.raises(KeyError, match="register_parameter"):
        net.register_parameter(name, None)
    with pytest.raises(KeyError, match="add_module"):
        net.add_module(name, nn.ReLU())


def test_paddings_that_are_none() -> None:
    with pytest.raises(ValueError, match="Conv2d: padding is numbers, 'same' or 'valid', not 'full'"):
        nn.Conv2d(3, 4, 3, padding="full")
