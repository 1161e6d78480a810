"""Lion: the sign of an interpolated momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..engine import Tensor
from ..engine.ops import zeros_like
from .optimizer import Group, Optimizer, add_scaled, decay_parameter

__all__ = ["Lion"]


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
        *,
        maximize: bool = False,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "weight_decay": weight_decay}, maximize)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = self.state[parameter]
        if not entry:
            entry["exp_avg"] = zeros_like(parameter)
        mean, (beta1, beta2) = entry["exp_avg"], group["betas"]
        decay_parameter(group, parameter)
        add_scaled(parameter, add_scaled(mean * beta1, grad, 1 - beta1).sign(), -group["lr"])
        add_scaled(mean.mul_(beta2), grad, 1 - beta2)
