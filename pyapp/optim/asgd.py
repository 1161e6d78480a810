"""Averaged stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..engine import Tensor
from .optimizer import Group, Optimizer, add_scaled, parameter_state, update_mean, with_decay

__all__ = ["ASGD"]


class ASGD(Optimizer):
    """SGD with a decreasing learning rate. The state "ax" is the mean of the parameters from step `t0` on (Polyak and
    Juditsky 1992).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **flags: Any,
    ) -> None:
        settings = {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay}
        super().__init__(params, settings, maximize, **flags)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = parameter_state(self, parameter, "ax", eta=group["lr"], mu=1.0)
        grad, rate = with_decay(group, parameter, grad), entry["eta"]
        add_scaled(parameter.mul_(1 - group["lambd"] * rate), grad, -rate)
        update_mean(entry["ax"], parameter, entry["mu"])
        entry["eta"] = group["lr"] / (1 + group["lambd"] * group["lr"] * entry["step"]) ** group["alpha"]
        entry["mu"] = 1 / max(1, entry["step"] - group["t0"])
