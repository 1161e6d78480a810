"""Learning rates that follow the number of steps, by Keras' names."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, cos, floor, log, pi
from typing import Any

from .lookup import Configured
from .lookup import serialize as serialize


class LearningRateSchedule(Configured):
    """Base: `schedule(step)` is the learning rate of a step, counted from 0."""

    keras_module = "keras.optimizers.schedules"

    def __call__(self, step: int) -> float:
        raise NotImplementedError


class ExponentialDecay(LearningRateSchedule):
    """initial * decay_rate ** (step / decay_steps)."""

    def __init__(
        self, initial_learning_rate: float, decay_steps: float, decay_rate: float, staircase: bool = False,
        name: str = "ExponentialDecay",
    ) -> None:  # fmt: skip
        self.initial, self.steps, self.rate, self.staircase = initial_learning_rate, decay_steps, decay_rate, staircase

    def __call__(self, step: int) -> float:
        part = step / self.steps
        return float(self.initial * self.rate ** (floor(part) if self.staircase else part))


class PiecewiseConstantDecay(LearningRateSchedule):
    """values[k] up to and with step boundaries[k]."""

    def __init__(self, boundaries: Sequence[float], values: Sequence[float], name: str = "PiecewiseConstant") -> None:
        if len(boundaries) != len(values) - 1:
            raise ValueError("PiecewiseConstantDecay: there is one value more than boundaries")
        self.boundaries, self.values = list(boundaries), list(values)

    def __call__(self, step: int) -> float:
        return float(self.values[sum(step > boundary for boundary in self.boundaries)])


class PolynomialDecay(LearningRateSchedule):
    """From initial to end by (1 - step / decay_steps) ** power; `cycle` begins again with longer periods."""

    def __init__(
        self, initial_learning_rate: float, decay_steps: float, end_learning_rate: float = 0.0001, power: float = 1.0,
        cycle: bool = False, name: str = "PolynomialDecay",
    ) -> None:  # fmt: skip
        self.initial, self.steps, self.end, self.power, self.cycle = (
            initial_learning_rate, decay_steps, end_learning_rate, power, cycle,
        )  # fmt: skip

    def __call__(self, step: int) -> float:
        steps = self.steps * (max(1.0, ceil(step / self.steps)) if self.cycle else 1.0)
        part = (step if self.cycle else min(step, steps)) / steps
        return float((self.initial - self.end) * (1 - part) ** self.power + self.end)


class InverseTimeDecay(LearningRateSchedule):
    """initial / (1 + decay_rate * step / decay_steps)."""

    def __init__(
        self, initial_learning_rate: float, decay_steps: float, decay_rate: float, staircase: bool = False,
        name: str = "InverseTimeDecay",
    ) -> None:  # fmt: skip
        self.initial, self.steps, self.rate, self.staircase = initial_learning_rate, decay_steps, decay_rate, staircase

    def __call__(self, step: int) -> float:
        part = step / self.steps
        return float(self.initial / (1 + self.rate * (floor(part) if self.staircase else part)))


class CosineDecay(LearningRateSchedule):
    """After a linear warm-up half a cosine down to alpha * the highest rate (Loshchilov and Hutter 2017)."""

    def __init__(
        self, initial_learning_rate: float, decay_steps: float, alpha: float = 0.0, name: str = "CosineDecay",
        warmup_target: float | None = None, warmup_steps: float = 0,
    ) -> None:  # fmt: skip
        self.initial, self.steps, self.alpha = initial_learning_rate, decay_steps, alpha
        self.target, self.warmup = warmup_target, warmup_steps

    def __call__(self, step: int) -> float:
        highest, at = self.initial, float(step)
        if self.target is not None:
            if step < self.warmup:
                return float(self.initial + (self.target - self.initial) * step / self.warmup)
            highest, at = self.target, step - self.warmup
        wave = 0.5 * (1 + cos(pi * min(at, self.steps) / self.steps))
        return float(highest * ((1 - self.alpha) * wave + self.alpha))


class CosineDecayRestarts(LearningRateSchedule):
    """Cosine decay that starts again, with periods t_mul and rates m_mul times the last."""

    def __init__(
        self, initial_learning_rate: float, first_decay_steps: float, t_mul: float = 2.0, m_mul: float = 1.0,
        alpha: float = 0.0, name: str = "SGDRDecay",
    ) -> None:  # fmt: skip
        self.initial, self.steps, self.t_mul, self.m_mul, self.alpha = (
            initial_learning_rate, first_decay_steps, t_mul, m_mul, alpha,
        )  # fmt: skip

    def __call__(self, step: int) -> float:
        part = step / self.steps
        if self.t_mul == 1.0:
            restart = floor(part)
            part -= restart
        else:
            restart = floor(log(1 - part * (1 - self.t_mul)) / log(self.t_mul))
            part = (part - (1 - self.t_mul**restart) / (1 - self.t_mul)) / self.t_mul**restart
        wave = 0.5 * self.m_mul**restart * (1 + cos(pi * part))
        return float(self.initial * ((1 - self.alpha) * wave + self.alpha))


def deserialize(config: Mapping[str, Any], custom_objects: Mapping[str, Any] | None = None) -> LearningRateSchedule:
    """A schedule from {"class_name", "config"}. ValueError for an unknown one."""
    name = str(config.get("class_name"))
    kind = (custom_objects or {}).get(name) or globals().get(name)
    if not (isinstance(kind, type) and issubclass(kind, LearningRateSchedule)):
        raise ValueError(f"there is no schedule {config.get('class_name')!r}")
    made: LearningRateSchedule = kind(**config.get("config", {}))
    return made
