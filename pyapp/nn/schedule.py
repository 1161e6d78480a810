"""Learning-rate schedules.

A shape is a function from the step (0, 1, ...) to a factor; `Schedule` multiplies each parameter group's first
learning rate with it: `schedule = Schedule(optimizer, warmup_cosine(100, 2000))`, and `schedule.step()` after each
optimizer.step().
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import cos, pi
from typing import Any

from .optim import Optimizer

Shape = Callable[[int], float]


class Schedule:
    """Sets `lr` of every group to its initial one times `shape(step)`, at once and at each `step()`; as
    torch.optim.lr_scheduler.LambdaLR.
    """

    def __init__(self, optimizer: Optimizer, shape: Shape, step: int = 0) -> None:
        self.optimizer = optimizer
        self.shape = shape
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.count = step
        self._apply()

    def step(self) -> None:
        """On to the next step's rate."""
        self.count += 1
        self._apply()

    def get_last_lr(self) -> list[float]:
        """The rate of each group now."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def _apply(self) -> None:
        factor = self.shape(self.count)
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor

    def state_dict(self) -> dict[str, Any]:
        return {"step": self.count}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.count = int(state["step"])
        self._apply()


def constant() -> Shape:
    """Always 1."""
    return lambda step: 1.0


def warmup_cosine(warmup: int, total: int, floor: float = 0.0) -> Shape:
    """Up in a line over the first `warmup` steps (the first step takes 1 / warmup), then half a cosine down to `floor`
    at step `total`, and `floor` from there on. (Loshchilov and Hutter 2017, https://arxiv.org/abs/1608.03983)
    """
    _check(warmup, total, floor)

    def shape(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        done = min(1.0, (step - warmup) / max(1, total - warmup))
        return floor + (1 - floor) * 0.5 * (1 + cos(pi * done))

    return shape


def warmup_linear(warmup: int, total: int, floor: float = 0.0) -> Shape:
    """Up in a line as warmup_cosine, then down in a line to `floor` at step `total`."""
    _check(warmup, total, floor)

    def shape(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        return 1 - (1 - floor) * min(1.0, (step - warmup) / max(1, total - warmup))

    return shape


def _check(warmup: int, total: int, floor: float) -> None:
    if warmup < 0 or total < 1 or not 0 <= floor <= 1:
        raise ValueError(
            f"a schedule needs warmup >= 0, total >= 1 and 0 <= floor <= 1, got {warmup}, {total}, {floor}"
        )
