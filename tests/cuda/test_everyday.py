"""Everyday programs on the CUDA device, in the emulator."""

from __future__ import annotations

import numpy as np
import pytest

import pyapp
from tests.mirror.everyday import CASES, check, check_numbers_of_the_cpu
from tests.nn.autocast_cases import training

from . import emulated

pytestmark = pytest.mark.native_only


@pytest.mark.parametrize("name", CASES)
def test_as_on_the_cpu(name: str) -> None:
    check(emulated.DEVICE, name)
    emulated.check()


def test_training_with_a_scaler() -> None:
    """As on the CPU, steps that are skipped too; a scaler that is restored goes on."""
    losses, kinds = training(pyapp, pyapp.from_numpy, "float16", emulated.DEVICE)
    expected, _ = training(pyapp, pyapp.from_numpy, "float16")
    assert kinds == ["float32"] * 3 and losses[1::2] == expected[1::2] and losses[1] < 2.0**30
    np.testing.assert_allclose(losses[::2], expected[::2], rtol=5e-3)
    scaler, other = pyapp.GradScaler(emulated.DEVICE, init_scale=4.0), pyapp.GradScaler(emulated.DEVICE)
    weight = pyapp.ones(3).to(emulated.DEVICE).requires_grad_()
    optimizer = pyapp.optim.SGD([weight], lr=1.0)
    scaler.scale(weight.sum()).backward()
    scaler.unscale_(optimizer)
    norm = pyapp.nn.utils.clip_grad_norm_([weight], 1.0)
    np.testing.assert_allclose(norm.item(), 3**0.5, rtol=1e-6)
    scaler.step(optimizer)
    scaler.update()
    np.testing.assert_allclose(weight.tolist(), [1 - 3**-0.5] * 3, rtol=1e-5)
    other.load_state_dict(scaler.state_dict())
    assert other.state_dict() == scaler.state_dict() and other.get_scale() == 4.0


def test_numbers_of_the_cpu_are_taken() -> None:
    check_numbers_of_the_cpu(emulated.DEVICE)
    emulated.check()
