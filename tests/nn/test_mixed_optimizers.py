"""AdamW8bit beside AdamW, and float32 masters of half-precision weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import pyapp
from pyapp import nn, optim
from pyapp.nn import functional as F
from pyapp.optim.adamw8bit import BLOCK, _values, decode, encode
from tests.mirror import device as _mirror  # noqa: F401  registers the device "mirror"


def test_codes() -> None:
    """Each value is coded as the nearest of 256, block by block; shapes and zeros are kept."""
    generator = np.random.default_rng(0)
    for signed in (True, False):
        values = _values(signed)
        assert len(values) == 256 and values[-1] == 1 and (values[0] < -0.9 if signed else values[0] == 0)
        x = (generator.standard_normal((7, 300)) * 10.0 ** generator.uniform(-6, 2, (7, 300))).astype(np.float32)
        x = x if signed else x * x
        x[2, :40] = 0
        codes, scales = encode(x, signed)
        assert codes.dtype == np.uint8 and codes.shape == x.shape and scales.shape == (-(-x.size // BLOCK),)
        again = decode(codes, scales, signed)
        assert (again[2, :40] == 0).all()
        flat = x.reshape(-1)
        wide = np.repeat(scales, BLOCK)[: flat.size]
        nearest = np.abs(flat[:, None] / wide[:, None] - values).min(1)
        distance = np.abs(flat - again.reshape(-1)) / wide
        assert (distance <= nearest + 1e-3 * np.abs(flat / wide) + 1e-9).all()


def network(dtype: Any = "float32") -> nn.Module:
    pyapp.manual_seed(3)
    return nn.Sequential(nn.Linear(64, 96), nn.GELU(), nn.Linear(96, 64)).to(dtype)


def train(model: nn.Module, optimizer: Any, steps: int) -> list[float]:
    generator = np.random.default_rng(1)
    kind = next(iter(model.parameters())).dtype
    losses = []
    for _ in range(steps):
        x = pyapp.from_numpy(generator.standard_normal((32, 64)).astype(np.float32))
        loss = F.mse_loss(model(x.to(kind)).float(), x.roll(1, 1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def test_steps_in_eight_bits() -> None:
    found = {}
    for kind in (optim.AdamW, optim.AdamW8bit):
        model = network()
        optimizer = kind(model.parameters(), lr=1e-2, weight_decay=0.1)
        found[kind] = train(model, optimizer, 40), model, optimizer
    exact, close = found[optim.AdamW][0], found[optim.AdamW8bit][0]
    assert exact[-1] < 0.8 * exact[0]
    np.testing.assert_allclose(close[0], exact[0], rtol=1e-6)  # the first step has no moments yet
    np.testing.assert_allclose(close, exact, rtol=0.02)

    def nbytes(optimizer: Any) -> int:
        return sum(v.nbytes for entry in optimizer.state.values() for v in entry.values() if hasattr(v, "nbytes"))

    sizes = [nbytes(found[kind][2]) for kind in (optim.AdamW, optim.AdamW8bit)]
    assert sizes[1] < 0.29 * sizes[0]  # biases stay float32

    _, model, optimizer = found[optim.AdamW8bit]
    other = network()
    other.load_state_dict(model.state_dict())
    restored = optim.AdamW8bit(other.parameters())
    restored.load_state_dict(optimizer.state_dict())
    assert train(model, optimizer, 3) == train(other, restored, 3)
    with pytest.raises(ValueError, match="state of AdamW"):
        restored.load_state_dict(found[optim.AdamW][2].state_dict())


def test_eight_bits_on_another_device() -> None:
    found = []
    for device in ("cpu", "mirror"):
        model = network().to(device)
        optimizer = optim.AdamW8bit(model.parameters(), lr=1e-2)
        for parameter in model.parameters():
            parameter.grad = pyapp.ones(*parameter.shape).to(device) * 0.1
        optimizer.step()
        found.append([parameter.detach().cpu().numpy() for parameter in model.parameters()])
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_masters(dtype: str) -> None:
    """Updates that are too small for the dtype add up, and the state continues a training exactly."""
    weight = nn.Parameter(pyapp.ones(4, dtype=dtype))
    optimizer = optim.MasterWeights(optim.SGD, [weight], lr=1e-4)
    for _ in range(100):
        weight.grad = pyapp.ones(4, dtype=dtype)
        optimizer.step()
    np.testing.assert_allclose(weight.detach().float().numpy(), 0.99, rtol=4e-3)
    assert weight.dtype.name == dtype and weight.detach().float().numpy()[0] < 1

    model = network(dtype)
    groups = [{"params": list(model.parameters())[:2], "lr": 1e-3}, {"params": list(model.parameters())[2:]}]
    optimizer = optim.MasterWeights(optim.AdamW, groups, lr=3e-3)
    schedule = optim.lr_scheduler.StepLR(optimizer, 1, 0.9)
    losses = train(model, optimizer, 30)
    assert losses[-1] < 0.7 * losses[0]
    schedule.step()
    assert [group["lr"] for group in optimizer.param_groups] == pytest.approx([9e-4, 2.7e-3])
    other = network(dtype)
    groups = [{"params": list(other.parameters())[:2]}, {"params": list(other.parameters())[2:]}]
    restored = optim.MasterWeights(optim.AdamW, groups)
    restored.load_state_dict(optimizer.state_dict())
    assert train(model, optimizer, 3) == train(other, restored, 3)
    with pytest.raises(ValueError, match="no master"):
        restored.load_state_dict(restored.optimizer.state_dict())
