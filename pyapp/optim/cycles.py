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

    kept = ("use_beta1", "_anneal_func_type", "_schedule_phases")

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
        self.total_steps, self.cycle_momentum = total_steps, cycle_momentum
        self.use_beta1, self._anneal_func_type = "betas" in groups[0], anneal_strategy
        rise, last = float(pct_start * total_steps) - 1, total_steps - 1
        if three_phase:
            self._schedule_phases = [
                _phase(rise, "initial", "max", "max", "base"),
                _phase(2 * rise, "max", "initial", "base", "max"),
                _phase(last, "initial", "min", "max", "max"),
            ]
        else:
            self._schedule_phases = [
                _phase(rise, "initial", "max", "max", "base"), _phase(last, "max", "min", "base", "max")
            ]  # fmt: skip
        for group, top in zip(groups, tops, strict=True):
            group.update(
                initial_lr=top / div_factor, max_lr=copied_rate(top), min_lr=top / div_factor / final_div_factor
            )
            if cycle_momentum:
                group.update(base_momentum=base_momentum, max_momentum=max_momentum)
        super().__init__(optimizer, last_epoch)

    def _place(self) -> tuple[dict[str, Any], float]:
        """The phase of `last_epoch`, and which share of it lies behind."""
        step, before = self.last_epoch, 0.0
        if step > self.total_steps:
            raise ValueError(f"OneCycleLR: step {step} of {self.total_steps}")
        phase = next((p for p in self._schedule_phases if step <= p["end_step"]), self._schedule_phases[-1])
        before = max((p["end_step"] for p in self._schedule_phases if p["end_step"] < phase["end_step"]), default=0.0)
        share = (step - before) / (phase["end_step"] - before) if phase["end_step"] != before else 1.0
        return phase, 0.5 * (1 - cos(pi * share)) if self._anneal_func_type == "cos" else share

    def get_lr(self) -> list[float]:
        (phase, share), rates = self._place(), []
        for group in self.optimizer.param_groups:
            first, last = float(group[phase["start_lr"]]), float(group[phase["end_lr"]])
            rates.append(last + (first - last) * (1 - share))
            if self.cycle_momentum:
                begin, end = group[phase["start_momentum"]], group[phase["end_momentum"]]
                _set_momentum(group, begin + (end - begin) * share)
        return rates


def _phase(end: float, *names: str) -> dict[str, Any]:
    """Until when a phase lasts, and the entries of a group that have its rates and momenta at both ends."""
    ends = zip(("start_lr", "end_lr", "start_momentum", "end_momentum"), names, strict=True)
    return {"end_step": end} | {key: f"{name}_{key.partition('_')[2]}" for key, name in ends}


def _check_momentum(name: str, optimizer: Optimizer, wanted: bool) -> None:
    if wanted and not all("betas" in group or "momentum" in group for group in optimizer.param_groups):
        raise ValueError(f"{name}: cycle_momentum needs an optimiser with momentum or betas")


def _set_momentum(group: dict[str, Any], momentum: float) -> None:
    if "betas" in group:
        group["betas"] = (momentum, *group["betas"][1:])
    else:
        group["momentum"] = momentum


_HEIGHTS = {"triangular": "cycle", "triangular2": "cycle", "exp_range": "iterations"}  # what the height depends on


class CyclicLR(LRScheduler):
    """Repeats: from `base_lr` up to `max_lr` in `step_size_up` steps and down in `step_size_down` (Smith 2015,
    https://arxiv.org/abs/1506.01186). The momentum, or first beta, moves in the opposite direction. The height of a
    cycle: "triangular" is constant, "triangular2" is halved in each cycle, "exp_range" is gamma^step; or `scale_fn` of
    the cycle (1, 2, ...) or, in the mode "iterations", of the step.
    """

    kept = ("total_size", "step_ratio", "scale_mode", "use_beta1", "max_lrs", "base_momentums", "max_momentums")

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
        if (mode not in _HEIGHTS and scale_fn is None) or scale_mode not in ("cycle", "iterations"):
            raise ValueError(f"CyclicLR: unknown mode {mode!r} or scale_mode {scale_mode!r}")
        _check_momentum("CyclicLR", optimizer, cycle_momentum)
        self._scale_fn = scale_fn
        self.mode, self.gamma = mode, gamma
        self.scale_mode = scale_mode if scale_fn is not None else _HEIGHTS[mode]
        self.total_size = float(step_size_up + (step_size_up if step_size_down is None else step_size_down))
        self.step_ratio = step_size_up / self.total_size
        self.max_lrs = per_group("CyclicLR", optimizer, max_lr, "values of max_lr")
        self.base_momentums, self.max_momentums = (
            per_group("CyclicLR", optimizer, value, "momenta") if cycle_momentum else []
            for value in (base_momentum, max_momentum)
        )
        self.cycle_momentum, self.use_beta1 = cycle_momentum, "betas" in optimizer.param_groups[0]
        rates = per_group("CyclicLR", optimizer, base_lr, "values of base_lr")
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["initial_lr"] = copied_rate(rate)
        if cycle_momentum:
            for group, low, high in zip(optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True):
                group.update(base_momentum=low, max_momentum=high)
        super().__init__(optimizer, last_epoch)

    def _height(self) -> float:
        """How high the cycle of `last_epoch` is."""
        cycle = floor(1 + self.last_epoch / self.total_size)
        if self._scale_fn is not None:
            return self._scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.mode == "exp_range":
            return self.gamma**self.last_epoch
        return 0.5 ** (cycle - 1) if self.mode == "triangular2" else 1.0

    def state_dict(self) -> dict[str, Any]:
        """As that of all; torch has the settings of a scale_fn that is an object there."""
        return super().state_dict() | {"_scale_fn_ref": None, "_scale_fn_custom": None}

    def get_lr(self) -> list[float]:
        at = self.last_epoch / self.total_size % 1.0
        share = at / self.step_ratio if at <= self.step_ratio else (at - 1) / (self.step_ratio - 1)
        share *= self._height()
        if self.cycle_momentum:
            for group, low, high in zip(
                self.optimizer.param_groups, self.base_momentums, self.max_momentums, strict=True
            ):
                _set_momentum(group, high - (high - low) * share)
        return [base + (top - base) * share for base, top in zip(self.base_lrs, self.max_lrs, strict=True)]
