"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from ..engine import Tensor
from ..engine.element_programs import ElementProgram
from ..engine.ops import zeros_like
from ..engine.ops.element_updates import update_elements
from .optimizer import Group, Optimizer, decayed

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
        momentum, decay, rate = group["momentum"], group["weight_decay"], -group["lr"]
        more = (decay,) if decay else ()
        if not momentum:
            update_elements(parameter, (grad,), _plain(bool(decay)), (rate, *more))
            return
        entry, numbers = self.state[parameter], (momentum, 1 - group["dampening"])
        buffer = entry.get("momentum_buffer")
        if buffer is None:  # which begins as the first gradient
            buffer, numbers = zeros_like(parameter), (0.0, 1.0)
            entry["momentum_buffer"] = buffer
        program = _with_momentum(group["nesterov"], bool(decay))
        update_elements(parameter, (grad, buffer), program, (rate, *numbers, momentum, *more))


@cache
def _plain(decays: bool) -> ElementProgram:
    def sgd(parameter: Any, grad: Any, rate: Any, decay: Any = None) -> Any:
        return parameter + decayed(grad, parameter, decay) * rate, None

    return ElementProgram(sgd, 2, 1 + decays)


@cache
def _with_momentum(nesterov: bool, decays: bool) -> ElementProgram:
    def sgd(
        parameter: Any, grad: Any, buffer: Any, rate: Any, keep: Any, share: Any, momentum: Any, decay: Any = None
    ) -> Any:
        grad = decayed(grad, parameter, decay)
        buffer = buffer * keep + grad * share
        change = grad + buffer * momentum if nesterov else buffer
        return parameter + change * rate, None, buffer

    return ElementProgram(sgd, 3, 4 + decays)
