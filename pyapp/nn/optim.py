"""Optimisers by torch.optim's names, with parameter groups and a state that can be saved; and Lion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from math import isfinite
from typing import Any

from ..engine import Tensor, enable_grad, float32, no_grad
from ..engine.launch import KERNELS, launch
from ..engine.lazy import np
from ..engine.op import describe
from ..engine.ops import empty, full, zeros

Group = dict[str, Any]


class Optimizer:
    """Base of the optimisers. `params`: parameters, or groups `{"params": [...], "lr": ..., ...}` whose settings
    override the defaults. `param_groups` are these groups, to be changed at will; `state` is a dict per parameter.
    """

    def __init__(self, params: Iterable[Any], defaults: Mapping[str, Any]) -> None:
        given = list(params)
        if not given:
            raise ValueError(f"{type(self).__name__} got no parameters")
        self.defaults = dict(defaults)
        self.state: dict[Tensor, dict[str, Any]] = {}
        self.param_groups: list[Group] = []
        for group in given if isinstance(given[0], Mapping) else [{"params": given}]:
            self.add_param_group(group)

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """One more group. TypeError for what is no float32 leaf, ValueError for a parameter that is here already."""
        params = group["params"]
        params = [params] if isinstance(params, Tensor) else list(params)
        known = {id(parameter) for other in self.param_groups for parameter in other["params"]}
        for parameter in params:
            if not isinstance(parameter, Tensor):
                raise TypeError(f"{type(self).__name__} takes tensors, got {describe(parameter)}")
            if parameter.dtype is not float32 or not parameter.is_leaf or not parameter.is_contiguous():
                raise TypeError(f"{type(self).__name__} takes dense float32 leaf tensors, got {describe(parameter)}")
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

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forgets all gradients, or sets them to zero."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if set_to_none:
                    parameter.grad = None
                elif parameter.grad is not None:
                    parameter.grad = zeros(parameter.shape)

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
                        self._update(group, parameter, parameter.grad.contiguous())
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
            for name, value in entry.items():
                if isinstance(value, Tensor) and value.shape != parameter.shape:
                    raise ValueError(
                        f"load_state_dict: {name} of parameter {number} is {describe(value)}, "
                        f"the parameter {describe(parameter)}"
                    )
            loaded[parameter] = {k: v.clone() if isinstance(v, Tensor) else v for k, v in entry.items()}
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
    ) -> None:
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("SGD: Nesterov momentum needs a momentum and no dampening")
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
            },
        )

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        values, change = parameter.array(), grad.array()
        if group["weight_decay"]:
            change = change + np.float32(group["weight_decay"]) * values
        momentum = np.float32(group["momentum"])
        if momentum:
            entry = self.state.setdefault(parameter, {})
            if "momentum_buffer" not in entry:
                entry["momentum_buffer"] = zeros(parameter.shape)
                entry["momentum_buffer"].array()[...] = change
            else:
                buffer = entry["momentum_buffer"].array()
                buffer *= momentum
                buffer += np.float32(1 - group["dampening"]) * change
            buffer = entry["momentum_buffer"].array()
            change = change + momentum * buffer if group["nesterov"] else buffer
        values -= np.float32(group["lr"]) * change


class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019, https://arxiv.org/abs/1711.05101), as
    torch.optim.AdamW; one fused kernel per parameter.
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "eps": eps, "weight_decay": weight_decay})
        self._settings = empty(7)

    def _check(self, group: Group) -> None:
        super()._check(group)
        _check_range(self, group, "betas")

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = self.state.get(parameter)
        if entry is None:
            entry = self.state[parameter] = {
                "step": 0, "exp_avg": zeros(parameter.shape), "exp_avg_sq": zeros(parameter.shape),
            }  # fmt: skip
        entry["step"] += 1
        beta1, beta2 = group["betas"]
        corrections = (1 - beta1 ** entry["step"], 1 - beta2 ** entry["step"])
        view = self._settings.data_view()
        for i, value in enumerate((group["lr"], beta1, beta2, group["eps"], group["weight_decay"], *corrections)):
            view[i] = value
        count = parameter.numel()
        addresses = (t.address for t in (parameter, entry["exp_avg"], entry["exp_avg_sq"], grad, self._settings))
        launch(KERNELS["adamw_f32"], 4 * count >> 10, *addresses, count)


def _check_range(optimizer: Optimizer, group: Group, *names: str) -> None:
    for name in names:
        values = group[name] if isinstance(group[name], (tuple, list)) else (group[name],)
        if not all(0 <= value < 1 for value in values):
            raise ValueError(f"{type(optimizer).__name__}: {name} must be in [0, 1), got {group[name]}")


def _decayed(group: Group, values: Any, change: Any) -> Any:
    """The gradient with L2 weight decay."""
    return change + np.float32(group["weight_decay"]) * values if group["weight_decay"] else change


class Adam(AdamW):
    """Kingma and Ba 2015 (https://arxiv.org/abs/1412.6980), weight decay as L2, as torch.optim.Adam. AMSGrad: Reddi et
    al. 2018 (https://arxiv.org/abs/1904.09237).
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        amsgrad: bool = False,
    ) -> None:
        self._amsgrad = amsgrad  # before the groups are checked
        super().__init__(params, lr, betas, eps, weight_decay)
        self.defaults["amsgrad"] = amsgrad

    def _check(self, group: Group) -> None:
        group.setdefault("amsgrad", self._amsgrad)
        super()._check(group)

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        if group["weight_decay"]:
            grad = grad + parameter.detach() * group["weight_decay"]
        if not group["amsgrad"]:
            super()._update({**group, "weight_decay": 0.0}, parameter, grad)  # the fused kernel
            return
        entry = self.state.get(parameter)
        if entry is None:
            names = ("exp_avg", "exp_avg_sq", "max_exp_avg_sq")
            entry = self.state[parameter] = {"step": 0, **{name: zeros(parameter.shape) for name in names}}
        entry["step"] += 1
        beta1, beta2 = group["betas"]
        change = grad.array()
        mean, square, top = (entry[name].array() for name in ("exp_avg", "exp_avg_sq", "max_exp_avg_sq"))
        mean += np.float32(1 - beta1) * (change - mean)
        square *= np.float32(beta2)
        square += np.float32(1 - beta2) * change * change
        np.maximum(top, square, out=top)
        root = np.sqrt(top) / np.float32((1 - beta2 ** entry["step"]) ** 0.5) + np.float32(group["eps"])
        parameter.array()[...] -= np.float32(group["lr"] / (1 - beta1 ** entry["step"])) * mean / root


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
    ) -> None:
        settings = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        super().__init__(params, {**settings, "centered": centered})

    def _check(self, group: Group) -> None:
        super()._check(group)
        _check_range(self, group, "alpha")

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = self.state.setdefault(parameter, {})
        for name, wanted in (
            ("square_avg", True), ("momentum_buffer", group["momentum"] > 0), ("grad_avg", group["centered"])
        ):  # fmt: skip
            if wanted and name not in entry:
                entry[name] = zeros(parameter.shape)
        values = parameter.array()
        change = _decayed(group, values, grad.array())
        rest = np.float32(1 - group["alpha"])
        square = entry["square_avg"].array()
        square *= np.float32(group["alpha"])
        square += rest * change * change
        root = square
        if group["centered"]:
            mean = entry["grad_avg"].array()
            mean += rest * (change - mean)
            root = square - mean * mean
        step = change / (np.sqrt(root) + np.float32(group["eps"]))
        if group["momentum"]:
            buffer = entry["momentum_buffer"].array()
            buffer *= np.float32(group["momentum"])
            buffer += step
            step = buffer
        values -= np.float32(group["lr"]) * step


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
    ) -> None:
        if lr_decay < 0 or initial_accumulator_value < 0:
            raise ValueError("Adagrad: lr_decay and initial_accumulator_value must not be negative")
        settings = {"lr": lr, "lr_decay": lr_decay, "weight_decay": weight_decay, "eps": eps}
        super().__init__(params, {**settings, "initial_accumulator_value": initial_accumulator_value})

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = self.state.get(parameter)
        if entry is None:
            start = full(parameter.shape, float(group["initial_accumulator_value"]))
            entry = self.state[parameter] = {"step": 0, "sum": start}
        entry["step"] += 1
        values = parameter.array()
        change = _decayed(group, values, grad.array())
        total = entry["sum"].array()
        total += change * change
        rate = group["lr"] / (1 + (entry["step"] - 1) * group["lr_decay"])
        values -= np.float32(rate) * change / (np.sqrt(total) + np.float32(group["eps"]))


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
    ) -> None:
        super().__init__(params, {"lr": lr, "betas": tuple(betas), "weight_decay": weight_decay})

    def _check(self, group: Group) -> None:
        super()._check(group)
        _check_range(self, group, "betas")

    def _update(self, group: Group, parameter: Tensor, grad: Tensor) -> None:
        entry = self.state.get(parameter)
        if entry is None:
            entry = self.state[parameter] = {"exp_avg": zeros(parameter.shape)}
        values, change, mean = parameter.array(), grad.array(), entry["exp_avg"].array()
        beta1, beta2 = group["betas"]
        if group["weight_decay"]:
            values *= np.float32(1 - group["lr"] * group["weight_decay"])
        values -= np.float32(group["lr"]) * np.sign(np.float32(beta1) * mean + np.float32(1 - beta1) * change)
        mean *= np.float32(beta2)
        mean += np.float32(1 - beta2) * change
