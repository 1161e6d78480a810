"""Averaged stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from ..engine import Tensor
from ..engine.element_programs import ElementProgram
from .optimizer import Group, Optimizer, counted, decayed

__all__ = ["ASGD"]


class ASGD(Optimizer):
    """SGD with a decreasing learning rate. The state "ax" is the mean of the parameters from step `t0` on (Polyak and
    Juditsky 1992).
    """

    flags = ("foreach", "differentiable", "capturable")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        *,
        maximize: bool = False,
        **flags: Any,
    ) -> None:
        settings = {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay}
        super().__init__(params, settings, maximize, **flags)

    def _states(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[Tensor, ...]:
        return (self._new(entry, "ax", parameter),)

    def _advance(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[tuple[float, ...], ...]:
        entry.setdefault("eta", group["lr"])
        entry.setdefault("mu", 1.0)
        step, decay = counted(entry), group["weight_decay"]
        numbers = (1 - group["lambd"] * entry["eta"], -entry["eta"], entry["mu"], *((decay,) if decay else ()))
        entry["eta"] = group["lr"] / (1 + group["lambd"] * group["lr"] * step) ** group["alpha"]
        entry["mu"] = 1 / max(1, step - group["t0"])
        return (numbers,)

    def _program(self, group: Group) -> ElementProgram:
        return _averaged(bool(group["weight_decay"]))


@cache
def _averaged(decays: bool) -> ElementProgram:
    def asgd(parameter: Any, grad: Any, mean: Any, keep: Any, rate: Any, share: Any, decay: Any = None) -> Any:
        parameter = parameter * keep + decayed(grad, parameter, decay) * rate
        return parameter, None, mean + (parameter - mean) * share

    return ElementProgram(asgd, 3, 3 + decays)
