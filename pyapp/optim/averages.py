"""Averages of a model's weights over training: moving averages, and those of torch.optim.swa_utils."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from ..engine import no_grad
from ..engine.dtype import int64
from ..engine.launch import run_at_replays, stop_capture
from ..engine.ops import tensor
from ..engine.tensor import Tensor
from ..engine.user_errors import describe
from ..nn.layers.channel_normalization import BatchNorm
from ..nn.module import Module
from .optimizer import update_mean
from .schedules import LRScheduler, per_group

__all__ = [
    "AveragedModel", "ExponentialMovingAverage", "SWALR", "get_ema_avg_fn", "get_ema_multi_avg_fn", "get_swa_avg_fn",
    "get_swa_multi_avg_fn", "update_bn",
]  # fmt: skip

Average = Callable[[Tensor, Tensor, Any], Tensor]


class ExponentialMovingAverage:
    """Averages of a module's trainable parameters: after `update()` each is decay * average + (1 - decay) * parameter.

    With `warmup` the decay at update n is min(decay, (1 + n) / (10 + n)), so that the initial values soon lose weight.
    Inside `with average.applied():` the module has the averages; afterwards it has its values again.
    """

    def __init__(self, module: Module, decay: float = 0.999, warmup: bool = False) -> None:
        if not 0 <= decay < 1:
            raise ValueError(f"ExponentialMovingAverage: decay must be in [0, 1), got {decay}")
        self.decay = decay
        self.warmup = warmup
        self.count = 0
        self._parameters = {name: p for name, p in module.named_parameters() if p.requires_grad}
        self.averages = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}

    def update(self) -> None:
        """Updates the averages; call it after each step of the optimiser."""
        if self.warmup:
            stop_capture("ExponentialMovingAverage with warmup computes its decay in Python")
        run_at_replays(self._count)
        decay = min(self.decay, (1 + self.count) / (10 + self.count)) if self.warmup else self.decay
        with no_grad():
            for name, parameter in self._parameters.items():
                update_mean(self.averages[name], parameter.detach(), 1 - decay)

    def _count(self) -> None:
        self.count += 1

    def copy_to(self) -> None:
        """Writes the averages into the module."""
        with no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(self.averages[name])

    @contextmanager
    def applied(self) -> Iterator[None]:
        """A context manager in which the module has the averages."""
        own = {name: parameter.detach().clone() for name, parameter in self._parameters.items()}
        self.copy_to()
        try:
            yield
        finally:
            with no_grad():
                for name, parameter in self._parameters.items():
                    parameter.copy_(own[name])

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count, "decay": self.decay, "averages": dict(self.averages)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a state of state_dict; tensors are copied. ValueError if names or shapes differ."""
        found = state["averages"]
        if found.keys() != self.averages.keys():
            raise ValueError(f"load_state_dict: averages of {sorted(found)}, the module has {sorted(self.averages)}")
        for name, own in self.averages.items():
            if found[name].shape != own.shape:
                raise ValueError(f"load_state_dict: {name} is {describe(found[name])}, the module's {describe(own)}")
        self.count, self.decay = int(state["count"]), float(state["decay"])
        self.averages = {name: found[name].detach().clone().to(own.device) for name, own in self.averages.items()}


def get_ema_avg_fn(decay: float = 0.999) -> Average:
    """decay times the average plus 1 - decay times the new value."""
    if not 0 <= decay <= 1:
        raise ValueError(f"get_ema_avg_fn: the decay lies between 0 and 1, not {decay}")
    return partial(_moved, decay)


def _moved(decay: float, average: Tensor, value: Tensor, _: Any) -> Tensor:
    return average * decay + value * (1 - decay)


def get_swa_avg_fn() -> Average:
    """The mean of all values."""
    return _mean


def _mean(average: Tensor, value: Tensor, count: Any) -> Tensor:
    return average + (value - average) / (count + 1)


def _of_many(average: Average) -> Callable[[list[Tensor], list[Tensor], Any], None]:
    return partial(_update, average)  # which pickle takes


def _update(average: Average, averages: list[Tensor], values: list[Tensor], count: Any) -> None:
    moves = isinstance(average, partial) and average.func is _moved
    for mine, its in zip(averages, values, strict=True):
        if moves and mine.dtype.is_floating_point and mine.dtype is its.dtype:
            mine.lerp_(its, 1 - average.args[0])  # type: ignore[attr-defined]  # in one pass
        else:
            mine.copy_(average(mine, its, count))


def get_ema_multi_avg_fn(decay: float = 0.999) -> Any:
    """get_ema_avg_fn for lists of tensors, in place."""
    return _of_many(get_ema_avg_fn(decay))


def get_swa_multi_avg_fn() -> Any:
    """get_swa_avg_fn for lists of tensors, in place."""
    return _of_many(get_swa_avg_fn())


class AveragedModel(Module):
    """A copy of a model, `module`, whose parameters are averages of the model's parameters at each update_parameters(),
    by default their mean. Buffers are averaged with `use_buffers`, else copied.
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
        """Updates the averages with the model's present parameters."""
        mine, its = list(self.module.parameters()), [p.detach() for p in model.parameters()]
        others = list(zip(self.module.buffers(), model.buffers(), strict=True))
        if self.use_buffers:
            mine += [a for a, _ in others]
            its += [b for _, b in others]
            others = []
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
    """Recomputes the running statistics of batch norms over the inputs of a loader (the first element of
    each batch).
    """
    norms = [m for m in model.modules() if isinstance(m, BatchNorm)]
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
    """Changes each group's rate to `swa_lr` in `anneal_epochs` steps, by a cosine or linearly; then constant."""

    kept = ("_anneal_strategy",)

    def __init__(
        self, optimizer: Any, swa_lr: Any, anneal_epochs: int = 10, anneal_strategy: str = "cos", last_epoch: int = -1
    ) -> None:
        if anneal_strategy not in ("cos", "linear") or not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"SWALR: cos or linear in at least 0 steps, not {anneal_strategy!r} in {anneal_epochs}")
        self.swa_lrs = per_group("SWALR", optimizer, swa_lr, "values of swa_lr")
        self.anneal_epochs, self._anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _part(self, step: int) -> float:
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return (1 - math.cos(math.pi * t)) / 2 if self._anneal_strategy == "cos" else t

    def get_lr(self) -> list[float]:
        """Each group's next rate. The initial rate is computed back from the present rate and the progress."""
        step = max(1, self.last_epoch) if not self.anneal_epochs else self.last_epoch
        before, now = self._part(int(step) - 1), self._part(int(step))
        rates = []
        for group, goal in zip(self.optimizer.param_groups, self.swa_lrs, strict=True):
            start = goal if before == 1 else (float(group["lr"]) - before * goal) / (1 - before)
            rates.append(goal * now + start * (1 - now))
        return rates
