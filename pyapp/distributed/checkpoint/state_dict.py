"""The states of a model and its optimisers by the names of parameters, for checkpoints that another number of processes
may load: torch.distributed.checkpoint.state_dict's names.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from pyapp.dataclass import dataclass

from ...engine import Tensor, no_grad
from ...engine.ops import empty, zeros_like
from ...engine.processes.collectives import broadcast, broadcast_object_list
from ...engine.processes.group import ProcessGroup, group_or_world, is_initialized
from ...engine.user_errors import describe
from ...errors import StateError
from ...nn.data_parallel import DataParallel
from ...nn.distributed_data_parallel import DistributedDataParallel
from ...nn.fully_sharded import full_state_dict, load_full_state_dict
from ...nn.module import Module
from ...nn.part import kept_of, whole_of
from ...nn.state import IncompatibleKeys
from ...optim.optimizer import Optimizer
from ..tensor.dtensor import DTensor

__all__ = [
    "StateDictOptions", "get_model_state_dict", "get_optimizer_state_dict", "get_state_dict", "set_model_state_dict",
    "set_optimizer_state_dict", "set_state_dict",
]  # fmt: skip


@dataclass(frozen=True)
class StateDictOptions:
    """full_state_dict: whole tensors, on every process. cpu_offload: the state is on the CPU; of whole tensors, rank 0
    alone has one, and the others an empty one. ignore_frozen_params: without parameters that are not trained. strict:
    the names must be the model's. broadcast_from_rank0: the whole state that is set is rank 0's, which sends the others
    one tensor at a time; what they give does not count. flatten_optimizer_state_dict: an optimiser's state is one dict
    with keys like "state.NAME.exp_avg" and "param_groups.NAME.lr".
    """

    full_state_dict: bool = False
    cpu_offload: bool = False
    ignore_frozen_params: bool = False
    strict: bool = True
    broadcast_from_rank0: bool = False
    flatten_optimizer_state_dict: bool = False

    def __post_init__(self) -> None:
        if self.broadcast_from_rank0 and not self.full_state_dict:
            raise ValueError("StateDictOptions: broadcast_from_rank0 sends a whole state: set full_state_dict=True too")


def _bare(model: Module) -> Module:
    """The model inside of DistributedDataParallel, so that names are those of one process."""
    while isinstance(model, DistributedDataParallel | DataParallel):
        model = model.module
    return model


def _group_of(model: Module) -> ProcessGroup | None:
    """The processes that have the model: those that divide its parameters, or all; None for one alone."""
    divided = {groups for parameter in model.parameters() if (groups := parameter._own_part.shard_groups)}
    if len(divided) == 1 and len(groups := next(iter(divided))) == 1:
        return groups[0]
    return group_or_world(None) if is_initialized() else None


def _is_kept(model: Module, options: StateDictOptions) -> bool:
    """Whether this process gets the whole state."""
    group = _group_of(model)
    return group is None or not options.cpu_offload or group.rank() == 0


def _own(x: Any, like: Tensor, options: StateDictOptions) -> Any:
    """A value of the state: of `like`, if it has its shape, the whole, or it says what part of `like` it is."""
    if not isinstance(x, Tensor):
        return x
    found = x.detach()
    if like.part is not None and x.shape != like.shape and x.numel() > 1:
        raise StateError(
            f"the optimiser keeps {describe(x)} for a part of a parameter, {describe(like)}: only what it keeps for "
            "each element can be divided in a checkpoint; take another optimiser, such as AdamW"
        )
    part = like.part if x.shape == like.shape else None
    if part is not None and options.full_state_dict:
        found = whole_of(found, part, like.shard_groups)
    found = found.to("cpu") if options.cpu_offload else found
    if part is not None and not options.full_state_dict:
        found.part, found.shard_groups = part, like.shard_groups
    return found


def _from_rank_0(
    group: ProcessGroup | None, collect: Callable[[], Mapping[str, Any]]
) -> Iterator[tuple[str, Any]]:  # fmt: skip
    """The names and values of the state that rank 0 collects, on all: one tensor at a time. Where rank 0 fails, the
    others get a StateError that says why, and do not wait."""
    if group is None:
        yield from collect().items()
        return
    first, values, failed = group.rank() == 0, list[tuple[str, Any]](), None
    told: list[Any] = [None]
    if first:
        try:
            values = list(collect().items())
            told = [pickle.dumps([(name, *_announced(name, value)) for name, value in values])]
        except Exception as error:
            failed, told = error, [f"{type(error).__name__}: {error}"]
    broadcast_object_list(told, group.ranks[0], group)
    if failed is not None:
        raise failed
    if isinstance(told[0], str):
        raise StateError(f"rank 0 has no state to send: {told[0]:.500}")
    for i, (name, shape, dtype, value) in enumerate(pickle.loads(told[0])):
        if shape is None:
            yield name, value
            continue
        sent = values[i][1].detach().to("cpu").contiguous() if first else empty(shape, dtype=dtype)
        broadcast(sent, group.ranks[0], group)
        yield name, sent


def _announced(name: str, value: Any) -> tuple[Any, str, Any]:
    """(shape, dtype, None) of a tensor that will be sent, (None, "", value) of anything else."""
    if not isinstance(value, Tensor):
        return None, "", value
    if not value.dense or value.dtype.is_quantized:
        raise StateError(f"the state has {name!r:.80}, {describe(value)}, of which only dense tensors are sent")
    return tuple(value.shape), value.dtype.name, None


def get_model_state_dict(model: Module, *, options: StateDictOptions | None = None) -> dict[str, Any]:
    """The state of a model. Of parameters that processes divide it has this one's part, and says which it is."""
    options, model = options or StateDictOptions(), _bare(model)
    if options.full_state_dict:
        device = "cpu" if options.cpu_offload else None
        state = full_state_dict(model, device=device, keep=_is_kept(model, options))
    else:
        state = {
            name: _own(x._own_part, x._own_part, options) if isinstance(x, Tensor) else x
            for name, x in model.state_dict(keep_vars=True).items()
        }
    if options.ignore_frozen_params:
        frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
        state = {name: value for name, value in state.items() if name not in frozen}
    return state


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
    return {id(parameter._own_part): name for name, parameter in model.named_parameters()}


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
    kept = not options.full_state_dict or _is_kept(model, options)
    state: dict[str, Any] = {}
    groups: list[dict[str, Any]] = []
    for optimizer in _each(optimizers):
        begun = _begin(optimizer)
        every = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        given = optimizer.state_dict()
        for number, entry in given["state"].items():
            parameter = every[int(number)]
            state[_name_of(names, parameter)] = {key: _own(value, parameter, options) for key, value in entry.items()}
            if not kept:
                state.clear()  # one parameter's at a time
        if begun:
            optimizer.state.clear()
        for group, own in zip(given["param_groups"], optimizer.param_groups, strict=True):
            groups.append({**group, "params": [_name_of(names, parameter) for parameter in own["params"]]})
    if not kept:
        return {}
    found = {"state": state, "param_groups": groups}
    return _flat(found) if options.flatten_optimizer_state_dict else found


def _flat(state: Mapping[str, Any]) -> dict[str, Any]:
    """An optimiser's state as one dict."""
    found = {f"state.{name}.{key}": value for name, entry in state["state"].items() for key, value in entry.items()}
    for group in state["param_groups"]:
        settings = {key: value for key, value in group.items() if key != "params"}
        found |= {f"param_groups.{name}.{key}": value for name in group["params"] for key, value in settings.items()}
    return found


def _deep(state: Mapping[str, Any], optimizers: list[Optimizer], names: Mapping[int, str]) -> dict[str, Any]:
    """What `_flat` was made of. StateError where the state has no group of a parameter."""
    entries: dict[str, dict[str, Any]] = {}  # of "state.NAME" and "param_groups.NAME"
    for path, value in state.items():
        start, _, key = path.rpartition(".")
        entries.setdefault(start, {})[key] = value
    groups = []
    for optimizer in optimizers:
        for own in optimizer.param_groups:
            every = [_name_of(names, parameter) for parameter in own["params"]]
            group = entries.get(f"param_groups.{every[0]}") if every else {}
            if group is None:
                raise StateError(f"the state has no group of the parameter {every[0]}")
            groups.append({**group, "params": every})
    found = {start.removeprefix("state."): entry for start, entry in entries.items() if start.startswith("state.")}
    return {"state": found, "param_groups": groups}


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
    every = model.state_dict(keep_vars=True)
    if options.broadcast_from_rank0:
        likes = {name: x for name, x in every.items() if isinstance(x, Tensor)}
        sent = _from_rank_0(_group_of(model), lambda: model_state_dict)
        own = {name: kept_of(value, likes.get(name)) for name, value in sent}
        return model.load_state_dict(own, strict=options.strict)
    if options.full_state_dict:
        return load_full_state_dict(model, model_state_dict, options.strict)
    given = {name: _as_like(value, every.get(name)) for name, value in model_state_dict.items()}
    return model.load_state_dict(given, strict=options.strict)


def _as_like(value: Any, like: Any) -> Any:
    """What this process has of a DTensor, as one again."""
    if not isinstance(like, DTensor) or not isinstance(value, Tensor) or value.part is None:
        return value
    return DTensor.from_local(value, like.device_mesh, like.placements, shape=like.shape)


def set_optimizer_state_dict(
    model: Module, optimizers: Optimizer | Iterable[Optimizer], optim_state_dict: Mapping[str, Any], *,
    options: StateDictOptions | None = None,
) -> None:  # fmt: skip
    """Gives optimisers a state of get_optimizer_state_dict. What has made no step begins anew. StateError for other
    groups of parameters.
    """
    options, model = options or StateDictOptions(), _bare(model)
    names, every = _names(model), _each(optimizers)
    if options.broadcast_from_rank0:
        group = _group_of(model)
        given, flat = optim_state_dict, options.flatten_optimizer_state_dict
        likes = {name: parameter._own_part for name, parameter in model.named_parameters()}
        optim_state_dict = {}
        for key, value in _from_rank_0(group, lambda: given if flat else _flat(given)):
            name = key.removeprefix("state.").rpartition(".")[0]
            optim_state_dict[key] = kept_of(value, likes.get(name))
    if options.broadcast_from_rank0 or options.flatten_optimizer_state_dict:
        optim_state_dict = _deep(optim_state_dict, every, names)
    if not {"state", "param_groups"} <= optim_state_dict.keys():
        raise StateError(
            "the state has no state and param_groups: one with keys like 'state.NAME.exp_avg' needs "
            "StateDictOptions(flatten_optimizer_state_dict=True)"
        )
    groups = iter(optim_state_dict["param_groups"])
    for optimizer in every:
        numbers: dict[int, Any] = {}
        own_groups = []
        for own in optimizer.param_groups:
            group = next(groups, None)
            wanted = [_name_of(names, parameter) for parameter in own["params"]]
            if group is None or list(group["params"]) != wanted:
                raise StateError("the state has other groups of parameters than the optimisers")
            first = len(numbers)
            for i, name in enumerate(wanted):
                entry = optim_state_dict["state"].get(name)
                if entry is not None and options.full_state_dict:
                    entry = {key: kept_of(value, own["params"][i]) for key, value in entry.items()}
                numbers[first + i] = entry
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
