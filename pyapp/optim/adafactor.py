"""Adafactor: stores only row and column means of the squared gradients of a matrix."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import Any

from ..engine import Tensor
from ..engine.ops import finfo, zeros_like
from ..engine.ops.optimizer_steps import AdafactorNumbers, adafactor_step
from .optimizer import Group, Optimizer, parameter_state

__all__ = ["Adafactor"]


class Adafactor(Optimizer):
    """Stores only row and column means of the squared gradients of a matrix, and scales steps by the parameter's size
    (Shazeer and Stern 2018, https://arxiv.org/abs/1804.04235). eps: (added to the squares, default finfo(dtype).eps;
    lower limit of the parameter's size).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **flags: Any,
    ) -> None:
        if beta2_decay > 0 or d < 1:
            raise ValueError(f"Adafactor: needs beta2_decay <= 0 and d >= 1, got {beta2_decay}, {d}")
        settings = {"lr": lr, "beta2_decay": beta2_decay, "eps": tuple(eps), "d": d, "weight_decay": weight_decay}
        super().__init__(params, settings, maximize, **flags)

    def _check(self, group: Group) -> None:
        super()._check({**group, "eps": group["eps"][1]})

    def _fits(self, name: str, value: Tensor, parameter: Tensor) -> bool:
        return name in ("row_var", "col_var") or super()._fits(name, value, parameter)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry, step = parameter_state(self, parameter), self.state[parameter]["step"]
        smallest, smallest_size = group["eps"]
        floor = finfo(parameter.dtype).eps if smallest is None else smallest
        share = step ** group["beta2_decay"]
        if grad.ndim > 1:
            if step == 1:
                entry["row_var"] = parameter.new_zeros((*grad.shape[:-1], 1))
                entry["col_var"] = parameter.new_zeros((*grad.shape[:-2], 1, grad.shape[-1]))
            means: tuple[Tensor, ...] = (entry["row_var"], entry["col_var"])
        else:
            if step == 1:
                entry["variance"] = zeros_like(parameter)
            means = (entry["variance"],)
        rate, keep = -min(group["lr"], 1 / sqrt(step)), 1 - group["lr"] * group["weight_decay"]
        numbers = AdafactorNumbers(share, floor, keep, rate, smallest_size, 1 / group["d"])
        adafactor_step(parameter, grad, means, numbers)
