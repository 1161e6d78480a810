"""Cyclic learning-rate schedules, which also change the momentum."""

from __future__ import annotations

from collections.abc import Sequence
from math import cos, floor, pi
from typing import Any

from .optimizer import Optimizer
from .schedules import LRScheduler, Shape, copied_rate, per_group

__all__ = ["CyclicLR", "OneCycleLR"]


class OneCycleLR(LRScheduler):
    """The one-cycle policy (Smith and Topin 2018, https://arxiv.org/abs/1708.07120), stepped after every batch: up from
    max_lr / div_factor to max_lr in the first fraction `pct_start` of the steps, then down to max_lr / div_factor /
    final_div_factor. The momentum (or beta1) moves in the opposite direction. ValueError for a step beyond the last.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        max_lr: float | Sequence[float],
        total_steps: int | None = None,
        epochs: int | None = None,
        steps_per_epoch: int | None = None,
        pct_start: float = 0.3,
        anneal_strategy: str = "cos",
        cycle_momentum: bool = True,
        base_momentum: float = 0.85,
        max_momentum: float = 0.95,
        div_factor: float = 25.0,
        final_div_factor: float = 1e4,
        three_phase: bool = False,
        last_epoch: int = -1,
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError(
                    "OneCycleLR: You must define either total_steps OR (epochs AND steps_per_epoch): give total_steps, "
                    "or epochs and steps_per_epoch"
                )
            total_steps = epochs * steps_per_epoch
        if total_steps < 1 or not 0 <= pct_start <= 1 or anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                "OneCycleLR: needs total_steps >= 1, pct_start in [0, 1] and anneal_strategy 'cos' or 'linear', "
                f"got {total_steps}, {pct_start}, {anneal_strategy!r}"
            )
        groups = optimizer.param_groups
        _check_momentum("OneCycleLR", optimizer, cycle_momentum)
        tops = per_group("OneCycleLR", optimizer, max_lr, "values of max_lr")
        self.total_steps, self.pct_start, self.three_phase = total_steps, pct_start, three_phase
        self.cycle_momentum, self.base_momentum, self.max_momentum = cycle_momentum, base_momentum, max_momentum
        self.anneal_strategy, self.div_factor, self.final_div_factor = anneal_strategy, div_factor, final_div_factor
        self.max_lrs = [float(top) for top in tops]
        for group, top in zip(groups, tops, strict=True):
            group.update(
                initial_lr=top / div_factor, max_lr=copied_rate(top), min_lr=top / div_factor / final_div_factor
            )
            if cycle_momentum:
                group.update(base_momentum=base_momentum, max_momentum=max_momentum)
        super().__init__(optimizer, last_epoch)

    def _phases(self) -> list[tuple[float, ...]]:
        """(last step, rates as factors of max_lr at its ends, momenta at its ends)"""
        low, high, rise = self.base_momentum, self.max_momentum, self.pct_start * self.total_steps - 1
        start, end = 1 / self.div_factor, 1 / self.div_factor / self.final_div_factor
        last = self.total_steps - 1.0
        if self.three_phase:
            return [(rise, start, 1.0, high, low), (2 * rise, 1.0, start, low, high), (last, start, end, high, high)]
        return [(rise, start, 1.0, high, low), (last, 1.0, end, low, high)]

    def _at(self, step: float) -> tuple[float, float]:
        """(factor of max_lr, momentum)."""
        if step > self.total_steps:
            raise ValueError(f"OneCycleLR: step {step} of {self.total_steps}")
        before, phases = 0.0, self._phases()
        for last, rate0, rate1, momentum0, momentum1 in phases:
            if step <= last or last == phases[-1][0]:
                share = (step - before) / (last - before) if last != before else 1.0
                if self.anneal_strategy == "cos":
                    share = 0.5 * (1 - cos(pi * share))
                return rate1 + (rate0 - rate1) * (1 - share), momentum0 + (momentum1 - momentum0) * share
            before = last
        raise AssertionError("no phase")

    def get_lr(self) -> list[float]:
        factor, momentum = self._at(self.last_epoch)
        if self.cycle_momentum:
            for group in self.optimizer.param_groups:
                _set_momentum(group, momentum)
        return [top * factor for top in self.max_lrs]


def _check_momentum(name: str, optimizer: Optimizer, wanted: bool) -> None:
    if wanted and not all("betas" in group or "momentum" in group for group in optimizer.param_groups):
        raise ValueError(f"{name}: cycle_momentum needs an optimiser with momentum or betas")


def _set_momentum(group: dict[str, Any], momentum: float) -> None:
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


class CyclicLR(LRScheduler):
    """Repeats: from `base_lr` up to `max_lr` in `step_size_up` steps and down in `step_size_down` (Smith 2015,
    https://arxiv.org/abs/1506.01186). The momentum, or first beta, moves in the opposite direction. The height of a
    cycle: "triangular" is constant, "triangular2" is halved in each cycle, "exp_range" is gamma^step; or `scale_fn` of
    the cycle (1, 2, ...) or, in the mode "iterations", of the step.
    """

    def __init__(
        self,
        optimizer: Optimizer,
        base_lr: float | Sequence[float],
        max_lr: float | Sequence[float],
        step_size_up: int = 2000,
        step_size_down: int | None = None,
        mode: str = "triangular",
        gamma: float = 1.0,
        scale_fn: Shape | None = None,
        scale_mode: str = "cycle",
        cycle_momentum: bool = True,
        base_momentum: float | Sequence[float] = 0.8,
        max_momentum: float | Sequence[float] = 0.9,
        last_epoch: int = -1,
    ) -> None:
        heights: dict[str, tuple[Shape, str]] = {
            "triangular": (lambda cycle: 1.0, "cycle"),
            "triangular2": (lambda cycle: 0.5 ** (cycle - 1), "cycle"),
            "exp_range": (lambda step: gamma**step, "iterations"),
        }
        if (mode not in heights and scale_fn is None) or scale_mode not in ("cycle", "iterations"):
            raise ValueError(f"CyclicLR: unknown mode {mode!r} or scale_mode {scale_mode!r}")
        _check_momentum("CyclicLR", optimizer, cycle_momentum)
        self._height, self._by = (scale_fn, scale_mode) if scale_fn is not None else heights[mode]
        self._size = step_size_up + (step_size_up if step_size_down is None else step_size_down)
        self._rise = step_size_up / self._size
        self.max_lrs = per_group("CyclicLR", optimizer, max_lr, "values of max_lr")
        lows, highs = (
            per_group("CyclicLR", optimizer, value, "momenta") if cycle_momentum else [0.0] * len(self.max_lrs)
            for value in (base_momentum, max_momentum)
        )
        self.cycle_momentum, self._momenta = cycle_momentum, list(zip(lows, highs, strict=True))
        rates = per_group("CyclicLR", optimizer, base_lr, "values of base_lr")
        for group, rate, (low, high) in zip(optimizer.param_groups, rates, self._momenta, strict=True):
            group["initial_lr"] = copied_rate(rate)
            if cycle_momentum:
                group.update(base_momentum=low, max_momentum=high)
        super().__init__(optimizer, last_epoch)

    def state_dict(self) -> dict[str, Any]:
        """As that of all; torch has the settings of a scale_fn that is an object there."""
        return super().state_dict() | {"_scale_fn_ref": None, "_scale_fn_custom": None}

    def get_lr(self) -> list[float]:
        cycle = floor(1 + self.last_epoch / self._size)
        at = 1 + self.last_epoch / self._size - cycle
        share = at / self._rise if at <= self._rise else (at - 1) / (self._rise - 1)
        share *= self._height(cycle if self._by == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, (low, high) in zip(self.optimizer.param_groups, self._momenta, strict=True):
                _set_momentum(group, high - (high - low) * share)
        return [base + (top - base) * share for base, top in zip(self.base_lrs, self.max_lrs, strict=True)]
