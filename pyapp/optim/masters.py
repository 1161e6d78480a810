"""Optimisers of float16 and bfloat16 weights: they update float32 copies, from which the weights are rounded
(Micikevicius et al. 2018, arXiv 1710.03740). Without them small updates vanish in the rounding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..engine import Tensor, enable_grad, no_grad
from ..engine.ops import empty
from .optimizer import Group, Optimizer

__all__ = ["MasterWeights"]


class MasterWeights(Optimizer):
    """`MasterWeights(AdamW, model.parameters(), lr=1e-4)`: an optimiser of the given class for parameters of any
    floating-point dtype. Those that are not float32 or float64 have float32 copies, the masters, which it updates; each
    step writes them to the parameters, rounded. Settings, groups and schedules are those of the class.

    state_dict() has the masters as "master" beside the state of their parameters. Without `copy` the masters are empty
    until `copy_parameters`, for parameters that are divided among processes before the first step.
    """

    def __init__(
        self, kind: Callable[..., Optimizer], params: Iterable[Any], *, copy: bool = True, **settings: Any
    ) -> None:
        given: list[Any] = list(params)
        grouped = bool(given) and isinstance(given[0], Mapping)
        groups: list[Mapping[str, Any]] = given if grouped else [{"params": given}]
        pairs: dict[Tensor, Tensor] = {}  # by master: its parameter

        def master(parameter: Any) -> Any:
            parameter = parameter[1] if isinstance(parameter, tuple) else parameter
            if not isinstance(parameter, Tensor) or parameter.dtype.name not in ("float16", "bfloat16"):
                return parameter
            values = parameter.detach() if copy else empty(0, device=parameter.device)
            made = values.float().requires_grad_()
            pairs[made] = parameter
            return made

        masters = [{**group, "params": [master(p) for p in _several(group["params"])]} for group in groups]
        self.optimizer = kind(masters if grouped else masters[0]["params"], **settings)
        self.parameters = pairs
        self.defaults = self.optimizer.defaults

    def copy_parameters(self) -> None:
        """Makes the masters anew from the parameters, of which each process may have only a part by now
        (`nn.fully_sharded`). Before the first step.
        """
        with no_grad():
            for master, parameter in self.parameters.items():
                master.data = parameter.detach().float()
                master.part, master.shard_groups = parameter.part, parameter.shard_groups

    @property
    def param_groups(self) -> list[Group]:  # type: ignore[override]
        """The groups of the optimiser: their params are the masters."""
        return self.optimizer.param_groups

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The state of the optimiser, by master."""
        return self.optimizer.state

    def zero_grad(self, set_to_none: bool = True) -> None:
        self.optimizer.zero_grad(set_to_none)
        for parameter in self.parameters.values():
            if set_to_none or parameter.grad is None:
                parameter.grad = None
            else:
                parameter.grad = parameter.new_zeros(parameter.shape)

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates the masters by the gradients of their parameters, and writes them to the parameters."""
        loss = None
        if closure is not None:
            with enable_grad():
                loss = closure()
        for master, parameter in self.parameters.items():
            master.grad = None if parameter.grad is None else parameter.grad.float()
        self.optimizer.step()
        with no_grad():
            for master, parameter in self.parameters.items():
                master.grad = None
                parameter.copy_(master)
        return loss

    def state_dict(self) -> dict[str, Any]:
        found = self.optimizer.state_dict()
        every = [parameter for group in self.param_groups for parameter in group["params"]]
        for number, parameter in enumerate(every):
            if parameter in self.parameters:
                found["state"].setdefault(number, {})["master"] = parameter.detach()
        return found

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a state of state_dict, and the parameters from its masters. ValueError if it does not fit."""
        every = [parameter for group in self.param_groups for parameter in group["params"]]
        entries = {int(number): dict(entry) for number, entry in state["state"].items()}
        masters = {every[number]: entry.pop("master", None) for number, entry in entries.items()}
        for master in self.parameters:
            value = masters.get(master)
            if value is None or value.shape != master.shape:
                raise ValueError("load_state_dict: the state has no master of a parameter, or one of another shape")
        self.optimizer.load_state_dict({**state, "state": {n: entry for n, entry in entries.items() if entry}})
        with no_grad():
            for master, parameter in self.parameters.items():
                master.copy_(masters[master].to(master.device))
                parameter.copy_(master)


def _several(params: Any) -> list[Any]:
    return [params] if isinstance(params, Tensor) else list(params)
