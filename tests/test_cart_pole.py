"""The example of reinforcement learning: its world is Gymnasium's, and its player learns."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

EXAMPLE = Path(__file__).resolve().parents[1] / "examples" / "cart_pole" / "cart_pole.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("cart_pole", EXAMPLE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["cart_pole"] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


def test_the_world_moves_as_gymnasiums(example: ModuleType) -> None:
    world = example.CartPoles(2, seed=1)
    world.states[:] = [0.1, -0.2, 0.03, 0.04]
    for action in (1, 1, 0, 1, 0, 0, 0, 1):
        world.push(np.full(2, action))
    # gymnasium 1.4: CartPole-v1 from the same state with the same actions
    state = [0.09123640315641471, -0.20155293994145382, 0.005197242565903231, 0.07423737516925016]
    np.testing.assert_allclose(world.states, [state, state], rtol=1e-12)
    world.states[:, 2] = [0.2, 0.3]
    assert [x.tolist() for x in world.ended()] == [[False, True], [False, False]]  # 12 degrees are 0.209


def test_the_player_learns(example: ModuleType) -> None:
    """Of twenty seeds the worst player balances for 163 steps after ten rounds, the best new one for 67."""
    player = example.main(seed=1, rounds=10, report=False)
    assert example.balance(example.Player(), 8, seed=1000) < 80
    assert example.balance(player, 8, seed=1000) > 100
