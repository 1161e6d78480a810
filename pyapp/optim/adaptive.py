"""Optimisers with a step size per element, from its past gradients: Adagrad, Adadelta, RMSprop, Rprop."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

from ..engine import Tensor
from ..engine.element_programs import ElementProgram
from .optimizer import Group, Optimizer, check_range, counted, decayed, with_values

__all__ = ["Adadelta", "Adagrad", "RMSprop", "Rprop"]


class Adagrad(Optimizer):
    """The gradient divided by the root of the sum of all squares (Duchi et al. 2011), as torch.optim.Adagrad."""

    flags = ("foreach", "differentiable", "fused")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
        **flags: Any,
    ) -> None:
        if lr_decay < 0 or initial_accumulator_value < 0:
            raise ValueError("Adagrad: lr_decay and initial_accumulator_value must not be negative")
        settings = {"lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay, "eps": eps}
        start = {"initial_accumulator_value": initial_accumulator_value}
        super().__init__(params, {**settings, **start}, maximize, **flags)

    def state_dict(self) -> dict[str, Any]:
        """As other optimisers'. Parameters that had no gradient yet are in it with their first state, as in torch."""
        for group in self.param_groups:
            for parameter in group["params"]:
                entry = self.state[parameter]
                entry.setdefault("step", 0)
                self._states(group, parameter, entry)
        return super().state_dict()

    def _update_kept(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        if group["weight_decay"]:
            raise RuntimeError("Adagrad: weight decay changes every row, which a sparse gradient does not have")
        entry, grad = self.state[parameter], grad.coalesce()
        (total,), ((eps, rate),) = self._states(group, parameter, entry), self._advance(group, parameter, entry)
        total.add_(grad.square())
        parameter.add_(with_values(grad, grad.values() / (total.sparse_mask(grad).values().sqrt() + eps) * rate))

    def _states(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[Tensor, ...]:
        return (self._new(entry, "sum", parameter, float(group["initial_accumulator_value"])),)

    def _advance(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[tuple[float, ...], ...]:
        rate = group["lr"] / (1 + (counted(entry) - 1) * group["lr_decay"])
        decay = group["weight_decay"]
        return ((group["eps"], -rate, *((decay,) if decay else ())),)

    def _program(self, group: Group) -> ElementProgram:
        return _adagrad(bool(group["weight_decay"]))


@cache
def _adagrad(decays: bool) -> ElementProgram:
    def adagrad(parameter: Any, grad: Any, total: Any, eps: Any, rate: Any, decay: Any = None) -> Any:
        grad = decayed(grad, parameter, decay)
        total = total + grad * grad
        return parameter + grad / (total.sqrt() + eps) * rate, None, total

    return ElementProgram(adagrad, 3, 2 + decays)


class Adadelta(Optimizer):
    """Steps scaled by the moving root mean square of earlier steps (Zeiler 2012, https://arxiv.org/abs/1212.5701)."""

    flags = ("capturable", "foreach", "differentiable")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        *,
        maximize: bool = False,
        **flags: Any,
    ) -> None:
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay}, maximize, **flags)

    def _check(self, group: Group) -> None:
        super()._check(group)
        check_range(self, group, "rho", last=True)

    def _states(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[Tensor, ...]:
        return self._new(entry, "square_avg", parameter), self._new(entry, "acc_delta", parameter)

    def _advance(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[tuple[float, ...], ...]:
        counted(entry)
        rho, decay = group["rho"], group["weight_decay"]
        return ((rho, 1 - rho, group["eps"], -group["lr"], *((decay,) if decay else ())),)

    def _program(self, group: Group) -> ElementProgram:
        return _adadelta(bool(group["weight_decay"]))


@cache
def _adadelta(decays: bool) -> ElementProgram:
    def adadelta(
        parameter: Any, grad: Any, squares: Any, steps: Any, rho: Any, rest: Any, eps: Any, rate: Any, decay: Any = None
    ) -> Any:
        grad = decayed(grad, parameter, decay)
        squares = squares * rho + grad * grad * rest
        step = (steps + eps).sqrt() / (squares + eps).sqrt() * grad
        return parameter + step * rate, None, squares, steps * rho + step * step * rest

    return ElementProgram(adadelta, 4, 4 + decays)


class RMSprop(Optimizer):
    """The gradient divided by a moving root mean square (Tieleman and Hinton 2012), as torch.optim.RMSprop."""

    flags = ("capturable", "foreach", "differentiable")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        *,
        maximize: bool = False,
        **flags: Any,
    ) -> None:
        settings = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(params, {**settings, "centered": centered}, maximize, **flags)

    def _check(self, group: Group) -> None:
        super()._check(group)
        check_range(self, group, "alpha")

    def _states(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[Tensor, ...]:
        names = (("square_avg", True), ("grad_avg", group["centered"]), ("momentum_buffer", group["momentum"] > 0))
        return tuple(self._new(entry, name, parameter) for name, wanted in names if wanted)

    def _advance(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[tuple[float, ...], ...]:
        counted(entry)  # for torch, which reads it
        alpha, decay = group["alpha"], group["weight_decay"]
        more = (decay,) if decay else ()
        return ((alpha, 1 - alpha, group["eps"], -group["lr"], group["momentum"], *more),)

    def _program(self, group: Group) -> ElementProgram:
        return _rmsprop(group["centered"], bool(group["momentum"]), bool(group["weight_decay"]))


@cache
def _rmsprop(centered: bool, moves: bool, decays: bool) -> ElementProgram:
    count = 3 + centered + moves

    def rmsprop(parameter: Any, grad: Any, squares: Any, *rest: Any) -> Any:
        states, (alpha, share, eps, rate, momentum, *more) = list(rest[: count - 3]), rest[count - 3 :]
        grad = decayed(grad, parameter, more[0] if more else None)
        variance = squares = squares * alpha + grad * grad * share
        if centered:
            mean = states[0] = states[0] * alpha + grad * share
            variance = squares - mean * mean
        change = grad / (variance.sqrt() + eps)
        if moves:
            change = states[-1] = states[-1] * momentum + change
        return parameter + change * rate, None, squares, *states

    return ElementProgram(rmsprop, count, 5 + decays)


class Rprop(Optimizer):
    """Uses only the gradient's sign; the step size of an element grows while its sign stays (Riedmiller and Braun
    1993).
    """

    flags = ("foreach", "differentiable", "capturable")

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        maximize: bool = False,
        **flags: Any,
    ) -> None:
        if not 0 < etas[0] < 1 < etas[1]:
            raise ValueError(f"Rprop: etas must lie below and above 1, got {etas}")
        settings = {"lr": lr, "etas": tuple(etas), "step_sizes": tuple(step_sizes)}
        super().__init__(params, settings, maximize, **flags)

    def _states(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[Tensor, ...]:
        return self._new(entry, "prev", parameter), self._new(entry, "step_size", parameter, float(group["lr"]))

    def _advance(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[tuple[float, ...], ...]:
        counted(entry)
        return ((*group["etas"], *group["step_sizes"]),)

    def _program(self, group: Group) -> ElementProgram:
        return _RPROP


def _rprop(
    parameter: Any, grad: Any, before: Any, size: Any, lower: Any, higher: Any, smallest: Any, largest: Any
) -> Any:
    agreement = grad * before  # above zero where the sign stayed
    grew, shrank = agreement > 0, agreement < 0
    size = (size * higher).where(grew, (size * lower).where(shrank, size)).maximum(smallest).minimum(largest)
    grad = (grad * 0.0).where(shrank, grad)
    return parameter - grad.sign() * size, None, grad, size


_RPROP = ElementProgram(_rprop, 4, 4)
