"""Adafactor: stores only row and column means of the squared gradients of a matrix."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import Any

from ..engine import Tensor
from ..engine.ops import finfo, zeros_like
from .optimizer import Group, Optimizer, decay_parameter, parameter_state, update_mean

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
        size = root_mean_square(parameter).clamp(min=smallest_size)  # ()
        decay_parameter(group, parameter)
        squares = grad * grad
        if grad.ndim > 1:
            if step == 1:
                entry["row_var"] = parameter.new_zeros((*grad.shape[:-1], 1))
                entry["col_var"] = parameter.new_zeros((*grad.shape[:-2], 1, grad.shape[-1]))
            rows = update_mean(entry["row_var"], squares.mean(-1, True), share)  # (..., R, 1)
            columns = update_mean(entry["col_var"], squares.mean(-2, True), share)  # (..., 1, C)
            variance = (rows @ columns).div_(rows.mean(-2, True).clamp(min=floor))  # (..., R, C)
        else:
            if step == 1:
                entry["variance"] = zeros_like(parameter)
            variance = update_mean(entry["variance"], squares, share)
        change = grad * variance.clamp(min=floor * floor).rsqrt_()
        limit = (root_mean_square(change) / group["d"]).clamp(min=1.0)  # ()
        parameter.sub_(change.mul_(size * min(group["lr"], 1 / sqrt(step)) / limit))


def root_mean_square(x: Tensor) -> Tensor:
    """sqrt(mean(x²)) of all elements, ()."""
    return x.norm() / sqrt(x.numel())
