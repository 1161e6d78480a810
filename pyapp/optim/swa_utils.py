"""Averages of a model's weights over its training, by torch.optim.swa_utils' names."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any

from ..engine import no_grad
from ..engine.dtype import int64
from ..engine.ops import tensor
from ..engine.tensor import Tensor
from ..nn.lr_base import LRScheduler
from ..nn.module import Module
from ..nn.normalization import _BatchNorm

Average = Callable[[Tensor, Tensor, Any], Tensor]


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """decay times the average plus 1 - decay times the new value."""
    if not 0 <= decay <= 1:
        raise ValueError(f"get_ema_avg_fn: the decay lies between 0 and 1, not {decay}")
    return lambda average, value, _: average * decay + value * (1 - decay)


def get_swa_avg_fn() -> Average:
    """The mean of all values."""
    return lambda average, value, count: average + (value - average) / (count + 1)


def _of_many(average: Average) -> Callable[[list[Tensor], list[Tensor], Any], None]:
    def update(averages: list[Tensor], values: list[Tensor], count: Any) -> None:
        for mine, its in zip(averages, values, strict=True):
            mine.copy_(average(mine, its, count))

    return update


def get_ema_multi_avg_fn(decay: float = 0.999) -> Any:
    """get_ema_avg_fn for lists of tensors, in place."""
    return _of_many(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Any:
    """get_swa_avg_fn for lists of tensors, in place."""
    return _of_many(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of a model, `module`, whose parameters are averages of the model's at each update_parameters(); by default
    their mean. Buffers are averaged with `use_buffers`, else copied.
    """

    def __init__(
        self, model: Module, device: Any = None, avg_fn: Average | None = None, multi_avg_fn: Any = None,
        use_buffers: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("AveragedModel: give avg_fn or multi_avg_fn, not both")
        self.module = copy.deepcopy(model)
        self.register_buffer("n_averaged", tensor(0, dtype=int64))
        self.use_buffers = use_buffers
        self._update = multi_avg_fn or _of_many(avg_fn or get_swa_avg_fn())

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def update_parameters(self, model: Module) -> None:
        """Takes the model's parameters as they are now into the averages."""
        mine, its = list(self.module.parameters()), [p.detach() for p in model.parameters()]
        others = list(zip(self.module.buffers(), model.buffers(), strict=True))
        if self.use_buffers:
            mine += [a for a, b in others if a.dtype.is_floating_point]
            its += [b for a, b in others if a.dtype.is_floating_point]
            others = [(a, b) for a, b in others if not a.dtype.is_floating_point]
        with no_grad():
            if int(self.n_averaged):
                self._update(mine, its, self.n_averaged)
            else:
                for a, b in zip(mine, its, strict=True):
                    a.copy_(b)
            for a, b in others:
                a.copy_(b)
            self.n_averaged.add_(1)


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Computes the running statistics of batch norms anew, over the inputs of a loader (the first of each batch)."""
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    if not norms:
        return
    momenta, training = [m.momentum for m in norms], model.training
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
    model.train()
    with no_grad():
        for batch in loader:
            model(batch[0] if isinstance(batch, (list, tuple)) else batch)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    model.train(training)


class SWALR(LRScheduler):
    """From each group's rate to `swa_lr` in `anneal_epochs` steps, by a cosine or a line, and then constant."""

    def __init__(
        self, optimizer: Any, swa_lr: Any, anneal_epochs: int = 10, anneal_strategy: str = "cos", last_epoch: int = -1
    ) -> None:
        if anneal_strategy not in ("cos", "linear") or anneal_epochs < 0:
            raise ValueError(f"SWALR: cos or linear in at least 0 steps, not {anneal_strategy!r} in {anneal_epochs}")
        rates = swa_lr if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(optimizer.param_groups)
        self.swa_lrs, self.anneal_epochs, self.anneal_strategy = list(rates), anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _part(self, step: int) -> float:
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * t)) / 2 if self.anneal_strategy == "cos" else t

    def get_lr(self) -> list[float]:
        """Each group's rate now, a step nearer: the rate at the start follows from how near it is."""
        step = max(1, self.last_epoch) if not self.anneal_epochs else self.last_epoch
        before, now = self._part(int(step) - 1), self._part(int(step))
        rates = []
        for group, goal in zip(self.optimizer.param_groups, self.swa_lrs, strict=True):
            start = goal if before == 1 else (group["lr"] - before * goal) / (1 - before)
            rates.append(goal * now + start * (1 - now))
        return rates


__all__ = [
    "AveragedModel", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn", "get_swa_multi_avg_fn",
    "update_bn",
]  # fmt: skip
