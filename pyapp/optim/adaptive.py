"""Optimisers with a step size per element, from its past gradients: Adagrad, Adadelta, RMSprop, Rprop."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..engine import Tensor
from ..engine.ops import full_like, where, zeros_like
from .optimizer import (
    Group,
    Optimizer,
    add_scaled,
    check_range,
    parameter_state,
    subtract_ratio,
    update_mean,
    update_squares,
    with_decay,
)

__all__ = ["Adadelta", "Adagrad", "RMSprop", "Rprop"]


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
        *,
        maximize: bool = False,
        **flags: Any,
    ) -> None:
        if lr_decay < 0 or initial_accumulator_value < 0:
            raise ValueError("Adagrad: lr_decay and initial_accumulator_value must not be negative")
        settings = {"lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay, "eps": eps}
        start = {"initial_accumulator_value": initial_accumulator_value}
        super().__init__(params, {**settings, **start}, maximize, **flags)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = self.state[parameter]
        if not entry:
            entry.update(step=0, sum=full_like(parameter, float(group["initial_accumulator_value"])))
        entry["step"] += 1
        grad = with_decay(group, parameter, grad)
        entry["sum"].add_(grad * grad)
        rate = group["lr"] / (1 + (entry["step"] - 1) * group["lr_decay"])
        subtract_ratio(parameter, grad, entry["sum"].sqrt().add_(group["eps"]), rate)


class Adadelta(Optimizer):
    """Steps scaled by the moving root mean square of earlier steps (Zeiler 2012, https://arxiv.org/abs/1212.5701)."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **flags: Any,
    ) -> None:
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay}, maximize, **flags)

    def _check(self, group: Group) -> None:
        super()._check(group)
        check_range(self, group, "rho", last=True)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = parameter_state(self, parameter, "square_avg", "acc_delta")
        rho, eps, steps = group["rho"], group["eps"], entry["acc_delta"]
        grad = with_decay(group, parameter, grad)
        squares = update_squares(entry["square_avg"], grad, rho)
        step = (steps + eps).sqrt_().div_((squares + eps).sqrt_()).mul_(grad)
        update_squares(steps, step, rho)
        add_scaled(parameter, step, -group["lr"])


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
        *,
        maximize: bool = False,
        **flags: Any,
    ) -> None:
        settings = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(params, {**settings, "centered": centered}, maximize, **flags)

    def _check(self, group: Group) -> None:
        super()._check(group)
        check_range(self, group, "alpha")

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry, momentum, alpha = self.state[parameter], group["momentum"], group["alpha"]
        for name, wanted in (("square_avg", True), ("momentum_buffer", momentum > 0), ("grad_avg", group["centered"])):
            if wanted and name not in entry:
                entry[name] = zeros_like(parameter)
        grad = with_decay(group, parameter, grad)
        variance = update_squares(entry["square_avg"], grad, alpha)
        if group["centered"]:
            mean = update_mean(entry["grad_avg"], grad, 1 - alpha)
            variance = variance - mean * mean
        root = variance.sqrt().add_(group["eps"])
        if momentum:
            add_scaled(parameter, entry["momentum_buffer"].mul_(momentum).add_(grad / root), -group["lr"])
        else:
            subtract_ratio(parameter, grad, root, group["lr"])


class Rprop(Optimizer):
    """Uses only the gradient's sign; the step size of an element grows while its sign stays (Riedmiller and Braun
    1993).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0),
        *,
        maximize: bool = False,
        **flags: Any,
    ) -> None:
        if not 0 < etas[0] < 1 < etas[1]:
            raise ValueError(f"Rprop: etas must lie below and above 1, got {etas}")
        settings = {"lr": lr, "etas": tuple(etas), "step_sizes": tuple(step_sizes)}
        super().__init__(params, settings, maximize, **flags)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = parameter_state(self, parameter, "prev")
        if "step_size" not in entry:
            entry["step_size"] = full_like(parameter, float(group["lr"]))
        size, (lower, higher) = entry["step_size"], group["etas"]
        agreement = grad * entry["prev"]  # positive where the sign stayed
        grew, shrank = agreement > 0, agreement < 0
        size.copy_(where(grew, size * higher, where(shrank, size * lower, size))).clamp_(*group["step_sizes"])
        entry["prev"].copy_(grad.masked_fill(shrank, 0.0))
        parameter.sub_(entry["prev"].sign().mul_(size))
