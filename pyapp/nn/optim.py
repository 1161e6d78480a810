"""Optimisers by torch.optim's names, with parameter groups and a state that can be saved; and Lion."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from copy import deepcopy
from math import isfinite
from typing import Any

from ..engine import Tensor, enable_grad, float32, float64, no_grad
from ..engine.launch import KERNELS, launch
from ..engine.lazy import np
from ..engine.op import describe
from ..engine.ops import empty, full_like, zeros_like

Group = dict[str, Any]
# How torch goes about it, which changes no result: taken, and of no effect here.
_MANNERS = {"foreach", "fused", "capturable", "differentiable"}
_COUNTS = {"step", "mu_product", "eta", "mu"}  # numbers here, tensors of one element in torch's states


class Optimizer:
    """Base of the optimisers. `params`: parameters, (name, parameter) pairs, or groups `{"params": [...], "lr": ...,
    ...}` whose settings override the defaults. `param_groups` are these groups, to be changed at will; `state` is a
    dict per parameter. With `maximize` they go up instead of down. torch's `foreach`, `fused` and `capturable` are
    taken and do nothing.
    """

    def __init__(
        self, params: Iterable[Any], defaults: Mapping[str, Any], maximize: bool = False, **manners: Any
    ) -> None:
        name = type(self).__name__
        if isinstance(params, Tensor):
            raise TypeError(f"{name} takes a list of parameters or of groups, got {describe(params)}")
        given: list[Any] = list(params)
        if not given:
            raise ValueError(f"{name} got no parameters")
        if manners.keys() - _MANNERS:
            raise TypeError(f"{name} has no setting {', '.join(sorted(manners.keys() - _MANNERS))}")
        if manners.get("differentiable"):
            raise NotImplementedError(f"{name}: steps have no gradients; compute them without an optimiser")
        self.defaults = {**defaults, "maximize": maximize}
        self.state: dict[Tensor, dict[str, Any]] = defaultdict(dict)  # as torch, for optimisers of one's own
        self.param_groups: list[Group] = []
        for group in given if isinstance(given[0], Mapping) else [{"params": given}]:
            self.add_param_group(group)

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """One more group. TypeError for what is no float32 or float64 leaf, ValueError for a parameter that is here
        already.
        """
        params = group["params"]
        params = [params] if isinstance(params, Tensor) else [p[1] if isinstance(p, tuple) else p for p in params]
        known = {id(parameter) for other in self.param_groups for parameter in other["params"]}
        for parameter in params:
            if not isinstance(parameter, Tensor):
                raise TypeError(f"{type(self).__name__} takes tensors, got {describe(parameter)}")
            fits = parameter.dtype in (float32, float64) and parameter.is_leaf and parameter.is_contiguous()
            if not fits:
                raise (TypeError if parameter.is_leaf else ValueError)(
                    f"{type(self).__name__} takes dense float32 or float64 leaf tensors, got {describe(parameter)}"
                )
            if id(parameter) in known:
                raise ValueError(f"{type(self).__name__}: a parameter {describe(parameter)} is in two groups")
            known.add(id(parameter))
        merged = {**self.defaults, **group, "params": params}
        self._check(merged)
        self.param_groups.append(merged)

    def _check(self, group: Group) -> None:
        for name in ("lr", "weight_decay", "eps", "momentum"):
            value = group.get(name, 0.0)
            if not (isfinite(value) and value >= 0):
                raise ValueError(f"{type(self).__name__}: {name} must be a number >= 0, got {value}")
        if "betas" in group:
            check_range(self, group, "betas")

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets all gradients, or sets them to zero."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none:
                    parameter.grad = None
                elif parameter.grad is not None:
                    parameter.grad = zeros_like(parameter)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Changes every parameter that has a gradient; after `closure()`, whose loss it returns, where there is one."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        with no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        grad = -parameter.grad if group["maximize"] else parameter.grad
                        self._update(group, parameter, grad.contiguous())
                        parameter.storage.version += 1
        return loss

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        raise NotImplementedError

    def state_dict(self) -> dict[str, Any]:
        """`state` by the parameter's number and the groups' settings, sharing memory with the optimiser."""
        numbers: dict[Tensor, int] = {}
        groups = []
        for group in self.param_groups:
            for parameter in group["params"]:
                numbers[parameter] = len(numbers)
            kept = {name: value for name, value in group.items() if name != "params"}
            groups.append({**kept, "params": [numbers[parameter] for parameter in group["params"]]})
        return {"state": {numbers[p]: dict(entry) for p, entry in self.state.items()}, "param_groups": groups}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes what state_dict gave; tensors are copied. ValueError where the groups do not fit."""
        groups = state["param_groups"]
        if [len(group["params"]) for group in groups] != [len(group["params"]) for group in self.param_groups]:
            raise ValueError("load_state_dict: the state has other parameter groups than the optimiser")
        every = [parameter for group in self.param_groups for parameter in group["params"]]
        loaded: dict[Tensor, dict[str, Any]] = {}
        for number, entry in state["state"].items():
            parameter = every[int(number)]
            entry = {k: v.item() if isinstance(v, Tensor) and k in _COUNTS else v for k, v in entry.items()}
            for name, value in entry.items():
                reduced = name in ("row_var", "col_var")
                if isinstance(value, Tensor) and value.shape != parameter.shape and not reduced:
                    raise ValueError(
                        f"load_state_dict: {name} of parameter {number} is {describe(value)}, "
                        f"the parameter {describe(parameter)}"
                    )
            loaded[parameter] = deepcopy(entry)
        self.state = loaded
        for own, group in zip(self.param_groups, groups, strict=True):
            own.update({name: value for name, value in group.items() if name != "params"})

    def __repr__(self) -> str:
        groups = [{k: v for k, v in group.items() if k != "params"} for group in self.param_groups]
        return f"{type(self).__name__}({', '.join(map(repr, groups))})"


class SGD(Optimizer):
    """Stochastic gradient descent with momentum, Nesterov's variant and L2 weight decay, as torch.optim.SGD."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        momentum: float = 0.0,
        dampening: float = 0.0,
        weight_decay: float = 0.0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        **manners: Any,
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("SGD: Nesterov momentum needs a momentum and no dampening")
        settings = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        super().__init__(params, {**settings, "nesterov": nesterov}, maximize, **manners)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        values, change = parameter.array(), grad.array()
        if group["weight_decay"]:
            change = change + group["weight_decay"] * values
        momentum = group["momentum"]
        if momentum:
            entry = self.state.setdefault(parameter, {})
            if "momentum_buffer" not in entry:
                entry["momentum_buffer"] = zeros_like(parameter)
                entry["momentum_buffer"].array()[...] = change
            else:
                buffer = entry["momentum_buffer"].array()
                buffer *= momentum
                buffer += (1 - group["dampening"]) * change
            buffer = entry["momentum_buffer"].array()
            change = change + momentum * buffer if group["nesterov"] else buffer
        values -= group["lr"] * change


def check_range(optimizer: Optimizer, group: Group, *names: str, last: bool = False) -> None:
    """ValueError for settings outside [0, 1), or [0, 1] if `last`."""
    for name in names:
        values = group[name] if isinstance(group[name], (tuple, list)) else (group[name],)
        if not all(0 <= value < 1 or (last and value == 1) for value in values):
            raise ValueError(f"{type(optimizer).__name__}: {name} must be in [0, 1), got {group[name]}")


def decayed(group: Group, values: Any, change: Any) -> Any:
    """The gradient with L2 weight decay."""
    return change + group["weight_decay"] * values if group["weight_decay"] else change


class Adam(Optimizer):
    """Kingma and Ba 2015 (https://arxiv.org/abs/1412.6980), weight decay as L2 unless it is decoupled, as
    torch.optim.Adam; one fused kernel per float32 parameter. AMSGrad: Reddi et al. 2018
    (https://arxiv.org/abs/1904.09237).
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
        **manners: Any,
    ) -> None:
        settings = {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad}
        decoupled = {"decoupled_weight_decay": decoupled_weight_decay}
        super().__init__(params, {**settings, **decoupled}, maximize, **manners)
        self._settings = empty(7)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        decay = group["weight_decay"]
        if decay and not group["decoupled_weight_decay"]:
            grad, decay = grad + parameter.detach() * decay, 0.0
        names = ("exp_avg", "exp_avg_sq", *(("max_exp_avg_sq",) if group["amsgrad"] else ()))
        entry = self.state.setdefault(parameter, {"step": 0})
        for name in names:
            if name not in entry:
                entry[name] = zeros_like(parameter)
        entry["step"] += 1
        beta1, beta2 = group["betas"]
        corrections = (1 - beta1 ** entry["step"], 1 - beta2 ** entry["step"])
        if group["amsgrad"] or parameter.dtype is not float32:
            self._update_array(group, parameter, grad.array(), decay, corrections)
            return
        view = self._settings.data_view()
        for i, value in enumerate((group["lr"], beta1, beta2, group["eps"], decay, *corrections)):
            view[i] = value
        count = parameter.numel()
        addresses = (t.address for t in (parameter, entry["exp_avg"], entry["exp_avg_sq"], grad, self._settings))
        launch(KERNELS["adamw_f32"], 4 * count >> 10, *addresses, count)

    def _update_array(
        self, group: Group, parameter: Tensor, change: Any, decay: float, corrections: tuple[float, float]
    ) -> None:
        entry, (beta1, beta2) = self.state[parameter], group["betas"]
        values = parameter.array()
        values *= 1 - group["lr"] * decay
        mean, square = entry["exp_avg"].array(), entry["exp_avg_sq"].array()
        mean += (1 - beta1) * (change - mean)
        square *= beta2
        square += (1 - beta2) * change * change
        if group["amsgrad"]:
            top = entry["max_exp_avg_sq"].array()
            square = np.maximum(top, square, out=top)
        root = np.sqrt(square) / corrections[1] ** 0.5 + group["eps"]
        values -= (group["lr"] / corrections[0]) * mean / root


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
        **manners: Any,
    ) -> None:
        super().__init__(
            params, lr, betas, eps, weight_decay, amsgrad, maximize=maximize, decoupled_weight_decay=True, **manners
        )


class RMSprop(Optimizer):
    """The gradient divided by a moving root mean square (Tieleman and Hinton 2012), as torch.optim.RMSprop."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
        centered: bool = False,
        *,
        maximize: bool = False,
        **manners: Any,
    ) -> None:
        settings = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(params, {**settings, "centered": centered}, maximize, **manners)

    def _check(self, group: Group) -> None:
        super()._check(group)
        check_range(self, group, "alpha")

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = self.state.setdefault(parameter, {})
        for name, wanted in (
            ("square_avg", True), ("momentum_buffer", group["momentum"] > 0), ("grad_avg", group["centered"])
        ):  # fmt: skip
            if wanted and name not in entry:
                entry[name] = zeros_like(parameter)
        values = parameter.array()
        change = decayed(group, values, grad.array())
        rest = 1 - group["alpha"]
        square = entry["square_avg"].array()
        square *= group["alpha"]
        square += rest * change * change
        root = square
        if group["centered"]:
            mean = entry["grad_avg"].array()
            mean += rest * (change - mean)
            root = square - mean * mean
        step = change / (np.sqrt(root) + group["eps"])
        if group["momentum"]:
            buffer = entry["momentum_buffer"].array()
            buffer *= group["momentum"]
            buffer += step
            step = buffer
        values -= group["lr"] * step


class Adagrad(Optimizer):
    """The gradient divided by the root of the sum of all squares (Duchi et al. 2011), as torch.optim.Adagrad."""

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-2,
        lr_decay: float = 0.0,
        weight_decay: float = 0.0,
        initial_accumulator_value: float = 0.0,
        eps: float = 1e-10,
        *,
        maximize: bool = False,
        **manners: Any,
    ) -> None:
        if lr_decay < 0 or initial_accumulator_value < 0:
            raise ValueError("Adagrad: lr_decay and initial_accumulator_value must not be negative")
        settings = {"lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay, "eps": eps}
        start = {"initial_accumulator_value": initial_accumulator_value}
        super().__init__(params, {**settings, **start}, maximize, **manners)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = self.state.get(parameter)
        if entry is None:
            start = full_like(parameter, float(group["initial_accumulator_value"]))
            entry = self.state[parameter] = {"step": 0, "sum": start}
        entry["step"] += 1
        values = parameter.array()
        change = decayed(group, values, grad.array())
        total = entry["sum"].array()
        total += change * change
        rate = group["lr"] / (1 + (entry["step"] - 1) * group["lr_decay"])
        values -= rate * change / (np.sqrt(total) + group["eps"])


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
        entry = self.state.get(parameter)
        if entry is None:
            entry = self.state[parameter] = {"exp_avg": zeros_like(parameter)}
        values, change, mean = parameter.array(), grad.array(), entry["exp_avg"].array()
        beta1, beta2 = group["betas"]
        if group["weight_decay"]:
            values *= 1 - group["lr"] * group["weight_decay"]
        values -= group["lr"] * np.sign(beta1 * mean + (1 - beta1) * change)
        mean *= beta2
        mean += (1 - beta2) * change
