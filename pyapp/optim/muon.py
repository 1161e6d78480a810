"""Muon: momentum of matrices, made nearly orthogonal."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import sqrt
from typing import Any

from ..engine import Tensor
from ..engine.element_programs import Numbers
from ..engine.ops.optimizer_steps import MuonNumbers, muon_step
from ..engine.user_errors import describe
from .optimizer import Group, Optimizer

__all__ = ["Muon"]

_ADJUSTED: dict[str, Callable[[int, int], float]] = {  # factors of the rate, by rows and columns
    "original": lambda rows, columns: sqrt(max(1, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * sqrt(max(rows, columns)),
    "spectral_unclamped": lambda rows, columns: sqrt(rows / columns),
}


class Muon(Optimizer):
    """Momentum of matrices made nearly orthogonal by a Newton-Schulz iteration, in float32 (Jordan 2024,
    https://kellerjordan.github.io/posts/muon). `adjust_lr_fn`: "original", "match_rms_adamw" or
    "spectral_unclamped". Use another optimiser for parameters that are not matrices.
    """

    takes_complex = False
    needs_whole = True

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        if adjust_lr_fn not in (None, *_ADJUSTED):
            raise ValueError(f"Muon: adjust_lr_fn is one of {', '.join(_ADJUSTED)}, not {adjust_lr_fn!r}")
        settings = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov, "eps": eps}
        iteration = {"ns_coefficients": tuple(ns_coefficients), "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn}
        super().__init__(params, {**settings, **iteration})

    def _check(self, group: Group) -> None:
        super()._check(group)
        for parameter in group["params"]:
            if parameter.ndim != 2:
                raise ValueError(f"Muon: takes matrices, got {describe(parameter)}")

    def _states(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[Tensor, ...]:
        return (self._new(entry, "momentum_buffer", parameter),)

    def _advance(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[tuple[float, ...], ...]:
        rows, columns = parameter.shape
        factor = _ADJUSTED[group["adjust_lr_fn"] or "original"](rows, columns)
        momentum, rate = group["momentum"], group["lr"]
        return (
            (1 - momentum, momentum if group["nesterov"] else 1.0), (group["eps"],),
            (1 - rate * group["weight_decay"], -rate * factor),
        )  # fmt: skip

    def _launch(
        self, group: Group, parameter: Tensor, grad: Tensor, states: tuple[Tensor, ...], numbers: tuple[Numbers, ...]
    ) -> None:
        coefficients, iterations = group["ns_coefficients"], group["ns_steps"]
        muon_step(parameter, *states, grad, MuonNumbers(*numbers), coefficients, iterations)
