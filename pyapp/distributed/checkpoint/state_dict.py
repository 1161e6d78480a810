"""The states of a model and its optimisers by the names of parameters, for checkpoints that another number of processes
may load: torch.distributed.checkpoint.state_dict's names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from pyapp.dataclass import dataclass

from ...engine import Tensor, no_grad
from ...engine.ops import zeros_like
from ...engine.user_errors import describe
from ...errors import StateError
from ...nn.data_parallel import DataParallel
from ...nn.distributed_data_parallel import DistributedDataParallel
from ...nn.fully_sharded import full_state_dict, load_full_state_dict
from ...nn.module import Module
from ...nn.state import IncompatibleKeys
from ...optim.optimizer import Optimizer

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "set_model_state_dict",
    "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip


@dataclass(frozen=True)
class StateDictOptions:
    """full_state_dict: whole parameters of a model, on every process; cpu_offload: the state is on the CPU; strict: the
    names must be the model's."""

    full_state_dict: bool = False
    cpu_offload: bool = False
    strict: bool = True


def _bare(model: Module) -> Module:
    """The model inside of DistributedDataParallel, so that names are those of one process."""
    while isinstance(model, DistributedDataParallel | DataParallel):
        model = model.module
    return model


def _own(x: Any, like: Tensor, cpu: bool) -> Any:
    """A value of the state, which says what part of `like` it is if it has its shape."""
    if not isinstance(x, Tensor):
        return x
    found = x.detach()
    found = found.to("cpu") if cpu else found
    if like.part is not None and x.shape != like.shape and x.numel() > 1:
        raise StateError(
            f"the optimiser keeps {describe(x)} for a part of a parameter, {describe(like)}: only what it keeps for "
            "each element can be divided in a checkpoint; take another optimiser, such as AdamW"
        )
    if like.part is not None and x.shape == like.shape:
        found.part, found.shard_groups = like.part, like.shard_groups
    return found


def get_model_state_dict(model: Module, *, options: StateDictOptions | None = None) -> dict[str, Any]:
    """The state of a model. Of parameters that processes divide it has this one's part, and says which it is."""
    options, model = options or StateDictOptions(), _bare(model)
    if options.full_state_dict:
        return full_state_dict(model)
    state = model.state_dict(keep_vars=True)
    return {
        name: _own(x, x, options.cpu_offload) if isinstance(x, Tensor) else x for name, x in state.items()
    }  # fmt: skip


def _each(optimizers: Optimizer | Iterable[Optimizer]) -> list[Optimizer]:
    return [optimizers] if isinstance(optimizers, Optimizer) else list(optimizers)


def _begin(optimizer: Optimizer) -> bool:
    """Gives an optimiser without a state that of a first step, in zeros, for a checkpoint to be read into; returns
    whether it had none. The caller takes it away again: some begin with other numbers than zeros.
    """
    if optimizer.state:
        return False
    every = [parameter for group in optimizer.param_groups for parameter in group["params"] if parameter.requires_grad]
    rates = [group.get("lr") for group in optimizer.param_groups]
    gradients = [parameter.grad for parameter in every]
    with no_grad():
        values = [parameter.detach().clone() for parameter in every]
    for parameter in every:
        parameter.grad = zeros_like(parameter.detach())
    for group in optimizer.param_groups:
        group["lr"] = 0.0
    try:
        optimizer.step()
    except (TypeError, RuntimeError) as error:
        raise StateError(
            f"{type(optimizer).__name__} has made no step yet, and none can be made for its state ({error!s:.150}); "
            "make one before"
        ) from error
    finally:
        for group, rate in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        with no_grad():
            for parameter, gradient, value in zip(every, gradients, values, strict=True):
                parameter.grad = gradient
                parameter.copy_(value)
    with no_grad():
        for state in optimizer.state.values():
            for name, value in state.items():
                if isinstance(value, Tensor):
                    value.zero_()
                elif name == "step":
                    state[name] = 0
    return True


def _names(model: Module) -> dict[int, str]:
    return {id(parameter): name for name, parameter in model.named_parameters()}


def _name_of(names: Mapping[int, str], parameter: Tensor) -> str:
    if id(parameter) not in names:
        raise StateError("the optimiser has a parameter that the model has not")
    return names[id(parameter)]


def get_optimizer_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], *, options: StateDictOptions | None = None
) -> dict[str, Any]:
    """The states of optimisers by the names of the model's parameters, {"state": {NAME: …}, "param_groups": […]}. One
    that has made no step yet gives zeros, which `load` can fill. StateError for an optimiser that keeps something else
    than a number for each element of a divided parameter.
    """
    options, names = options or StateDictOptions(), _names(_bare(model))
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optimizer in _each(optimizers):
        begun = _begin(optimizer)
        every = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        given = optimizer.state_dict()
        for number, entry in given["state"].items():
            parameter = every[int(number)]
            state[_name_of(names, parameter)] = {
                key: _own(value, parameter, options.cpu_offload) for key, value in entry.items()
            }
        if begun:
            optimizer.state.clear()
        for group, own in zip(given["param_groups"], optimizer.param_groups, strict=True):
            groups.append({**group, "params": [_name_of(names, parameter) for parameter in own["params"]]})
    return {"state": state, "param_groups": groups}


def get_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], *, options: StateDictOptions | None = None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """The states of a model and of its optimisers."""
    return get_model_state_dict(model, options=options), get_optimizer_state_dict(model, optimizers, options=options)


def set_model_state_dict(
    model: Module, model_state_dict: Mapping[str, Any], *, options: StateDictOptions | None = None
) -> IncompatibleKeys:
    """Gives a model a state of get_model_state_dict. StateError as load_state_dict."""
    options, model = options or StateDictOptions(), _bare(model)
    if options.full_state_dict:
        return load_full_state_dict(model, model_state_dict, options.strict)
    return model.load_state_dict(model_state_dict, strict=options.strict)


def set_optimizer_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], optim_state_dict: Mapping[str, Any], *,
    options: StateDictOptions | None = None,
) -> None:  # fmt: skip
    """Gives optimisers a state of get_optimizer_state_dict. What has made no step begins anew. StateError for other
    groups of parameters.
    """
    names, groups = _names(_bare(model)), iter(optim_state_dict["param_groups"])
    for optimizer in _each(optimizers):
        numbers: dict[int, Any] = {}
        own_groups = []
        for own in optimizer.param_groups:
            group = next(groups, None)
            wanted = [_name_of(names, parameter) for parameter in own["params"]]
            if group is None or list(group["params"]) != wanted:
                raise StateError("the state has other groups of parameters than the optimisers")
            first = len(numbers)
            for i, name in enumerate(wanted):
                numbers[first + i] = optim_state_dict["state"].get(name)
            own_groups.append({**group, "params": list(range(first, first + len(wanted)))})
        state = {n: entry for n, entry in numbers.items() if entry is not None and entry.get("step") != 0}
        optimizer.load_state_dict({"state": state, "param_groups": own_groups})


def set_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], *, model_state_dict: Mapping[str, Any],
    optim_state_dict: Mapping[str, Any], options: StateDictOptions | None = None,
) -> IncompatibleKeys:  # fmt: skip
    """Gives a model and its optimisers the states of get_state_dict."""
    found = set_model_state_dict(model, model_state_dict, options=options)
    set_optimizer_state_dict(model, optimizers, optim_state_dict, options=options)
    return found
