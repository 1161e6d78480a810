"""Averaged stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from ..engine import Tensor
from ..engine.element_programs import ElementProgram
from ..engine.ops.element_updates import update_elements
from .optimizer import Group, Optimizer, decayed, parameter_state

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
        rate, decay = entry["eta"], group["weight_decay"]
        numbers = (1 - group["lambd"] * rate, -rate, entry["mu"], *((decay,) if decay else ()))
        update_elements(parameter, (grad, entry["ax"]), _averaged(bool(decay)), numbers)
        entry["eta"] = group["lr"] / (1 + group["lambd"] * group["lr"] * entry["step"]) ** group["alpha"]
        entry["mu"] = 1 / max(1, entry["step"] - group["t0"])


@cache
def _averaged(decays: bool) -> ElementProgram:
    def asgd(parameter: Any, grad: Any, mean: Any, keep: Any, rate: Any, share: Any, decay: Any = None) -> Any:
        parameter = parameter * keep + decayed(grad, parameter, decay) * rate
        return parameter, None, mean + (parameter - mean) * share

    return ElementProgram(asgd, 3, 3 + decays)
