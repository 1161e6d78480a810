"""What all learning-rate schedules share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .optim import Optimizer

Shape = Callable[[Any], float]


class LRScheduler:
    """Base of the schedules: sets `lr` of every group to what `get_lr()` says, at once and at each `step()`.
    `last_epoch` counts the steps taken; given, it is the step after which a schedule goes on. Schedules of your own
    define get_lr, or give `shape`, of which the first rates are multiples.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1, *, shape: Shape | None = None) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(self).__name__}: takes an optimiser first, got {type(optimizer).__name__}")
        self.optimizer = optimizer
        self.shape = shape
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self.base_lrs = [group["initial_lr"] for group in optimizer.param_groups]
        self.last_epoch: float = last_epoch + 1
        self._apply()

    def step(self, epoch: float | None = None) -> None:
        """On to the next step's rate, or to that of a step of your choice."""
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        self._apply()

    def get_lr(self) -> list[float]:
        """The rate of each group at `last_epoch`."""
        if self.shape is None:
            raise NotImplementedError(f"{type(self).__name__} has no get_lr()")
        factor = self.shape(self.last_epoch)
        return [base * factor for base in self.base_lrs]

    def get_last_lr(self) -> list[float]:
        """The rate of each group now."""
        return [group["lr"] for group in self.optimizer.param_groups]

    def _apply(self) -> None:
        for group, rate in zip(self.optimizer.param_groups, self.get_lr(), strict=True):
            group["lr"] = rate

    def state_dict(self) -> dict[str, Any]:
        return {"step": self.last_epoch}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes what state_dict gave, or torch's."""
        self.last_epoch = state["step"] if "step" in state else state["last_epoch"]
        self._apply()


def per_group(name: str, optimizer: Optimizer, value: Any, what: str) -> list[Any]:
    """One value for each parameter group, from one or from as many."""
    count = len(optimizer.param_groups)
    every = list(value) if isinstance(value, (list, tuple)) else [value] * count
    if len(every) != count:
        raise ValueError(f"{name}: {len(every)} {what} for {count} groups")
    return every
