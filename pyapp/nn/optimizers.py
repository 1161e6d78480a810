"""More optimisers (Adam, RMSprop, Adagrad, Lion), clipping by value, and moving averages of parameters."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..engine import Tensor, no_grad
from ..engine.lazy import np
from ..engine.op import describe
from ..engine.ops import full, zeros
from .module import Module
from .optim import AdamW, Group, Optimizer


def _check_range(optimizer: Optimizer, group: Group, *names: str) -> None:
    for name in names:
        values = group[name] if isinstance(group[name], (tuple, list)) else (group[name],)
        if not all(0 <= value < 1 for value in values):
            raise ValueError(f"{type(optimizer).__name__}: {name} must be in [0, 1), got {group[name]}")


def _decayed(group: Group, values: Any, change: Any) -> Any:
    """The gradient with L2 weight decay."""
    return change + np.float32(group["weight_decay"]) * values if group["weight_decay"] else change


class Adam(AdamW):
    """Kingma and Ba 2015 (https://arxiv.org/abs/1412.6980), weight decay as L2, as torch.optim.Adam. AMSGrad: Reddi et
    al. 2018 (https://arxiv.org/abs/1904.09237).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
    ) -> None:
        self._amsgrad = amsgrad  # before the groups are checked
        super().__init__(params, lr, betas, eps, weight_decay)
        self.defaults["amsgrad"] = amsgrad

    def _check(self, group: Group) -> None:
        group.setdefault("amsgrad", self._amsgrad)
        _check_range(self, group, "betas")
        super()._check(group)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        if group["weight_decay"]:
            grad = grad + parameter.detach() * group["weight_decay"]
        if not group["amsgrad"]:
            super()._update({**group, "weight_decay": 0.0}, parameter, grad)  # the fused kernel
            return
        entry = self.state.get(parameter)
        if entry is None:
            names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
            entry = self.state[parameter] = {"step": 0, **{name: zeros(parameter.shape) for name in names}}
        entry["step"] += 1
        beta1, beta2 = group["betas"]
        change = grad.array()
        mean, square, top = (entry[name].array() for name in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"))
        mean += np.float32(1 - beta1) * (change - mean)
        square *= np.float32(beta2)
        square += np.float32(1 - beta2) * change * change
        np.maximum(top, square, out=top)
        root = np.sqrt(top) / np.float32((1 - beta2 ** entry["step"]) ** 0.5) + np.float32(group["eps"])
        parameter.array()[...] -= np.float32(group["lr"] / (1 - beta1 ** entry["step"])) * mean / root


class RMSprop(Optimizer):
    """The gradient divided by a moving root mean square (Tieleman and Hinton 2012), as torch.optim.RMSprop."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
    ) -> None:
        settings = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(params, {**settings, "centered": centered})

    def _check(self, group: Group) -> None:
        super()._check(group)
        _check_range(self, group, "alpha")

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = self.state.setdefault(parameter, {})
        for name, wanted in (
            ("square_avg", True), ("momentum_buffer", group["momentum"] > 0), ("grad_avg", group["centered"])
        ):  # fmt: skip
            if wanted and name not in entry:
                entry[name] = zeros(parameter.shape)
        values = parameter.array()
        change = _decayed(group, values, grad.array())
        rest = np.float32(1 - group["alpha"])
        square = entry["square_avg"].array()
        square *= np.float32(group["alpha"])
        square += rest * change * change
        root = square
        if group["centered"]:
            mean = entry["grad_avg"].array()
            mean += rest * (change - mean)
            root = square - mean * mean
        step = change / (np.sqrt(root) + np.float32(group["eps"]))
        if group["momentum"]:
            buffer = entry["momentum_buffer"].array()
            buffer *= np.float32(group["momentum"])
            buffer += step
            step = buffer
        values -= np.float32(group["lr"]) * step


class Adagrad(Optimizer):
    """The gradient divided by the root of the sum of all squares (Duchi et al. 2011), as torch.optim.Adagrad."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
    ) -> None:
        if lr_decay < 0 or initial_accumulator_value < 0:
            raise ValueError("Adagrad: lr_decay and initial_accumulator_value must not be negative")
        settings = {"lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay, "eps": eps}
        super().__init__(params, {**settings, "initial_accumulator_value": initial_accumulator_value})

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = self.state.get(parameter)
        if entry is None:
            start = full(parameter.shape, float(group["initial_accumulator_value"]))
            entry = self.state[parameter] = {"step": 0, "sum": start}
        entry["step"] += 1
        values = parameter.array()
        change = _decayed(group, values, grad.array())
        total = entry["sum"].array()
        total += change * change
        rate = group["lr"] / (1 + (entry["step"] - 1) * group["lr_decay"])
        values -= np.float32(rate) * change / (np.sqrt(total) + np.float32(group["eps"]))


class Lion(Optimizer):
    """The sign of an interpolated momentum, decoupled weight decay (Chen et al. 2023, https://arxiv.org/abs/2302.06675,
    algorithm 2).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-4,
        betas: tuple[float, float] = (0.9, 0.99),
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "weight_decay": weight_decay})

    def _check(self, group: Group) -> None:
        super()._check(group)
        _check_range(self, group, "betas")

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = self.state.get(parameter)
        if entry is None:
            entry = self.state[parameter] = {"exp_avg": zeros(parameter.shape)}
        values, change, mean = parameter.array(), grad.array(), entry["exp_avg"].array()
        beta1, beta2 = group["betas"]
        if group["weight_decay"]:
            values *= np.float32(1 - group["lr"] * group["weight_decay"])
        values -= np.float32(group["lr"]) * np.sign(np.float32(beta1) * mean + np.float32(1 - beta1) * change)
        mean *= np.float32(beta2)
        mean += np.float32(1 - beta2) * change


def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float) -> None:
    """Limits each element of the gradients to ±clip_value, in place."""
    if not clip_value >= 0:
        raise ValueError(f"clip_grad_value_: clip_value must be a number >= 0, got {clip_value}")
    for parameter in [parameters] if isinstance(parameters, Tensor) else list(parameters):
        if parameter.grad is not None:
            with no_grad():
                parameter.grad.copy_(parameter.grad.clamp(-clip_value, clip_value))


class ExponentialMovingAverage:
    """Averages of a module's trainable parameters: after `update()` each is decay * average + (1 - decay) * parameter.

    With `warmup` the decay begins lower, min(decay, (1 + n) / (10 + n)) at update n, so that the start is soon
    forgotten. `with average.applied():` the module computes with the averages; afterwards it has its own values again.
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
        """After each step of the optimiser."""
        self.count += 1
        decay = min(self.decay, (1 + self.count) / (10 + self.count)) if self.warmup else self.decay
        with no_grad():
            for name, parameter in self._parameters.items():
                average = self.averages[name]
                average.copy_(average + (parameter.detach() - average) * (1 - decay))

    def copy_to(self) -> None:
        """Writes the averages into the module."""
        with no_grad():
            for name, parameter in self._parameters.items():
                parameter.copy_(self.averages[name])

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Inside, the module has the averages."""
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
        """Takes what state_dict gave; tensors are copied. ValueError where names or shapes differ."""
        found = state["averages"]
        if found.keys() != self.averages.keys():
            raise ValueError(f"load_state_dict: averages of {sorted(found)}, the module has {sorted(self.averages)}")
        for name, own in self.averages.items():
            if found[name].shape != own.shape:
                raise ValueError(f"load_state_dict: {name} is {describe(found[name])}, the module's {describe(own)}")
        self.count, self.decay = int(state["count"]), float(state["decay"])
        self.averages = {name: found[name].detach().clone() for name in self.averages}
