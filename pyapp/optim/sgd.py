"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..engine import Tensor
from .optimizer import Group, Optimizer, add_scaled, with_decay

__all__ = ["SGD"]


class SGD(Optimizer):
    """Stochastic gradient descent with momentum, Nesterov's variant and L2 weight decay, as torch.optim.SGD."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        **flags: Any,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("SGD: Nesterov momentum needs a momentum and no dampening")
        settings = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(params, {**settings, "nesterov": nesterov}, maximize, **flags)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        grad, momentum = with_decay(group, parameter, grad), group["momentum"]
        if momentum:
            entry = self.state[parameter]
            buffer = entry.get("momentum_buffer")
            if buffer is None:
                buffer = entry["momentum_buffer"] = grad.clone()
            else:
                add_scaled(buffer.mul_(momentum), grad, 1 - group["dampening"])
            grad = grad + buffer * momentum if group["nesterov"] else buffer
        add_scaled(parameter, grad, -group["lr"])
