"""Lion: the sign of an interpolated momentum."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..engine import Tensor
from ..engine.element_programs import ElementProgram
from ..engine.ops import zeros_like
from ..engine.ops.element_updates import update_elements
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

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = self.state[parameter]
        if not entry:
            entry["exp_avg"] = zeros_like(parameter)
        (beta1, beta2), rate = group["betas"], group["lr"]
        numbers = (1 - rate * group["weight_decay"], beta1, 1 - beta1, beta2, 1 - beta2, -rate)
        update_elements(parameter, (grad, entry["exp_avg"]), _LION, numbers)


def _lion(
    parameter: Any, grad: Any, mean: Any, keep: Any, beta1: Any, share1: Any, beta2: Any, share2: Any, rate: Any
) -> Any:
    parameter = parameter * keep + (mean * beta1 + grad * share1).sign() * rate
    return parameter, None, mean * beta2 + grad * share2


_LION = ElementProgram(_lion, 3, 6)
