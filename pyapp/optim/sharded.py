"""Optimisers whose state is divided among processes (ZeRO stage 1: Rajbhandari et al. 2020, arXiv 1910.02054)."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..engine import Tensor, no_grad
from ..engine.ops import cat
from ..engine.processes.collectives import broadcast
from ..engine.processes.group import ProcessGroup, group_or_world
from ..errors import ProcessError
from .optimizer import Group, Optimizer

__all__ = ["ZeroRedundancyOptimizer"]

BUCKET = 25 << 20  # bytes of parameters that are sent together


class ZeroRedundancyOptimizer(Optimizer):
    """`ZeroRedundancyOptimizer(model.parameters(), AdamW, lr=1e-3)`: each process keeps the state of a part of the
    parameters, about the same number of elements each, updates these, and sends them to the others.

    Settings, groups and schedules are those of `optimizer_class`. `state_dict` is whole on one rank, after
    `consolidate_state_dict`. Gradients must be the same in all processes, as DistributedDataParallel makes them.
    """

    def __init__(
        self, params: Iterable[Any], optimizer_class: Callable[..., Optimizer],
        process_group: ProcessGroup | None = None,
        parameters_as_bucket_view: bool = False, overlap_with_ddp: bool = False, **defaults: Any,
    ) -> None:  # fmt: skip
        if overlap_with_ddp:
            raise NotImplementedError("ZeroRedundancyOptimizer: overlap_with_ddp; call step() after backward()")
        self.process_group = group_or_world(process_group)
        self._kind, self._settings = optimizer_class, defaults
        self.saves_tensors = getattr(optimizer_class, "saves_tensors", True)
        whole = optimizer_class(params, **defaults)  # its state is made by its first step, which never comes
        self.defaults, self.param_groups = whole.defaults, whole.param_groups
        self._divide()
        self._consolidated: dict[str, Any] | None = None

    def _divide(self) -> None:
        """Gives each parameter to the rank that has the fewest elements so far, the large ones first."""
        filled = [0] * self.process_group.size()
        self._owner: dict[Tensor, int] = {}
        every = [parameter for group in self.param_groups for parameter in group["params"]]
        for parameter in sorted(every, key=lambda p: -p.numel()):
            rank = filled.index(min(filled))
            filled[rank] += parameter.numel()
            self._owner[parameter] = rank
        own = self.process_group.rank()
        self._parts = []  # the groups that have parameters of this rank, and these
        for group in self.param_groups:
            mine = [parameter for parameter in group["params"] if self._owner[parameter] == own]
            if mine:
                self._parts.append((group, mine))
        groups = [{**group, "params": mine} for group, mine in self._parts]
        self.optim = self._kind(groups, **self._settings) if groups else None

    @property
    def state(self) -> Any:  # type: ignore[override]
        """The state of this process's part, by parameter."""
        return {} if self.optim is None else self.optim.state

    def add_param_group(self, group: Mapping[str, Any]) -> None:
        """Adds a group; its parameters are divided too. Only before the first step: states would move."""
        if self.state:
            raise ProcessError("a group is added after the first step", where="ZeroRedundancyOptimizer",
                               hint="Give all groups when you make it")  # fmt: skip
        whole = self._kind([*self.param_groups, dict(group)], **self._settings)
        self.param_groups = whole.param_groups
        self._divide()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Updates this process's part, and gets the other parts from their processes."""
        loss = None
        if self.optim is not None:
            for (group, _), own in zip(self._parts, self.optim.param_groups, strict=True):
                own.update({name: value for name, value in group.items() if name != "params"})  # schedules change them
            loss = self.optim.step(closure)
        elif closure is not None:
            loss = closure()
        self._consolidated = None
        for rank in range(self.process_group.size()):
            self._send_from(rank)
        return loss

    def _send_from(self, rank: int) -> None:
        """Copies the parameters of one rank to the others, many in one call."""
        source = self.process_group.ranks[rank]
        waiting = [parameter for parameter, owner in self._owner.items() if owner == rank]
        while waiting:
            first, size = waiting[0], 0
            part: list[Tensor] = []
            for parameter in waiting:
                fits = parameter.dtype is first.dtype and parameter.device is first.device
                if part and (not fits or size + parameter.nbytes > BUCKET):
                    break
                part.append(parameter)
                size += parameter.nbytes
            del waiting[: len(part)]
            if len(part) == 1:
                broadcast(first.detach(), source, self.process_group)
                continue
            with no_grad():
                flat = cat([parameter.detach().reshape(-1) for parameter in part])
            broadcast(flat, source, self.process_group)
            if rank != self.process_group.rank():
                at = 0
                with no_grad():
                    for parameter in part:
                        parameter.copy_(flat.narrow(0, at, parameter.numel()).reshape(parameter.shape))
                        at += parameter.numel()

    # -- the state

    def _numbers(self) -> dict[Tensor, int]:
        every = [parameter for group in self.param_groups for parameter in group["params"]]
        return {parameter: number for number, parameter in enumerate(every)}

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Brings the state of all processes to rank `to`. All call it, then `to` may call state_dict."""
        numbers = self._numbers()
        own = {numbers[parameter]: self._saved(entry) for parameter, entry in self.state.items()}
        every = self.process_group.member().all_gather_bytes(pickle.dumps(own))
        if self.process_group.rank() == self.process_group.index_of(to):
            merged: dict[str, Any] = {}
            for data in every:
                merged |= pickle.loads(data)
            self._consolidated = merged

    def state_dict(self) -> dict[str, Any]:
        """The state of all parameters, as optimizer_class has it. ProcessError before consolidate_state_dict, and on
        other ranks than it was brought to.
        """
        if self._consolidated is None:
            raise ProcessError("this rank has only its part of the state", where="ZeroRedundancyOptimizer.state_dict",
                               hint="All ranks call consolidate_state_dict(to=0), then rank 0 has it")  # fmt: skip
        numbers = self._numbers()
        groups: list[Group] = [
            {**{k: v for k, v in group.items() if k != "params"}, "params": [numbers[p] for p in group["params"]]}
            for group in self.param_groups
        ]
        return {"state": {n: dict(self._consolidated[n]) for n in sorted(self._consolidated)}, "param_groups": groups}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores a whole state on every rank, which keeps its part. ValueError if it does not fit."""
        groups = state["param_groups"]
        if [len(group["params"]) for group in groups] != [len(group["params"]) for group in self.param_groups]:
            raise ValueError("load_state_dict: the state has other parameter groups than the optimiser")
        for own, group in zip(self.param_groups, groups, strict=True):
            own.update({name: value for name, value in group.items() if name != "params"})
        if self.optim is None:
            return
        numbers, entries = self._numbers(), {int(n): entry for n, entry in state["state"].items()}
        mine = [parameter for group in self.optim.param_groups for parameter in group["params"]]
        part = {i: entries[numbers[p]] for i, p in enumerate(mine) if numbers[p] in entries}
        at, parts = 0, []
        for group, own_group in zip((g for g, _ in self._parts), self.optim.param_groups, strict=True):
            count = len(own_group["params"])
            parts.append({**{k: v for k, v in group.items() if k != "params"}, "params": [*range(at, at + count)]})
            at += count
        self.optim.load_state_dict({"state": part, "param_groups": parts})

    def zero_grad(self, set_to_none: bool = True) -> None:
        super().zero_grad(set_to_none)
