"""Adam and its variants: AdamW, Adamax, NAdam, RAdam."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache
from math import sqrt
from typing import Any, TypeAlias

from ..engine import Tensor
from ..engine.element_programs import ElementProgram
from ..engine.launch import capturing, record_call
from ..engine.ops import zeros_like
from ..engine.ops.element_updates import update_elements
from ..engine.ops.optimizer_steps import AdamWNumbers, AdamWSettings, adamw_step
from .optimizer import Group, Optimizer, decayed, parameter_state

__all__ = ["Adam", "AdamW", "Adamax", "NAdam", "RAdam"]


Betas: TypeAlias = tuple[float, float]


class _AdamVariant(Optimizer):
    """Base of Adam and its variants: the settings that they share, and `others` of their own."""

    def __init__(
        self, params: Iterable[Any], lr: float, betas: Betas, eps: float, weight_decay: float, maximize: bool,
        flags: dict[str, Any], **others: Any,
    ) -> None:  # fmt: skip
        settings = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, **others}
        super().__init__(params, settings, maximize, **flags)


class Adam(_AdamVariant):
    """Kingma and Ba 2015 (https://arxiv.org/abs/1412.6980), with L2 or decoupled weight decay, as torch.optim.Adam. One
    fused kernel per float32 parameter. AMSGrad: Reddi et al. 2018 (https://arxiv.org/abs/1904.09237). A Graph of a step
    counts the steps and follows the settings of the groups at each replay.
    """

    replays = True

    def __init__(
        self, params: Iterable[Any], lr: float = 1e-3, betas: Betas = (0.9, 0.999), eps: float = 1e-8,
        weight_decay: float = 0.0, amsgrad: bool = False, *, maximize: bool = False,
        decoupled_weight_decay: bool = False, **flags: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, maximize, flags, amsgrad=amsgrad,
            decoupled_weight_decay=decoupled_weight_decay,
        )  # fmt: skip
        self._settings = AdamWSettings()
        self._wanted: tuple[float, ...] = ()  # what the settings were made of
        self._replayed: _ReplayedStep | None = None  # while a step is captured

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates every parameter that has a gradient. A `closure` is called first, and its loss is returned."""
        self._wanted, self._replayed = (), None
        return super().step(closure)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        decay, (beta1, beta2) = group["weight_decay"], group["betas"]
        entry = self.state[parameter]
        added: tuple[float, ...] = ()  # L2 weight decay
        if decay and not group["decoupled_weight_decay"]:
            added, decay = (decay,), 0.0
        if capturing():
            _check_replayable(entry, bool(added or group["amsgrad"]))
        if not entry:
            entry.update(step=0, exp_avg=zeros_like(parameter), exp_avg_sq=zeros_like(parameter))
        step = entry["step"] = entry["step"] + 1
        wanted = (id(group), group["lr"], beta1, beta2, group["eps"], decay, step)
        if wanted != self._wanted:  # not as the last parameter
            self._wanted = wanted
            if capturing():
                self._replayed = _ReplayedStep(group)
                self._settings = self._replayed.settings
            self._settings.numbers = _numbers(group, decay, step)
            if self._replayed is not None:
                record_call(self._replayed.advance, (self._settings.on(parameter.device),))
        if self._replayed is not None:
            self._replayed.entries.append(entry)
        if added or group["amsgrad"]:
            self._run_program(parameter, grad, entry, group["amsgrad"], added)
        else:
            adamw_step(parameter, entry["exp_avg"], entry["exp_avg_sq"], grad, self._settings)

    def _run_program(
        self, parameter: Tensor, grad: Tensor, entry: dict[str, Any], amsgrad: bool, added: tuple[float, ...]
    ) -> None:
        """A step with L2 weight decay, or by the largest squares so far instead of their mean."""
        states = [grad, entry["exp_avg"], entry["exp_avg_sq"]]
        if amsgrad:
            if "max_exp_avg_sq" not in entry:
                entry["max_exp_avg_sq"] = zeros_like(parameter)
            states.append(entry["max_exp_avg_sq"])
        rate, beta1, beta2, eps, decay, of_mean, of_squares = self._settings.numbers  # type: ignore[misc]
        numbers = (1 - rate * decay, beta1, 1 - beta1, beta2, 1 - beta2, 1 / sqrt(of_squares), eps, -rate / of_mean)
        update_elements(parameter, tuple(states), _adam(amsgrad, bool(added)), numbers + added)


def _numbers(group: Group, decay: float, step: int) -> AdamWNumbers:
    beta1, beta2 = group["betas"]
    return AdamWNumbers(group["lr"], beta1, beta2, group["eps"], decay, 1 - beta1**step, 1 - beta2**step)


def _check_replayable(entry: dict[str, Any], by_program: bool) -> None:
    """RuntimeError where a Graph of the step would not do what the step does."""
    if by_program:
        raise RuntimeError(
            "a Graph would replay this step with the numbers of today: amsgrad and L2 weight decay cannot be captured"
        )
    if not entry:
        raise RuntimeError(
            "a Graph would write the zeros of the first step's moments again: take one step before the capture"
        )


class _ReplayedStep:
    """Some parameters of one group in a Graph: before their kernels the host counts the step and writes its numbers."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.entries: list[dict[str, Any]] = []  # the states of the parameters
        self.settings = AdamWSettings()

    def advance(self) -> None:
        for entry in self.entries:
            entry["step"] += 1
        self.settings.renew(_numbers(self.group, self.group["weight_decay"], self.entries[0]["step"]))


@cache
def _adam(amsgrad: bool, decays: bool) -> ElementProgram:
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
        weight_decay: float = 0.0, *, maximize: bool = False, **flags: Any,
    ) -> None:  # fmt: skip
        super().__init__(params, lr, betas, eps, weight_decay, maximize, flags)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry, (beta1, beta2) = parameter_state(self, parameter, "exp_avg", "exp_inf"), group["betas"]
        decay, rate = group["weight_decay"], group["lr"] / (1 - beta1 ** entry["step"])
        numbers = (beta1, 1 - beta1, beta2, group["eps"], -rate, *((decay,) if decay else ()))
        update_elements(parameter, (grad, entry["exp_avg"], entry["exp_inf"]), _adamax(bool(decay)), numbers)


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
        weight_decay: float = 0.0, momentum_decay: float = 4e-3, decoupled_weight_decay: bool = False, *,
        maximize: bool = False, **flags: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, maximize, flags, momentum_decay=momentum_decay,
            decoupled_weight_decay=decoupled_weight_decay,
        )  # fmt: skip

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = parameter_state(self, parameter, "exp_avg", "exp_avg_sq", mu_product=1.0)
        step, (beta1, beta2), rate = entry["step"], group["betas"], group["lr"]
        now, following = (beta1 * (1 - 0.5 * 0.96 ** (t * group["momentum_decay"])) for t in (step, step + 1))
        entry["mu_product"] *= now
        keep, decay = _decay_of(group)
        numbers = (
            keep, beta1, 1 - beta1, beta2, 1 - beta2, 1 / sqrt(1 - beta2**step), group["eps"],
            -rate * (1 - now) / (1 - entry["mu_product"]),
            -rate * following / (1 - entry["mu_product"] * following), *decay,
        )  # fmt: skip
        update_elements(parameter, (grad, entry["exp_avg"], entry["exp_avg_sq"]), _nadam(bool(decay)), numbers)


def _decay_of(group: Group) -> tuple[float, tuple[float, ...]]:
    """Weight decay as numbers of a program: the factor of the parameter where it is decoupled, else that of the L2
    term."""
    decay = group["weight_decay"]
    if group["decoupled_weight_decay"]:
        return 1 - group["lr"] * decay, ()
    return 1.0, (decay,) if decay else ()


@cache
def _nadam(decays: bool) -> ElementProgram:
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
        weight_decay: float = 0.0, decoupled_weight_decay: bool = False, *, maximize: bool = False, **flags: Any,
    ) -> None:  # fmt: skip
        super().__init__(
            params, lr, betas, eps, weight_decay, maximize, flags, decoupled_weight_decay=decoupled_weight_decay
        )

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = parameter_state(self, parameter, "exp_avg", "exp_avg_sq")
        step, (beta1, beta2) = entry["step"], group["betas"]
        keep, decay = _decay_of(group)
        rate, correction = group["lr"] / (1 - beta1**step), 1 - beta2**step
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * step * beta2**step / correction
        divides = length > 5
        if divides:
            share = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
            rate *= sqrt(share) * sqrt(correction)
        numbers = (keep, beta1, 1 - beta1, beta2, 1 - beta2, group["eps"], -rate, *decay)
        program = _radam(divides, bool(decay))
        update_elements(parameter, (grad, entry["exp_avg"], entry["exp_avg_sq"]), program, numbers)


@cache
def _radam(divides: bool, decays: bool) -> ElementProgram:
    def radam(
        parameter: Any, grad: Any, mean: Any, squares: Any, keep: Any, beta1: Any, share1: Any, beta2: Any, share2: Any,
        eps: Any, rate: Any, decay: Any = None,
    ) -> Any:  # fmt: skip
        grad = decayed(grad, parameter, decay)
        mean = mean * beta1 + grad * share1
        squares = squares * beta2 + grad * grad * share2
        change = mean / (squares.sqrt() + eps) if divides else mean
        return parameter * keep + change * rate, None, mean, squares

    return ElementProgram(radam, 4, 7 + decays)
