"""Adam and its variants: AdamW, Adamax, NAdam, RAdam."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from math import inf, sqrt
from typing import Any, TypeAlias

from ..engine import Tensor
from ..engine.element_programs import ElementProgram, Numbers
from ..engine.ops.optimizer_steps import Step
from .optimizer import Group, Optimizer, counted, decayed

__all__ = ["Adam", "AdamW", "Adamax", "NAdam", "RAdam"]


Betas: TypeAlias = tuple[float, float]


class _AdamVariant(Optimizer):
    """Base of Adam and its variants: the settings that they share, and `others` of their own."""

    flags: tuple[str, ...] = ("foreach", "capturable", "differentiable")

    def __init__(
        self, params: Iterable[Any], lr: float, betas: Betas, eps: float, weight_decay: float, maximize: bool,
        flags: dict[str, Any], **others: Any,
    ) -> None:  # fmt: skip
        settings = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, **others}
        super().__init__(params, settings, maximize, **flags)


class Adam(_AdamVariant):
    """Kingma and Ba 2015 (https://arxiv.org/abs/1412.6980), with L2 or decoupled weight decay, as torch.optim.Adam. One
    fused kernel per float32 parameter. AMSGrad: Reddi et al. 2018 (https://arxiv.org/abs/1904.09237).
    """

    flags = ("foreach", "capturable", "differentiable", "fused")

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, amsgrad: bool = False, *, maximize: bool = False,
        decoupled_weight_decay: bool = False, **flags: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, maximize, flags, amsgrad=amsgrad,
            decoupled_weight_decay=decoupled_weight_decay,
        )  # fmt: skip

    def _states(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[Tensor, ...]:
        names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")[: 2 + group["amsgrad"]]
        return tuple([self._new(entry, name, parameter) for name in names])

    def _advance(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[tuple[float, ...], ...]:
        step, (beta1, beta2), rate, eps = counted(entry), group["betas"], group["lr"], group["eps"]
        of_mean, of_squares = 1 - beta1**step, 1 - beta2**step
        keep, decay = _decay_of(group)
        if not decay and not group["amsgrad"]:
            return ((rate, beta1, beta2, eps, group["weight_decay"], of_mean, of_squares),)
        return ((keep, beta1, 1 - beta1, beta2, 1 - beta2, 1 / sqrt(of_squares), eps, -rate / of_mean, *decay),)

    def _launch(
        self, group: Group, parameter: Tensor, grad: Tensor, states: tuple[Tensor, ...], numbers: tuple[Numbers, ...]
    ) -> None:
        if group["amsgrad"] or _decay_of(group)[1]:
            super()._launch(group, parameter, grad, states, numbers)
        else:
            self._run(parameter, Step(None, grad, states, *numbers))

    def _program(self, group: Group) -> ElementProgram:
        return adam_program(group["amsgrad"], bool(_decay_of(group)[1]))


@cache
def adam_program(amsgrad: bool, decays: bool) -> ElementProgram:
    """A step: tensors parameter, gradient, mean, squares and, with `amsgrad`, their largest; numbers keep, beta1,
    1 - beta1, beta2, 1 - beta2, scale of the root, eps, rate and, with `decays`, L2 decay.
    """

    def adam(parameter: Any, grad: Any, mean: Any, squares: Any, *rest: Any) -> Any:
        largest, numbers = (rest[:1], rest[1:]) if amsgrad else ((), rest)
        keep, beta1, share1, beta2, share2, scale, eps, rate, *decay = numbers
        grad = decayed(grad, parameter, decay[0] if decay else None)
        mean = mean * beta1 + grad * share1
        squares = squares * beta2 + grad * grad * share2
        largest = tuple(before.maximum(squares) for before in largest)
        root = (largest[0] if amsgrad else squares).sqrt() * scale + eps
        return parameter * keep + mean / root * rate, None, mean, squares, *largest

    return ElementProgram(adam, 4 + amsgrad, 8 + decays)


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101), as
    torch.optim.AdamW.
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0.01, amsgrad: bool = False, *, maximize: bool = False, **flags: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, decoupled_weight_decay=True, **flags
        )


class Adamax(_AdamVariant):
    """Adam with the largest gradient in place of the root mean square (Kingma and Ba 2015)."""

    def __init__(
        self, params: Iterable[Any], lr: float = 2e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, *, maximize: bool = False, **flags: Any,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, maximize, flags)

    def _states(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[Tensor, ...]:
        return self._new(entry, "exp_avg", parameter), self._new(entry, "exp_inf", parameter)

    def _advance(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[tuple[float, ...], ...]:
        step, (beta1, beta2), decay = counted(entry), group["betas"], group["weight_decay"]
        rate = group["lr"] / (1 - beta1**step)
        return ((beta1, 1 - beta1, beta2, group["eps"], -rate, *((decay,) if decay else ())),)

    def _program(self, group: Group) -> ElementProgram:
        return _adamax(bool(group["weight_decay"]))


@cache
def _adamax(decays: bool) -> ElementProgram:
    def adamax(
        parameter: Any, grad: Any, mean: Any, largest: Any, beta1: Any, share: Any, beta2: Any, eps: Any, rate: Any,
        decay: Any = None,
    ) -> Any:  # fmt: skip
        grad = decayed(grad, parameter, decay)
        mean = mean * beta1 + grad * share
        largest = (largest * beta2).maximum(grad.abs() + eps)
        return parameter + mean / largest * rate, None, mean, largest

    return ElementProgram(adamax, 4, 5 + decays)


class NAdam(_AdamVariant):
    """Adam with Nesterov's momentum (Dozat 2016); L2 or decoupled weight decay."""

    def __init__(
        self, params: Iterable[Any], lr: float = 2e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
        maximize: bool = False, **flags: Any,
    ) -> None:  # fmt: skip
        if momentum_decay < 0:
            raise ValueError(f"NAdam: momentum_decay is at least 0, not {momentum_decay!r}")
        super().__init__(
            params, lr, betas, eps, weight_decay, maximize, flags, momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay,
        )  # fmt: skip

    def _states(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[Tensor, ...]:
        return self._new(entry, "exp_avg", parameter), self._new(entry, "exp_avg_sq", parameter)

    def _advance(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[tuple[float, ...], ...]:
        step, (beta1, beta2), rate = counted(entry), group["betas"], group["lr"]
        now, following = (beta1 * (1 - 0.5 * 0.96 ** (t * group["momentum_decay"])) for t in (step, step + 1))
        entry["mu_product"] = product = entry.get("mu_product", 1.0) * now
        keep, decay = _decay_of(group)
        return (
            (
                keep, beta1, 1 - beta1, beta2, 1 - beta2, 1 / sqrt(1 - beta2**step), group["eps"],
                -rate * (1 - now) / (1 - product), -rate * following / (1 - product * following), *decay,
            ),
        )  # fmt: skip

    def _program(self, group: Group) -> ElementProgram:
        return nadam_program(bool(_decay_of(group)[1]))


def _decay_of(group: Group) -> tuple[float, tuple[float, ...]]:
    """Weight decay as numbers of a program: the factor of the parameter where it is decoupled, else that of the L2
    term."""
    decay = group["weight_decay"]
    if group["decoupled_weight_decay"]:
        return 1 - group["lr"] * decay, ()
    return 1.0, (decay,) if decay else ()


@cache
def nadam_program(decays: bool) -> ElementProgram:
    """A step: tensors and numbers as adam_program without `amsgrad`, but the factors of the gradient and of the mean in
    place of the rate.
    """

    def nadam(
        parameter: Any, grad: Any, mean: Any, squares: Any, keep: Any, beta1: Any, share1: Any, beta2: Any, share2: Any,
        scale: Any, eps: Any, of_grad: Any, of_mean: Any, decay: Any = None,
    ) -> Any:  # fmt: skip
        grad = decayed(grad, parameter, decay)
        mean = mean * beta1 + grad * share1
        squares = squares * beta2 + grad * grad * share2
        root = squares.sqrt() * scale + eps
        return parameter * keep + (grad * of_grad + mean * of_mean) / root, None, mean, squares

    return ElementProgram(nadam, 4, 9 + decays)


class RAdam(_AdamVariant):
    """Adam that divides by the squares only after their variance is known (Liu et al. 2019,
    https://arxiv.org/abs/1908.03265).
    """

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0, decoupled_weight_decay: bool = False, *, maximize: bool = False, **flags: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, maximize, flags, decoupled_weight_decay=decoupled_weight_decay
        )

    def _states(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[Tensor, ...]:
        return self._new(entry, "exp_avg", parameter), self._new(entry, "exp_avg_sq", parameter)

    def _advance(self, group: Group, parameter: Tensor, entry: dict[str, Any]) -> tuple[tuple[float, ...], ...]:
        step, (beta1, beta2) = counted(entry), group["betas"]
        keep, decay = _decay_of(group)
        rate, correction = group["lr"] / (1 - beta1**step), 1 - beta2**step
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * step * beta2**step / correction
        divides = length > 5
        if divides:
            share = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
            rate *= sqrt(share) * sqrt(correction)
        most, rest = (inf, 0.0) if divides else (0.0, 1.0)  # the divisor is at most `most`, plus `rest`
        return ((keep, beta1, 1 - beta1, beta2, 1 - beta2, group["eps"], -rate, most, rest, *decay),)

    def _program(self, group: Group) -> ElementProgram:
        return _radam(bool(_decay_of(group)[1]))


@cache
def _radam(decays: bool) -> ElementProgram:
    def radam(
        parameter: Any, grad: Any, mean: Any, squares: Any, keep: Any, beta1: Any, share1: Any, beta2: Any, share2: Any,
        eps: Any, rate: Any, most: Any, rest: Any, decay: Any = None,
    ) -> Any:  # fmt: skip
        grad = decayed(grad, parameter, decay)
        mean = mean * beta1 + grad * share1
        squares = squares * beta2 + grad * grad * share2
        change = mean / (
            (squares.sqrt() + eps).minimum(most) + rest
        )  # infinite squares do not count before they divide
        return parameter * keep + change * rate, None, mean, squares

    return ElementProgram(radam, 4, 9 + decays)
