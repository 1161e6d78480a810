"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from ..engine import Tensor
from ..engine.element_programs import ElementProgram
from .optimizer import Group, Optimizer, decayed

__all__ = ["SGD"]


class SGD(Optimizer):
    """Stochastic gradient descent with momentum, Nesterov's variant and L2 weight decay, as torch.optim.SGD."""

    flags = ("foreach", "differentiable", "fused")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
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
        entry = self.state.get(parameter) or {}
        if not group["momentum"] or "momentum_buffer" in entry:
            super()._update(group, parameter, grad)
            return
        states = self._states(group, parameter, entry)
        self.state[parameter] = entry
        ((rate, _, _, *rest),) = self._advance(group, parameter, entry)
        self._write(group, parameter, grad, states, ((rate, 0.0, 1.0, *rest),))  # the buffer begins as the gradient

    def _update_kept(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        """As in torch: the momentum is sparse, too, and rows that have none are left as they are."""
        if group["weight_decay"]:
            raise RuntimeError("SGD: weight decay changes every row, which a sparse gradient does not have")
        if group["momentum"]:
            entry, change = self.state[parameter], grad.coalesce()
            if "momentum_buffer" in entry:
                buffer = entry["momentum_buffer"] * group["momentum"] + change * (1 - group["dampening"])
            else:
                buffer = change.clone()
            entry["momentum_buffer"] = buffer
            grad = change + buffer * group["momentum"] if group["nesterov"] else buffer
        parameter.add_(grad * -group["lr"])

    def _states(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[Tensor, ...]:
        return (self._new(entry, "momentum_buffer", parameter),) if group["momentum"] else ()

    def _advance(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[tuple[float, ...], ...]:
        momentum, decay = group["momentum"], group["weight_decay"]
        more = (decay,) if decay else ()
        return ((-group["lr"], *((momentum, 1 - group["dampening"], momentum) if momentum else ()), *more),)

    def _program(self, group: Group) -> ElementProgram:
        decays = bool(group["weight_decay"])
        return _with_momentum(group["nesterov"], decays) if group["momentum"] else _plain(decays)


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
