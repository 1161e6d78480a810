"""Adam and its variants: AdamW, Adamax, NAdam, RAdam."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import Any

from ..engine import Tensor
from ..engine.claims import optimizer_steps as _claims  # noqa: F401 (the kernel of adamw_step)
from ..engine.ops import maximum, zeros_like
from ..engine.ops.optimizer_steps import AdamWNumbers, AdamWSettings, adamw_step
from .optimizer import (
    Group,
    Optimizer,
    add_scaled,
    decay_parameter,
    parameter_state,
    subtract_ratio,
    update_mean,
    update_squares,
    with_decay,
)

__all__ = ["Adam", "AdamW", "Adamax", "NAdam", "RAdam"]


class Adam(Optimizer):
    """Kingma and Ba 2015 (https://arxiv.org/abs/1412.6980), with L2 or decoupled weight decay, as torch.optim.Adam. One
    fused kernel per float32 parameter. AMSGrad: Reddi et al. 2018 (https://arxiv.org/abs/1904.09237).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        decoupled_weight_decay: bool = False,
        **flags: Any,
    ) -> None:
        settings = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad}
        decoupled = {"decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, {**settings, **decoupled}, maximize, **flags)
        self._settings = AdamWSettings()

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        decay = group["weight_decay"]
        if decay and not group["decoupled_weight_decay"]:
            grad, decay = with_decay(group, parameter, grad), 0.0
        entry = self.state[parameter]
        if not entry:
            entry.update(step=0, exp_avg=zeros_like(parameter), exp_avg_sq=zeros_like(parameter))
        largest = entry.get("max_exp_avg_sq") if group["amsgrad"] else None
        if group["amsgrad"] and largest is None:
            largest = entry["max_exp_avg_sq"] = zeros_like(parameter)
        entry["step"] += 1
        beta1, beta2 = group["betas"]
        corrections = (1 - beta1 ** entry["step"], 1 - beta2 ** entry["step"])
        self._settings.numbers = AdamWNumbers(group["lr"], beta1, beta2, group["eps"], decay, *corrections)
        adamw_step(parameter, entry["exp_avg"], entry["exp_avg_sq"], grad, self._settings, largest)


class AdamW(Adam):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101), as
    torch.optim.AdamW.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        **flags: Any,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, decoupled_weight_decay=True, **flags
        )


class Adamax(Optimizer):
    """Adam with the largest gradient in place of the root mean square (Kingma and Ba 2015)."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **flags: Any,
    ) -> None:
        settings = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, settings, maximize, **flags)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry, (beta1, beta2) = parameter_state(self, parameter, "exp_avg", "exp_inf"), group["betas"]
        grad = with_decay(group, parameter, grad)
        mean, largest = update_mean(entry["exp_avg"], grad, 1 - beta1), entry["exp_inf"]
        largest.copy_(maximum(largest * beta2, grad.abs().add_(group["eps"])))
        subtract_ratio(parameter, mean, largest, group["lr"] / (1 - beta1 ** entry["step"]))


class NAdam(Optimizer):
    """Adam with Nesterov's momentum (Dozat 2016); L2 or decoupled weight decay."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        **flags: Any,
    ) -> None:
        settings = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay}
        more = {"momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, {**settings, **more}, maximize, **flags)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = parameter_state(self, parameter, "exp_avg", "exp_avg_sq", mu_product=1.0)
        step, (beta1, beta2), rate = entry["step"], group["betas"], group["lr"]
        grad = _decayed(group, parameter, grad)
        now, following = (beta1 * (1 - 0.5 * 0.96 ** (t * group["momentum_decay"])) for t in (step, step + 1))
        entry["mu_product"] *= now
        mean = update_mean(entry["exp_avg"], grad, 1 - beta1)
        squares = update_squares(entry["exp_avg_sq"], grad, beta2)
        root = (squares / (1 - beta2**step)).sqrt_().add_(group["eps"])
        subtract_ratio(parameter, grad, root, rate * (1 - now) / (1 - entry["mu_product"]))
        subtract_ratio(parameter, mean, root, rate * following / (1 - entry["mu_product"] * following))


def _decayed(group: Group, parameter: Tensor, grad: Tensor) -> Tensor:
    """The gradient with L2 weight decay; with decoupled decay the gradient unchanged, after shrinking the parameter."""
    if not group["decoupled_weight_decay"]:
        return with_decay(group, parameter, grad)
    decay_parameter(group, parameter)
    return grad


class RAdam(Optimizer):
    """Adam that divides by the squares only after their variance is known (Liu et al. 2019,
    https://arxiv.org/abs/1908.03265).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        decoupled_weight_decay: bool = False,
        *,
        maximize: bool = False,
        **flags: Any,
    ) -> None:
        settings = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**settings, "decoupled_weight_decay": decoupled_weight_decay}, maximize, **flags)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = parameter_state(self, parameter, "exp_avg", "exp_avg_sq")
        step, (beta1, beta2) = entry["step"], group["betas"]
        grad = _decayed(group, parameter, grad)
        mean = update_mean(entry["exp_avg"], grad, 1 - beta1)
        squares = update_squares(entry["exp_avg_sq"], grad, beta2)
        rate, correction = group["lr"] / (1 - beta1**step), 1 - beta2**step
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * step * beta2**step / correction
        if length > 5:
            share = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
            root = squares.sqrt().add_(group["eps"])
            subtract_ratio(parameter, mean, root, rate * sqrt(share) * sqrt(correction))
        else:
            add_scaled(parameter, mean, -rate)
