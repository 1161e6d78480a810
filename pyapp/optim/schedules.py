"""Learning-rate schedules of the step, and ReduceLROnPlateau, which follows a metric."""

from __future__ import annotations

import warnings
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import cos, inf, pi, prod
from typing import Any

from ..engine import Tensor
from ..engine.launch import run_at_replays, stop_capture
from .optimizer import Optimizer

__all__ = [
    "ChainedScheduler", "ConstantLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "ExponentialLR",
    "LRScheduler", "LambdaLR", "LinearLR", "MultiStepLR", "MultiplicativeLR", "PolynomialLR", "ReduceLROnPlateau",
    "SequentialLR", "Shape", "StepLR",
]  # fmt: skip

Shape = Callable[[Any], float]


class LRScheduler:
    """Base of the schedules: sets `lr` of every group to the result of `get_lr()`, at once and at each `step()`.
    `last_epoch` counts the steps taken; as an argument, it is the step after which a schedule continues, with the rate
    that the optimiser has. User-defined schedules define get_lr, or pass `shape`, the factor of each group's first
    rate. Settings that an object keeps under the names of its arguments are a part of its state, and may be changed.

    Where another schedule of the optimiser, or the user, has changed a rate, schedules whose factors can be multiplied
    change that rate by their own step (`moved`), as in torch. The others set theirs.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1, *, shape: Shape | None = None) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(self).__name__}: takes an optimiser first, got {type(optimizer).__name__}")
        self.optimizer = optimizer
        if optimizer._opt_called is None:
            optimizer._opt_called = False
        self.shape = shape
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch >= 0 and "initial_lr" not in group:
                raise KeyError(
                    f"{type(self).__name__}: group {i} of the optimiser has no 'initial_lr', which last_epoch "
                    f"{last_epoch} needs: load the optimiser's state first"
                )
            group.setdefault("initial_lr", copied_rate(group["lr"]))
        self.base_lrs = [float(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch: float = last_epoch + 1
        resumed = last_epoch >= 0 and self.goes_on
        self._set(self._present() if resumed else self.moved(self._present(), last_epoch))

    def step(self, epoch: float | None = None) -> None:
        """Sets the rate of the next step, or of the given step. Before each replay of a Graph it does so again. Warns
        where the first comes before the optimiser's first step, whose rate it then skips.
        """
        if not self._stepped:
            self._stepped = True
            if self.optimizer._opt_called is False:
                warnings.warn(
                    f"Detected call of `lr_scheduler.step()` before `optimizer.step()`: {type(self).__name__} skips "
                    "the first rate of the schedule; call optimizer.step() first",
                    stacklevel=2,
                )
        run_at_replays(lambda: self._step(epoch))

    def _step(self, epoch: float | None) -> None:
        before, present = self.last_epoch, self._present()
        self.last_epoch = before + 1 if epoch is None else epoch
        changed = epoch is None and present != self._planned
        self._set(self.moved(present, before) if changed else self.get_lr())

    def factors(self, step: float) -> list[float] | None:
        """What each group's rate (beyond `floor`) is multiplied by at a step; None: the rates do not follow from it."""
        factor = self.common_factor(step)
        return None if factor is None else [factor] * len(self.base_lrs)

    def common_factor(self, step: float) -> float | None:
        """The same, of schedules that treat all groups alike."""
        return None if self.shape is None else self.shape(step)

    @property
    def _step_count(self) -> int:
        """How often the rate was set, by torch's name."""
        return int(self.last_epoch) + 1

    _stepped = False  # whether step() was called, in a state that was loaded also before
    kept: tuple[str, ...] = ()  # what a state has beside the arguments that the object keeps
    floor = 0.0
    goes_on = False  # whether a schedule that is made to continue begins with the present rate, as it is

    def moved(self, rates: Sequence[float], before: float) -> list[float]:
        """The rates at `last_epoch`, where `rates` were those at the step `before` (-1: before the first)."""
        found, now = self.get_lr(), self.factors(self.last_epoch)
        then = [1.0] * len(found) if before < 0 else self.factors(before)
        if now is None or then is None:
            return found
        return [
            self.floor + (rate - self.floor) * (factor / old) if old else own
            for rate, own, factor, old in zip(rates, found, now, then, strict=True)
        ]

    def get_lr(self) -> list[float]:
        """The rate of each group at `last_epoch`."""
        factor = self.common_factor(self.last_epoch)
        if factor is None:
            raise NotImplementedError(f"{type(self).__name__} has no get_lr()")
        return [base * factor for base in self.base_lrs]

    def get_last_lr(self) -> list[float]:
        """The rate of each group as it was set last."""
        return list(self._last_lr)

    def _present(self) -> list[float]:
        return [float(group["lr"]) for group in self.optimizer.param_groups]

    def _set(self, rates: list[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates, strict=True):
            set_rate(group, rate)
        self._last_lr = list(rates)
        multiplied = type(self).moved is not LRScheduler.moved or self.factors(self.last_epoch) is not None
        self._planned = self.get_lr() if multiplied else self._last_lr  # what they are if nobody changes them

    def state_dict(self) -> dict[str, Any]:
        """The settings, the step and the rates, by torch's names."""
        return {name: getattr(self, name) for name in self._settings()} | {
            "last_epoch": self.last_epoch, "base_lrs": list(self.base_lrs), "_last_lr": self.get_last_lr(),
            "_step_count": self._step_count, "_is_initial": False, "_get_lr_called_within_step": False,
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a state of state_dict, or of torch, and sets the rates that it has."""
        for name in self._settings():
            setattr(self, name, state.get(name, getattr(self, name)))
        own = state if {"last_epoch", "step"} & {*state} else state["_schedulers"][0]  # torch's ChainedScheduler
        self.last_epoch = own["step"] if "step" in own else own["last_epoch"]
        self.base_lrs = [float(rate) for rate in state.get("base_lrs", self.base_lrs)]
        self._stepped |= self.last_epoch > 0
        planned = self.get_lr()  # of some schedules also the momentum
        self._set([float(rate) for rate in state["_last_lr"]] if "_last_lr" in state else planned)

    def _settings(self) -> list[str]:
        """The arguments that the object keeps by their names."""
        code = type(self).__init__.__code__
        given = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        found = [name for name in given if name not in ("optimizer", "last_epoch", "shape") and name in vars(self)]
        return [*found, *self.kept]


def copied_rate(rate: Any) -> Any:
    """A rate, which a schedule does not change: of a tensor, in which schedules write, a copy."""
    return rate.detach().clone() if isinstance(rate, Tensor) else rate


def set_rate(group: dict[str, Any], rate: float) -> None:
    """Sets the rate of a group; in the tensor that it may be, as in torch."""
    if isinstance(group["lr"], Tensor):
        group["lr"].fill_(rate)
    else:
        group["lr"] = rate


class _Shaped(LRScheduler):
    """Base of the schedules of functions. A state has what functions that are objects hold, None for plain ones."""

    lr_lambdas: list[Shape]

    def state_dict(self) -> dict[str, Any]:
        plain = type(per_group)
        return super().state_dict() | {
            "lr_lambdas": [
                None if isinstance(shape, plain) else dict(getattr(shape, "__dict__", ())) for shape in self.lr_lambdas
            ]
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for shape, held in zip(self.lr_lambdas, state.get("lr_lambdas", ()), strict=False):
            if held:
                vars(shape).update(held)
        super().load_state_dict(state)


def per_group(name: str, optimizer: Optimizer, value: Any, what: str) -> list[Any]:
    """One value for each parameter group, from a single value or a sequence."""
    count = len(optimizer.param_groups)
    every = list(value) if isinstance(value, (list, tuple)) else [value] * count
    if len(every) != count:
        raise ValueError(f"{name}: {len(every)} {what} for {count} groups")
    return every


class LambdaLR(_Shaped):
    """Multiplies the first rate by `lr_lambda(step)`: one function, or one for each parameter group."""

    def __init__(self, optimizer: Optimizer, lr_lambda: Shape | Sequence[Shape], last_epoch: int = -1) -> None:
        self.lr_lambdas = per_group("LambdaLR", optimizer, lr_lambda, "functions")
        super().__init__(optimizer, last_epoch)

    def get_lr(self) -> list[float]:
        return [base * shape(self.last_epoch) for base, shape in zip(self.base_lrs, self.lr_lambdas, strict=True)]


class MultiplicativeLR(_Shaped):
    """Multiplies the rate by `lr_lambda(step)` at each step after the first: one function, or one for each group."""

    goes_on = True

    def __init__(self, optimizer: Optimizer, lr_lambda: Shape | Sequence[Shape], last_epoch: int = -1) -> None:
        self.lr_lambdas = per_group("MultiplicativeLR", optimizer, lr_lambda, "functions")
        super().__init__(optimizer, last_epoch)

    def factors(self, step: float) -> list[float]:
        steps = range(1, int(step) + 1)
        return [prod(factor(at) for at in steps) for factor in self.lr_lambdas]

    def get_lr(self) -> list[float]:
        return [base * factor for base, factor in zip(self.base_lrs, self.factors(self.last_epoch), strict=True)]


class StepLR(LRScheduler):
    """Multiplies the rate by `gamma` after every `step_size` steps."""

    def __init__(self, optimizer: Optimizer, step_size: int, gamma: float = 0.1, last_epoch: int = -1) -> None:
        if step_size < 1:
            raise ValueError(f"StepLR: step_size must be at least 1, got {step_size}")
        self.step_size, self.gamma = step_size, gamma
        super().__init__(optimizer, last_epoch)

    def common_factor(self, step: float) -> float:
        return float(self.gamma ** (step // self.step_size))


class MultiStepLR(LRScheduler):
    """Multiplies the rate by `gamma` at each of the milestones."""

    def __init__(
        self, optimizer: Optimizer, milestones: Iterable[int], gamma: float = 0.1, last_epoch: int = -1
    ) -> None:
        self.milestones, self.gamma = Counter(milestones), gamma
        super().__init__(optimizer, last_epoch)

    def common_factor(self, step: float) -> float:
        return float(self.gamma ** bisect_right(sorted(self.milestones.elements()), step))


class ExponentialLR(LRScheduler):
    """Multiplies the rate by `gamma` after every step."""

    goes_on = True

    def __init__(self, optimizer: Optimizer, gamma: float, last_epoch: int = -1) -> None:
        self.gamma = gamma
        super().__init__(optimizer, last_epoch)

    def common_factor(self, step: float) -> float:
        return float(self.gamma**step)


class LinearLR(LRScheduler):
    """Multiplies the first rate by a factor that changes linearly from `start_factor` to `end_factor` over
    `total_iters` steps, then stays constant.
    """

    goes_on = True

    def __init__(
        self,
        optimizer: Optimizer,
        start_factor: float = 1 / 3,
        end_factor: float = 1.0,
        total_iters: int = 5,
        last_epoch: int = -1,
    ) -> None:
        if not 0 < start_factor <= 1 or not 0 <= end_factor <= 1 or total_iters < 1:
            raise ValueError(
                "LinearLR: needs 0 < start_factor <= 1, 0 <= end_factor <= 1 and total_iters >= 1, "
                f"got {start_factor}, {end_factor}, {total_iters}"
            )
        self.start_factor, self.end_factor, self.total_iters = start_factor, end_factor, total_iters
        super().__init__(optimizer, last_epoch)

    def common_factor(self, step: float) -> float:
        slope = (self.end_factor - self.start_factor) / self.total_iters
        return self.start_factor + slope * min(step, self.total_iters)


class _Annealing(LRScheduler):
    """Base of schedules between `eta_min` and the first rate."""

    eta_min: float

    def share(self, step: float) -> float:
        """The fraction of the difference."""
        raise NotImplementedError

    @property
    def floor(self) -> float:  # type: ignore[override]
        return self.eta_min

    def get_lr(self) -> list[float]:
        share = self.share(self.last_epoch)
        return [self.eta_min + (base - self.eta_min) * share for base in self.base_lrs]


class CosineAnnealingLR(_Annealing):
    """Half a cosine from the first rate to `eta_min` at step `T_max`, then up again."""

    goes_on = True

    def __init__(self, optimizer: Optimizer, T_max: int, eta_min: float = 0.0, last_epoch: int = -1) -> None:
        if T_max < 1:
            raise ValueError(f"CosineAnnealingLR: T_max must be at least 1, got {T_max}")
        self.T_max, self.eta_min = T_max, eta_min
        super().__init__(optimizer, last_epoch)

    def share(self, step: float) -> float:
        return 0.5 * (1 + cos(pi * step / self.T_max))

    common_factor = share


class ConstantLR(LRScheduler):
    """Multiplies the rate by `factor` for the first `total_iters` steps."""

    def __init__(self, optimizer: Optimizer, factor: float = 1 / 3, total_iters: int = 5, last_epoch: int = -1) -> None:
        if not 0 <= factor <= 1:
            raise ValueError(f"ConstantLR: factor must be in 0 .. 1, got {factor}")
        self.factor, self.total_iters = factor, total_iters
        super().__init__(optimizer, last_epoch)

    def common_factor(self, step: float) -> float:
        return self.factor if step < self.total_iters else 1.0


class PolynomialLR(LRScheduler):
    """Multiplies the first rate by (1 - step / total_iters) ** power, which is 0 at `total_iters`."""

    goes_on = True

    def __init__(self, optimizer: Optimizer, total_iters: int = 5, power: float = 1.0, last_epoch: int = -1) -> None:
        if total_iters < 1:
            raise ValueError(f"PolynomialLR: total_iters must be at least 1, got {total_iters}")
        self.total_iters, self.power = total_iters, power
        super().__init__(optimizer, last_epoch)

    def common_factor(self, step: float) -> float:
        return float((1 - min(step, self.total_iters) / self.total_iters) ** self.power)


class CosineAnnealingWarmRestarts(_Annealing):
    """Half a cosine from the first rate to `eta_min` over T_0 steps, repeatedly, each `T_mult` times as long as the one
    before (Loshchilov and Hutter 2017, https://arxiv.org/abs/1608.03983).
    """

    def __init__(
        self, optimizer: Optimizer, T_0: int, T_mult: int = 1, eta_min: float = 0.0, last_epoch: int = -1
    ) -> None:
        if T_0 < 1 or T_mult < 1:
            raise ValueError(f"CosineAnnealingWarmRestarts: T_0 and T_mult must be at least 1, got {T_0}, {T_mult}")
        self.T_0, self.T_mult, self.eta_min = T_0, T_mult, eta_min
        self._stepped = True  # its steps may be fractions of an epoch: torch does not warn of their order
        super().__init__(optimizer, last_epoch)

    def share(self, step: float) -> float:
        done, length = self._place(step)
        return 0.5 * (1 + cos(pi * done / length))

    def _place(self, step: float) -> tuple[float, int]:
        """(steps since the last restart, steps until the next one after it)."""
        length = self.T_0
        while step >= length:
            step, length = step - length, length * self.T_mult
        return step, length

    @property
    def T_cur(self) -> float:
        """Steps since the last restart."""
        return self._place(self.last_epoch)[0]

    @property
    def T_i(self) -> int:
        """Steps from the last restart to the next one."""
        return self._place(self.last_epoch)[1]

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"T_cur": self.T_cur, "T_i": self.T_i}


class SequentialLR(LRScheduler):
    """Several schedules in sequence: the next one starts, at its step 0, at each of the milestones."""

    def __init__(
        self,
        optimizer: Optimizer,
        schedulers: Sequence[LRScheduler],
        milestones: Sequence[int],
        last_epoch: int = -1,
    ) -> None:
        if any(isinstance(schedule, ReduceLROnPlateau) for schedule in schedulers):
            raise ValueError("SequentialLR: ReduceLROnPlateau follows a metric, so no other schedule calls it")
        if len(milestones) != len(schedulers) - 1 or any(s.optimizer is not optimizer for s in schedulers):
            raise ValueError(
                f"SequentialLR: {len(schedulers)} schedules of one optimiser need {len(schedulers) - 1} milestones, "
                f"got {len(milestones)}"
            )
        self._schedulers, self._milestones = list(schedulers), list(milestones)
        if last_epoch < 0:
            for group in optimizer.param_groups:  # the schedules were made before, each with its first rate
                set_rate(group, float(group["initial_lr"]))
        super().__init__(optimizer, last_epoch)

    def _current(self) -> tuple[LRScheduler, int]:
        """The schedule of `last_epoch`, set to its step, and where it began."""
        which = bisect_right(self._milestones, self.last_epoch)
        start = self._milestones[which - 1] if which else 0
        self._schedulers[which].last_epoch = self.last_epoch - start
        return self._schedulers[which], start

    def get_lr(self) -> list[float]:
        return self._current()[0].get_lr()

    def _set(self, rates: list[float]) -> None:
        super()._set(rates)
        self._current()[0]._last_lr = self.get_last_lr()

    def moved(self, rates: Sequence[float], before: float) -> list[float]:
        current, start = self._current()
        return current.get_lr() if 0 < start == self.last_epoch else current.moved(rates, before - start)

    def state_dict(self) -> dict[str, Any]:
        own = {"_milestones": list(self._milestones)}
        return super().state_dict() | own | {"_schedulers": [schedule.state_dict() for schedule in self._schedulers]}


class ChainedScheduler(LRScheduler):
    """Several schedules of one optimiser at once: their factors are multiplied."""

    def __init__(self, schedulers: Sequence[LRScheduler], optimizer: Optimizer | None = None) -> None:
        self._schedulers = list(schedulers)
        if not self._schedulers or any(s.optimizer is not (optimizer or s.optimizer) for s in self._schedulers):
            raise ValueError("ChainedScheduler: takes at least one schedule, all of one optimiser")
        found = self._schedulers[0].optimizer
        if self._schedulers[0].last_epoch == 0:
            for group in found.param_groups:  # the schedules were made before, each with its first rate
                set_rate(group, float(group["initial_lr"]))
        super().__init__(found, int(self._schedulers[0].last_epoch) - 1)

    def moved(self, rates: Sequence[float], before: float) -> list[float]:
        found = list(rates)
        for schedule in self._schedulers:
            schedule.last_epoch = self.last_epoch
            found = schedule._last_lr = schedule.moved(found, before)
        return found

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"_schedulers": [schedule.state_dict() for schedule in self._schedulers]}

    def get_lr(self) -> list[float]:
        rates = list(self.base_lrs)
        for schedule in self._schedulers:
            schedule.last_epoch = self.last_epoch
            every = zip(rates, schedule.get_lr(), schedule.base_lrs, strict=True)
            rates = [rate * found / base if base else found for rate, found, base in every]
        return rates

    def _step(self, epoch: float | None) -> None:
        before, present = self.last_epoch, self._present()
        super()._step(epoch)
        self.moved(present, before)  # so that each tells its rate, as in torch


class ReduceLROnPlateau(LRScheduler):
    """Multiplies the rate by `factor` if the metric passed to `step` has not improved for more than
    `patience` steps.
    """

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
        self.min_lrs = per_group("ReduceLROnPlateau", optimizer, min_lr, "values of min_lr")
        self.default_min_lr = None if isinstance(min_lr, (list, tuple)) else min_lr  # of groups that come later
        self.optimizer = optimizer
        self.mode, self.factor, self.patience, self.cooldown, self.eps = mode, factor, patience, cooldown, eps
        self.threshold, self.threshold_mode = threshold, threshold_mode
        self.best = inf if mode == "min" else -inf
        self.num_bad_epochs = 0
        self.cooldown_counter = 0
        self.last_epoch = 0

    @property
    def in_cooldown(self) -> bool:
        return self.cooldown_counter > 0

    def step(self, metrics: Any, epoch: int | None = None) -> None:  # type: ignore[override]
        """Takes the metric (a number or a tensor of one element) of the last step, or of step `epoch`. RuntimeError for
        a group that was added to the optimiser and has no value among those of `min_lr`.
        """
        stop_capture("ReduceLROnPlateau reads its metric")
        value = float(metrics)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        if self._is_better(value):
            self.best, self.num_bad_epochs = value, 0
        else:
            self.num_bad_epochs += 1
        if self.cooldown_counter > 0:
            self.cooldown_counter -= 1
            self.num_bad_epochs = 0
        if self.num_bad_epochs > self.patience:
            for group, least in zip(self.optimizer.param_groups, self._least(), strict=True):
                rate = max(float(group["lr"]) * self.factor, least)
                if float(group["lr"]) - rate > self.eps:
                    set_rate(group, rate)
            self.cooldown_counter, self.num_bad_epochs = self.cooldown, 0

    def _least(self) -> list[float]:
        missing = len(self.optimizer.param_groups) - len(self.min_lrs)
        if missing and self.default_min_lr is None:
            raise RuntimeError(
                f"ReduceLROnPlateau: {len(self.min_lrs)} values of min_lr for {len(self.optimizer.param_groups)} "
                "groups: append one to min_lrs for each group that is added"
            )
        return [*self.min_lrs, *[self.default_min_lr] * missing]

    def _is_better(self, value: float) -> bool:
        sign = 1 if self.mode == "min" else -1
        if self.threshold_mode == "rel":
            return sign * value < sign * self.best * (1 - sign * self.threshold)
        return sign * value < sign * self.best - self.threshold

    def get_last_lr(self) -> list[float]:
        """The present rate of each group."""
        return self._present()

    def state_dict(self) -> dict[str, Any]:
        """Settings and what has been counted, by torch's names."""
        return {name: value for name, value in vars(self).items() if name != "optimizer"} | {
            "_last_lr": self.get_last_lr(), "mode_worse": inf if self.mode == "min" else -inf
        }  # fmt: skip

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a state of state_dict, or of torch; what is missing there stays."""
        for name in vars(self):
            if name != "optimizer" and name in state:
                setattr(self, name, state[name])
