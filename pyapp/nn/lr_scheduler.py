"""Learning-rate schedules by torch.optim.lr_scheduler's names, and warm-up shapes for LambdaLR.

A shape is a function from the step (0, 1, ...) to a factor of each parameter group's first learning rate:
`schedule = LambdaLR(optimizer, warmup_cosine(100, 2000))`, and `schedule.step()` after each optimizer.step().
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import cos, inf, pi
from typing import Any

from .optim import Optimizer

Shape = Callable[[int], float]


class LRScheduler:
    """Base of the schedules: sets `lr` of every group to its initial one times `shape(step)`, at once and at each
    `step()`. `last_epoch` counts the steps taken.
    """

    def __init__(self, optimizer: Optimizer, shape: Shape, step: int = 0) -> None:
        self.optimizer = optimizer
        self.shape = shape
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.last_epoch = step
        self._apply()

    @property
    def base_lrs(self) -> list[float]:
        """The rate that each group began with."""
        return [group["initial_lr"] for group in self.optimizer.param_groups]

    def step(self) -> None:
        """On to the next step's rate."""
        self.last_epoch += 1
        self._apply()

    def get_last_lr(self) -> list[float]:
        """The rate of each group now."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def _apply(self) -> None:
        factor = self.shape(self.last_epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor

    def state_dict(self) -> dict[str, Any]:
        return {"step": self.last_epoch}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.last_epoch = int(state["step"])
        self._apply()


class LambdaLR(LRScheduler):
    """Times `lr_lambda(step)`: one function (a shape), or one for each parameter group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Shape | Sequence[Shape], step: int = 0) -> None:
        self.shapes = [lr_lambda] * len(optimizer.param_groups) if callable(lr_lambda) else list(lr_lambda)
        if len(self.shapes) != len(optimizer.param_groups):
            raise ValueError(f"LambdaLR: {len(self.shapes)} functions for {len(optimizer.param_groups)} groups")
        super().__init__(optimizer, self.shapes[0], step)

    def _apply(self) -> None:
        for group, shape in zip(self.optimizer.param_groups, self.shapes, strict=True):
            group["lr"] = group["initial_lr"] * shape(self.last_epoch)


class StepLR(LRScheduler):
    """Times `gamma` after every `step_size` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1) -> None:
        if step_size < 1:
            raise ValueError(f"StepLR: step_size must be at least 1, got {step_size}")
        super().__init__(optimizer, lambda step: gamma ** (step // step_size))


class MultiStepLR(LRScheduler):
    """Times `gamma` at each of the milestones."""

    def __init__(self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1) -> None:
        ordered = sorted(milestones)
        super().__init__(optimizer, lambda step: gamma ** bisect_right(ordered, step))


class ExponentialLR(LRScheduler):
    """Times `gamma` after every step."""

    def __init__(self, optimizer: Optimizer, gamma: float) -> None:
        super().__init__(optimizer, lambda step: gamma**step)


class LinearLR(LRScheduler):
    """From `start_factor` to `end_factor` in a line over `total_iters` steps, then constant."""

    def __init__(
        self, optimizer: Optimizer, start_factor: float = 1 / 3, end_factor: float = 1.0, total_iters: int = 5
    ) -> None:
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1 or total_iters < 1:
            raise ValueError(
                "LinearLR: needs 0 < start_factor <= 1, 0 <= end_factor <= 1 and total_iters >= 1, "
                f"got {start_factor}, {end_factor}, {total_iters}"
            )
        slope = (end_factor - start_factor) / total_iters
        super().__init__(optimizer, lambda step: start_factor + slope * min(step, total_iters))


class CosineAnnealingLR(LRScheduler):
    """Half a cosine from the first rate to `eta_min` at step `T_max`, and up again after it."""

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0) -> None:
        if T_max < 1:
            raise ValueError(f"CosineAnnealingLR: T_max must be at least 1, got {T_max}")
        self.eta_min = eta_min
        super().__init__(optimizer, lambda step: 0.5 * (1 + cos(pi * step / T_max)))

    def _apply(self) -> None:
        share = self.shape(self.last_epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = self.eta_min + (group["initial_lr"] - self.eta_min) * share


class OneCycleLR(LRScheduler):
    """The one-cycle policy (Smith and Topin 2018, https://arxiv.org/abs/1708.07120), stepped after every batch: up from
    max_lr / div_factor to max_lr in the first `pct_start` of the steps, then down to max_lr / div_factor /
    final_div_factor; the momentum (or beta1) runs the other way. ValueError for a step beyond the last.
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
    ) -> None:
        if total_steps is None:
            if epochs is None or steps_per_epoch is None:
                raise ValueError("OneCycleLR: give total_steps, or epochs and steps_per_epoch")
            total_steps = epochs * steps_per_epoch
        if total_steps < 1 or not 0 <= pct_start <= 1 or anneal_strategy not in ("cos", "linear"):
            raise ValueError(
                "OneCycleLR: needs total_steps >= 1, pct_start in [0, 1] and anneal_strategy 'cos' or 'linear', "
                f"got {total_steps}, {pct_start}, {anneal_strategy!r}"
            )
        groups = optimizer.param_groups
        if cycle_momentum and not all("betas" in group or "momentum" in group for group in groups):
            raise ValueError("OneCycleLR: cycle_momentum needs an optimiser with momentum or betas")
        tops = list(max_lr) if isinstance(max_lr, (list, tuple)) else [max_lr] * len(groups)
        if len(tops) != len(groups):
            raise ValueError(f"OneCycleLR: {len(tops)} values of max_lr for {len(groups)} groups")
        self.total_steps = total_steps
        self.cycle_momentum = cycle_momentum
        self._cosine = anneal_strategy == "cos"
        low, high = base_momentum, max_momentum
        rise = pct_start * total_steps - 1
        # (last step, rates as factors of max_lr at its ends, momenta at its ends)
        start, end = 1 / div_factor, 1 / div_factor / final_div_factor
        if three_phase:
            self._phases = [
                (rise, start, 1.0, high, low),
                (2 * rise, 1.0, start, low, high),
                (total_steps - 1.0, start, end, high, high),
            ]
        else:
            self._phases = [(rise, start, 1.0, high, low), (total_steps - 1.0, 1.0, end, low, high)]
        for group, top in zip(groups, tops, strict=True):
            group["initial_lr"] = top
        super().__init__(optimizer, lambda step: self._at(step)[0])

    def _at(self, step: int) -> tuple[float, float]:
        """(factor of max_lr, momentum)."""
        if step > self.total_steps:
            raise ValueError(f"OneCycleLR: step {step} of {self.total_steps}")
        before = 0.0
        for last, rate0, rate1, momentum0, momentum1 in self._phases:
            if step <= last or last == self._phases[-1][0]:
                share = (step - before) / (last - before) if last != before else 1.0
                if self._cosine:
                    share = 0.5 * (1 - cos(pi * share))
                return rate0 + (rate1 - rate0) * share, momentum0 + (momentum1 - momentum0) * share
            before = last
        raise AssertionError("no phase")

    def _apply(self) -> None:
        factor, momentum = self._at(self.last_epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = group["initial_lr"] * factor
            if self.cycle_momentum and "betas" in group:
                group["betas"] = (momentum, *group["betas"][1:])
            elif self.cycle_momentum:
                group["momentum"] = momentum


class ConstantLR(LRScheduler):
    """Times `factor` for the first `total_iters` steps."""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5) -> None:
        if not 0 <= factor <= 1:
            raise ValueError(f"ConstantLR: factor must be in 0 .. 1, got {factor}")
        super().__init__(optimizer, lambda step: factor if step < total_iters else 1.0)


class PolynomialLR(LRScheduler):
    """Times (1 - step / total_iters) ** power, to 0 at `total_iters`."""

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0) -> None:
        if total_iters < 1:
            raise ValueError(f"PolynomialLR: total_iters must be at least 1, got {total_iters}")
        super().__init__(optimizer, lambda step: (1 - min(step, total_iters) / total_iters) ** power)


class CosineAnnealingWarmRestarts(LRScheduler):
    """Half a cosine from the first rate to `eta_min` over T_0 steps, again and again, each `T_mult` times as long as
    the one before (Loshchilov and Hutter 2017, https://arxiv.org/abs/1608.03983).
    """

    def __init__(self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0) -> None:
        if T_0 < 1 or T_mult < 1:
            raise ValueError(f"CosineAnnealingWarmRestarts: T_0 and T_mult must be at least 1, got {T_0}, {T_mult}")
        self.eta_min = eta_min

        def share(step: int) -> float:
            length = T_0
            while step >= length:
                step, length = step - length, length * T_mult
            return 0.5 * (1 + cos(pi * step / length))

        super().__init__(optimizer, share)

    def _apply(self) -> None:
        share = self.shape(self.last_epoch)
        for group in self.optimizer.param_groups:
            group["lr"] = self.eta_min + (group["initial_lr"] - self.eta_min) * share


class SequentialLR(LRScheduler):
    """One schedule after the other: the next begins, at its own step 0, at each of the milestones."""

    def __init__(self, optimizer: Optimizer, schedulers: Sequence[LRScheduler], milestones: Sequence[int]) -> None:
        if len(milestones) != len(schedulers) - 1 or any(s.optimizer is not optimizer for s in schedulers):
            raise ValueError(
                f"SequentialLR: {len(schedulers)} schedules of one optimiser need {len(schedulers) - 1} milestones, "
                f"got {len(milestones)}"
            )
        self.schedulers, self.milestones = list(schedulers), list(milestones)
        super().__init__(optimizer, lambda step: 1.0)

    def _apply(self) -> None:
        which = bisect_right(self.milestones, self.last_epoch)
        current = self.schedulers[which]
        current.last_epoch = self.last_epoch - (self.milestones[which - 1] if which else 0)
        current._apply()


class ReduceLROnPlateau:
    """Times `factor` when `step(metric)` has not seen a better value for more than `patience` steps."""

    def __init__(
        self,
        optimizer: Optimizer,
        mode: str = "min",
        factor: float = 0.1,
        patience: int = 10,
        threshold: float = 1e-4,
        threshold_mode: str = "rel",
        cooldown: int = 0,
        min_lr: float | Sequence[float] = 0.0,
        eps: float = 1e-8,
    ) -> None:
        if not 0 <= factor < 1:
            raise ValueError(f"ReduceLROnPlateau: factor must be in [0, 1), got {factor}")
        if mode not in ("min", "max") or threshold_mode not in ("rel", "abs"):
            raise ValueError(f"ReduceLROnPlateau: unknown mode {mode!r} or threshold_mode {threshold_mode!r}")
        count = len(optimizer.param_groups)
        self.min_lrs = list(min_lr) if isinstance(min_lr, (list, tuple)) else [min_lr] * count
        if len(self.min_lrs) != count:
            raise ValueError(f"ReduceLROnPlateau: {len(self.min_lrs)} values of min_lr for {count} groups")
        self.optimizer = optimizer
        self.mode, self.factor, self.patience, self.cooldown, self.eps = mode, factor, patience, cooldown, eps
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.best = inf if mode == "min" else -inf
        self.num_bad_epochs = 0
        self.cooldown_counter = 0
        self.last_epoch = 0

    def step(self, metrics: Any) -> None:
        """Takes the metric (a number or a tensor of one) of the step that is over."""
        value = float(metrics)
        self.last_epoch += 1
        if self._is_better(value):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.optimizer.param_groups, self.min_lrs, strict=True):
                rate = max(group["lr"] * self.factor, least)
                if group["lr"] - rate > self.eps:
                    group["lr"] = rate
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def _is_better(self, value: float) -> bool:
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "rel":
            return sign * value < sign * self.best * (1 - sign * self.threshold)
        return sign * value < sign * self.best - self.threshold

    def get_last_lr(self) -> list[float]:
        """The rate of each group now."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in ("best", "num_bad_epochs", "cooldown_counter", "last_epoch")}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name in self.state_dict():
            setattr(self, name, state[name])


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
