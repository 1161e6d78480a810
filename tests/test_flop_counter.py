"""Counts of floating-point operations. Every number is that of torch 2.14's FlopCounterMode."""

from __future__ import annotations

from typing import Any

import pytest

import pyapp
from pyapp import nn
from pyapp.utils.flop_counter import FlopCounterMode

F = nn.functional


def made(*shape: int) -> Any:
    return pyapp.ones(shape, requires_grad=True)


CASES: dict[str, tuple[int, Any]] = {
    "mm": (360, lambda: made(3, 4) @ made(4, 5)),
    "mv": (0, lambda: pyapp.ones(3, 4) @ pyapp.ones(4)),
    "bmm": (720, lambda: pyapp.bmm(made(2, 3, 4), made(2, 4, 5))),
    "addmm": (360, lambda: pyapp.addmm(made(5), made(3, 4), made(4, 5))),
    "einsum": (720, lambda: pyapp.einsum("bij,bkj->bik", made(2, 3, 4), made(2, 5, 4))),
    "broadcast": (720, lambda: made(2, 3, 4) @ made(4, 5)),
    "linear": (720, lambda: F.linear(made(2, 3, 4), made(5, 4), made(5))),
    "conv3d": (5184, lambda: F.conv3d(pyapp.ones(1, 2, 4, 4, 4), made(3, 2, 2, 2, 2))),
    "conv_transpose2d": (8100, lambda: F.conv_transpose2d(made(1, 2, 5, 5), made(2, 3, 3, 3), stride=2)),
}


@pytest.mark.parametrize("name", CASES)
def test_forward_and_backward(name: str) -> None:
    expected, call = CASES[name]
    with FlopCounterMode(display=False) as counter:
        y = call()
        if y.requires_grad:
            y.sum().backward()
    assert counter.get_total_flops() == expected


def test_counts_of_modules(capsys: pytest.CaptureFixture[str]) -> None:
    with pyapp.device("meta"):
        net = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(128, 32),
            nn.Sequential(nn.Linear(32, 5)),
        )  # fmt: skip
        x = pyapp.ones(2, 3, 8, 8)
    with FlopCounterMode() as counter:
        net(x)
    counts = {path: sum(found.values()) for path, found in counter.get_flop_counts().items()}
    assert counts == {
        "Global": 30848, "Sequential": 30848, "Sequential.0": 13824, "Sequential.3": 16384, "Sequential.4": 640,
        "Sequential.4.0": 640,
    }  # fmt: skip
    table = capsys.readouterr().out
    assert "Sequential.3" in table and "53.11%" in table and "Sequential.4.0" not in table
    with counter:
        net(x).sum().backward()
    assert counter.get_total_flops() == 78720
    with counter, pytest.raises(RuntimeError), FlopCounterMode():
        pass
    with FlopCounterMode(display=False, custom_mapping={"relu": lambda x: x.numel()}) as counter:
        net(x)
    assert counter.get_total_flops() == 30848 + 256


def test_attention() -> None:
    """Queries by keys, and weights by values; of gradients those, and the scores once more."""
    q, k = made(2, 4, 6, 8), made(2, 4, 7, 8)
    with FlopCounterMode(display=False) as counter:
        y = F.scaled_dot_product_attention(q, k, k)
        assert counter.get_total_flops() == 4 * 2 * 4 * 6 * 7 * 8
        y.sum().backward()
    assert counter.get_total_flops() == 14 * 2 * 4 * 6 * 7 * 8
