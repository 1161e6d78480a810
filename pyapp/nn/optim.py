"""Optimisers: SGD and AdamW with parameter groups and a state that can be saved, as in torch.optim."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf, isfinite
from typing import Any

from ..engine import Tensor, float32, no_grad
from ..engine.launch import KERNELS, launch
from ..engine.lazy import np
from ..engine.op import describe
from ..engine.ops import empty, zeros

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

    def zero_grad(self) -> None:
        """Forgets all gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    def step(self) -> None:
        """Changes every parameter that has a gradient."""
        with no_grad():
            for group in self.param_groups:
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        self._update(group, parameter, parameter.grad.contiguous())
                        parameter.storage.version += 1

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
        if not all(0 <= beta < 1 for beta in group["betas"]):
            raise ValueError(f"AdamW: betas must be in [0, 1), got {group['betas']}")

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


def clip_grad_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0) -> float:
    """Scales all gradients together so that their norm is at most `max_norm`; returns the norm before.

    The sum is made in float64 and in the order of the parameters: the same on every machine with the same gradients.
    """
    every = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    grads = [parameter.grad for parameter in every if parameter.grad is not None]
    arrays = [grad.contiguous().array() for grad in grads]
    if norm_type == inf:
        total = max((float(np.abs(array).max(initial=0)) for array in arrays), default=0.0)
    elif norm_type == 2.0:
        total = sum(float(np.square(array, dtype=np.float64).sum()) for array in arrays) ** 0.5
    else:
        powers = (float((np.abs(array).astype(np.float64) ** norm_type).sum()) for array in arrays)
        total = sum(powers) ** (1 / norm_type)
    scale = max_norm / (total + 1e-6)
    if scale < 1:
        with no_grad():
            for grad in grads:
                grad.array()[...] *= np.float32(scale)
    return total
