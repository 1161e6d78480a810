"""More optimisers by torch.optim's names."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import Any

from ..engine import Tensor, ops
from ..engine.lazy import np
from ..engine.op import describe
from ..engine.ops import full_like, zeros_like
from .optim import Group, Optimizer, check_range, decayed


def _entry(optimizer: Optimizer, parameter: Tensor, *names: str, **numbers: Any) -> dict[str, Any]:
    """A parameter's state, at first zeros of its shape by these names, and numbers."""
    entry = optimizer.state.get(parameter)
    if entry is None:
        entry = {"step": 0, **numbers, **{name: zeros_like(parameter) for name in names}}
        optimizer.state[parameter] = entry
    entry["step"] += 1
    return entry


def _moved(mean: Any, towards: Any, share: float) -> Any:
    """mean, moved by a share of the way, in place."""
    mean += share * (towards - mean)
    return mean


def _squares(entry: dict[str, Any], change: Any, beta: float) -> Any:
    """The moving mean of the squares, updated."""
    square = entry["exp_avg_sq"].array()
    square *= beta
    square += (1 - beta) * change * change
    return square


class Adadelta(Optimizer):
    """Steps as long as those before, by their moving root mean square (Zeiler 2012, https://arxiv.org/abs/1212.5701)."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **manners: Any,
    ) -> None:
        super().__init__(params, {"lr": lr, "rho": rho, "eps": eps, "weight_decay": weight_decay}, maximize, **manners)

    def _check(self, group: Group) -> None:
        super()._check(group)
        check_range(self, group, "rho", last=True)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = _entry(self, parameter, "square_avg", "acc_delta")
        values, rho, eps = parameter.array(), group["rho"], group["eps"]
        change = decayed(group, values, grad.array())
        square, before = entry["square_avg"].array(), entry["acc_delta"].array()
        square *= rho
        square += (1 - rho) * change * change
        step = np.sqrt(before + eps) / np.sqrt(square + eps) * change
        before *= rho
        before += (1 - rho) * step * step
        values -= group["lr"] * step


class Adamax(Optimizer):
    """Adam by the largest gradient instead of the root mean square (Kingma and Ba 2015)."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **manners: Any,
    ) -> None:
        settings = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, settings, maximize, **manners)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = _entry(self, parameter, "exp_avg", "exp_inf")
        values, (beta1, beta2) = parameter.array(), group["betas"]
        change = decayed(group, values, grad.array())
        mean = _moved(entry["exp_avg"].array(), change, 1 - beta1)
        top = entry["exp_inf"].array()
        np.maximum(top * beta2, np.abs(change) + group["eps"], out=top)
        values -= (group["lr"] / (1 - beta1 ** entry["step"])) * mean / top


class NAdam(Optimizer):
    """Adam with Nesterov's momentum (Dozat 2016); weight decay as L2 unless it is decoupled."""

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
        **manners: Any,
    ) -> None:
        settings = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay}
        more = {"momentum_decay": momentum_decay, "decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, {**settings, **more}, maximize, **manners)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = _entry(self, parameter, "exp_avg", "exp_avg_sq", mu_product=1.0)
        values, step, (beta1, beta2), rate = parameter.array(), entry["step"], group["betas"], group["lr"]
        change = _shrunk(group, values, grad.array())
        now, following = (beta1 * (1 - 0.5 * 0.96 ** (t * group["momentum_decay"])) for t in (step, step + 1))
        entry["mu_product"] *= now
        mean = _moved(entry["exp_avg"].array(), change, 1 - beta1)
        root = np.sqrt(_squares(entry, change, beta2) / (1 - beta2**step)) + group["eps"]
        values -= (rate * (1 - now) / (1 - entry["mu_product"])) * change / root
        values -= (rate * following / (1 - entry["mu_product"] * following)) * mean / root


def _shrunk(group: Group, values: Any, change: Any) -> Any:
    """The gradient with L2 weight decay; or itself, and the values shrunk, where it is decoupled."""
    if not group["decoupled_weight_decay"]:
        return decayed(group, values, change)
    values *= 1 - group["lr"] * group["weight_decay"]
    return change


class RAdam(Optimizer):
    """Adam that does not divide by the squares before it knows their spread (Liu et al. 2019,
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
        **manners: Any,
    ) -> None:
        settings = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay}
        super().__init__(params, {**settings, "decoupled_weight_decay": decoupled_weight_decay}, maximize, **manners)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = _entry(self, parameter, "exp_avg", "exp_avg_sq")
        values, step, (beta1, beta2) = parameter.array(), entry["step"], group["betas"]
        change = _shrunk(group, values, grad.array())
        mean = _moved(entry["exp_avg"].array(), change, 1 - beta1) / (1 - beta1**step)
        square, correction = _squares(entry, change, beta2), 1 - beta2**step
        limit = 2 / (1 - beta2) - 1
        length = limit - 2 * step * beta2**step / correction
        if length > 5:
            share = (length - 4) * (length - 2) * limit / ((limit - 4) * (limit - 2) * length)
            mean = mean * (sqrt(share) * sqrt(correction)) / (np.sqrt(square) + group["eps"])
        values -= group["lr"] * mean


class ASGD(Optimizer):
    """SGD with a falling rate, which keeps the mean of the parameters from step `t0` on in its state "ax" (Polyak and
    Juditsky 1992).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0.0,
        *,
        maximize: bool = False,
        **manners: Any,
    ) -> None:
        settings = {"lr": lr, "lambd": lambd, "alpha": alpha, "t0": t0, "weight_decay": weight_decay}
        super().__init__(params, settings, maximize, **manners)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = _entry(self, parameter, "ax", eta=group["lr"], mu=1.0)
        values, rate = parameter.array(), entry["eta"]
        change = decayed(group, values, grad.array())
        values *= 1 - group["lambd"] * rate
        values -= rate * change
        _moved(entry["ax"].array(), values, entry["mu"])
        entry["eta"] = group["lr"] / (1 + group["lambd"] * group["lr"] * entry["step"]) ** group["alpha"]
        entry["mu"] = 1 / max(1, entry["step"] - group["t0"])


class Rprop(Optimizer):
    """By the gradient's sign alone, with a step for each element that grows while the sign stays (Riedmiller and Braun
    1993).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50.0),
        *,
        maximize: bool = False,
        **manners: Any,
    ) -> None:
        if not 0 < etas[0] < 1 < etas[1]:
            raise ValueError(f"Rprop: etas must lie below and above 1, got {etas}")
        settings = {"lr": lr, "etas": tuple(etas), "step_sizes": tuple(step_sizes)}
        super().__init__(params, settings, maximize, **manners)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        first = parameter not in self.state
        entry = _entry(self, parameter, "prev")
        if first:
            entry["step_size"] = full_like(parameter, float(group["lr"]))
        change, size, before = grad.array(), entry["step_size"].array(), entry["prev"].array()
        same = np.sign(change * before)
        lower, higher = group["etas"]
        factor = np.where(same > 0, higher, np.where(same < 0, lower, 1.0))
        size[...] = np.clip(size * factor, *group["step_sizes"])
        change = np.where(same < 0, 0.0, change)
        parameter.array()[...] -= np.sign(change) * size
        before[...] = change


class Adafactor(Optimizer):
    """Squares of a matrix kept by their rows and columns alone, steps by the size of the parameter (Shazeer and Stern
    2018, https://arxiv.org/abs/1804.04235). eps: (of the squares, the dtype's unless given; of the parameter's size).
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
        **manners: Any,
    ) -> None:
        if beta2_decay > 0 or d < 1:
            raise ValueError(f"Adafactor: needs beta2_decay <= 0 and d >= 1, got {beta2_decay}, {d}")
        settings = {"lr": lr, "beta2_decay": beta2_decay, "eps": tuple(eps), "d": d, "weight_decay": weight_decay}
        super().__init__(params, settings, maximize, **manners)

    def _check(self, group: Group) -> None:
        super()._check({**group, "eps": group["eps"][1]})

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        first = parameter not in self.state
        entry = _entry(self, parameter)
        values, change = parameter.array(), grad.array()
        floor = np.finfo(values.dtype).eps if group["eps"][0] is None else group["eps"][0]
        if first and change.ndim > 1:
            entry["row_var"] = ops.zeros((*change.shape[:-1], 1), dtype=parameter.dtype)
            entry["col_var"] = ops.zeros((*change.shape[:-2], 1, change.shape[-1]), dtype=parameter.dtype)
        elif first:
            entry["variance"] = zeros_like(parameter)
        share = entry["step"] ** group["beta2_decay"]
        size = max(group["eps"][1], float(np.linalg.norm(values)) / sqrt(values.size))
        rate = size * min(group["lr"], 1 / sqrt(entry["step"]))
        if group["weight_decay"]:
            values *= 1 - group["lr"] * group["weight_decay"]
        squares = change * change
        if change.ndim > 1:
            rows = _moved(entry["row_var"].array(), squares.mean(-1, keepdims=True), share)
            columns = _moved(entry["col_var"].array(), squares.mean(-2, keepdims=True), share)
            spread = rows @ columns / np.maximum(rows.mean(-2, keepdims=True), floor)
        else:
            spread = _moved(entry["variance"].array(), squares, share)
        step = change / np.sqrt(np.maximum(spread, floor * floor))
        values -= rate / max(1.0, float(np.linalg.norm(step)) / (sqrt(step.size) * group["d"])) * step


class Muon(Optimizer):
    """Momentum of matrices made nearly orthogonal by a Newton-Schulz iteration, in float32 (Jordan 2024,
    https://kellerjordan.github.io/posts/muon). `adjust_lr_fn`: "original" or "match_rms_adamw". Other parameters than
    matrices belong to another optimiser.
    """

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
        if adjust_lr_fn not in (None, "original", "match_rms_adamw"):
            raise ValueError(f"Muon: adjust_lr_fn is 'original' or 'match_rms_adamw', not {adjust_lr_fn!r}")
        settings = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov, "eps": eps}
        iteration = {"ns_coefficients": tuple(ns_coefficients), "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn}
        super().__init__(params, {**settings, **iteration})

    def _check(self, group: Group) -> None:
        super()._check(group)
        for parameter in group["params"]:
            if parameter.ndim != 2:
                raise ValueError(f"Muon: takes matrices, got {describe(parameter)}")

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = _entry(self, parameter, "momentum_buffer")
        values, change = parameter.array(), grad.array()
        buffer = _moved(entry["momentum_buffer"].array(), change, 1 - group["momentum"])
        step = change + group["momentum"] * (buffer - change) if group["nesterov"] else buffer
        rows, columns = values.shape
        turned = rows > columns
        x = step.T if turned else step
        x = x / max(float(np.linalg.norm(x)), group["eps"])
        a, b, c = group["ns_coefficients"]
        for _ in range(group["ns_steps"]):
            gram = x @ x.T
            x = a * x + (b * gram + c * (gram @ gram)) @ x
        wide = (
            sqrt(max(1, rows / columns))
            if group["adjust_lr_fn"] != "match_rms_adamw"
            else 0.2 * sqrt(max(rows, columns))
        )
        values *= 1 - group["lr"] * group["weight_decay"]
        values -= group["lr"] * wide * (x.T if turned else x)
