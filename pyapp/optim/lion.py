"""Lion: the sign of an interpolated momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..engine import Tensor
from ..engine.element_programs import ElementProgram
from .optimizer import Group, Optimizer

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

    def _states(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[Tensor, ...]:
        return (self._new(entry, "exp_avg", parameter),)

    def _advance(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[tuple[float, ...], ...]:
        (beta1, beta2), rate = group["betas"], group["lr"]
        return ((1 - rate * group["weight_decay"], beta1, 1 - beta1, beta2, 1 - beta2, -rate),)

    def _program(self, group: Group) -> ElementProgram:
        return LION


def _lion(
    parameter: Any, grad: Any, mean: Any, keep: Any, beta1: Any, share1: Any, beta2: Any, share2: Any, rate: Any
) -> Any:
    parameter = parameter * keep + (mean * beta1 + grad * share1).sign() * rate
    return parameter, None, mean * beta2 + grad * share2


LION = ElementProgram(_lion, 3, 6)
