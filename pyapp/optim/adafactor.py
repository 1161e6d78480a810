"""Adafactor: stores only row and column means of the squared gradients of a matrix."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import Any

from ..engine import Tensor
from ..engine.element_programs import Numbers
from ..engine.ops import finfo
from ..engine.ops.optimizer_steps import AdafactorNumbers, adafactor_step
from .optimizer import Group, Optimizer, counted

__all__ = ["Adafactor"]


class Adafactor(Optimizer):
    """Stores only row and column means of the squared gradients of a matrix, and scales steps by the parameter's size
    (Shazeer and Stern 2018, https://arxiv.org/abs/1804.04235). eps: (added to the squares, default finfo(dtype).eps;
    lower limit of the parameter's size).
    """

    takes_complex = False
    needs_whole = True

    flags = ("foreach",)

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

    def _states(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[Tensor, ...]:
        if parameter.ndim < 2:
            return (self._new(entry, "variance", parameter),)
        return (
            self._new(entry, "row_var", parameter[..., :1].detach()),
            self._new(entry, "col_var", parameter[..., :1, :].detach()),
        )

    def _advance(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[tuple[float, ...], ...]:
        step, (smallest, smallest_size) = counted(entry), group["eps"]
        floor = finfo(parameter.dtype).eps if smallest is None else smallest
        share, keep = step ** group["beta2_decay"], 1 - group["lr"] * group["weight_decay"]
        rows, columns = parameter.shape[-2:] if parameter.ndim > 1 else (1, 1)
        rate, size = -min(group["lr"], 1 / sqrt(step)), max(parameter.numel(), 1)
        return (
            (1 - share, share / max(columns, 1)), (1 - share, share / max(rows, 1)), (floor, 1 - share, share),
            (floor, 1 / max(rows, 1)), (keep, rate, 1 / size, smallest_size, 1 / group["d"]),
        )  # fmt: skip

    def _launch(
        self, group: Group, parameter: Tensor, grad: Tensor, states: tuple[Tensor, ...], numbers: tuple[Numbers, ...]
    ) -> None:
        adafactor_step(parameter, grad, states, AdafactorNumbers(*numbers))
