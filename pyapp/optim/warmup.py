"""Shapes for LambdaLR: functions from the step (0, 1, ...) to a factor of each group's first learning rate.

`schedule = LambdaLR(optimizer, warmup_cosine(100, 2000))`, and `schedule.step()` after each optimizer.step().
"""

from __future__ import annotations

from math import cos, pi

from .schedules import Shape

__all__ = ["constant", "warmup_cosine", "warmup_linear"]


def constant() -> Shape:
    """Always 1."""
    return lambda step: 1.0


def warmup_cosine(warmup: int, total: int, floor: float = 0.0) -> Shape:
    """Linearly up over the first `warmup` steps (1 / warmup at the first step), then half a cosine down to `floor` at
    step `total`, then constant (Loshchilov and Hutter 2017, https://arxiv.org/abs/1608.03983).
    """
    _check(warmup, total, floor)

    def shape(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        done = min(1.0, (step - warmup) / max(1, total - warmup))
        return floor + (1 - floor) * 0.5 * (1 + cos(pi * done))

    return shape


def warmup_linear(warmup: int, total: int, floor: float = 0.0) -> Shape:
    """Linearly up as in warmup_cosine, then linearly down to `floor` at step `total`."""
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
