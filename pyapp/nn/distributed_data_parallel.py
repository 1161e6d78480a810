"""torch.nn.parallel.DistributedDataParallel: a model in several processes, each with a part of the batch (Li et al.
2020, arXiv 2006.15704).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ..engine import Tensor, no_grad
from ..engine.grad_mode import STATE
from ..engine.ops import cat, tensor, zeros
from ..engine.processes.collectives import all_gather_object, all_reduce, broadcast
from ..engine.processes.communicator import ReduceOp, Work
from ..engine.processes.group import ProcessGroup, group_or_world
from ..errors import ArgumentError, ProcessError
from .module import Module

__all__ = ["DistributedDataParallel"]

FIRST_BUCKET = 1 << 20  # bytes: the first gradients that are ready are sent soon
SHOWN = 5  # names in an error


def check_same_parameters(what: str, named: Iterable[tuple[str, Tensor]], group: ProcessGroup) -> None:
    """ArgumentError unless all processes have the same parameters, as plain tensors."""
    own = []
    for name, parameter in named:
        if parameter._own_part is not parameter:
            raise ArgumentError(
                f"{what}: {name} is a DTensor, whose gradients the ops of its mesh exchange: give the mesh one more "
                "dim, along which parameters are Replicate() or Shard(); or divide the model by parallelize_module"
            )
        own.append((name, tuple(parameter.shape), parameter.dtype.name))
    every: list[Any] = [None] * group.size()
    all_gather_object(every, own, group)
    for rank, theirs in enumerate(every):
        if theirs != own:
            pairs = zip([*theirs, None], [*own, None], strict=False)
            first = next((f"{a or 'nothing'} and {b or 'nothing'}" for a, b in pairs if a != b), "")
            ranks = f"{group.ranks[rank]} and {group.ranks[group.rank()]}"
            raise ArgumentError(f"{what}: the ranks {ranks} have different parameters: {first}")


class Bucket:
    """Parameters whose gradients are reduced in one call. `waiting`: how many have none yet in this pass."""

    def __init__(self, parameters: list[Tensor]) -> None:
        self.parameters = parameters
        self.waiting = len(parameters)
        self.sum: Tensor | None = None  # all gradients, one after the other
        self.work: Work | None = None

    def collect(self) -> Tensor:
        """All gradients, one after the other (elements,), zeros for those that this process lacks: `sum`."""
        with no_grad():
            flat = [_flat_gradient(p) for p in self.parameters]
            self.sum = flat[0].clone() if len(flat) == 1 else cat(flat)
        return self.sum

    def store(self, used: set[int] | None = None) -> None:
        """Writes the gradients from `sum`; only of the parameters with these ids, unless they are None."""
        assert self.sum is not None
        at = 0
        with no_grad():
            for parameter in self.parameters:
                count = parameter.numel()
                if used is None or id(parameter) in used:
                    value = self.sum.narrow(0, at, count).reshape(parameter.shape)
                    if parameter.grad is None:
                        parameter.grad = value.clone()
                    else:
                        parameter.grad.copy_(value)
                at += count


class DistributedDataParallel(Module):
    """Averages the gradients of all processes while they are computed: those of a bucket as soon as it is full, so that
    the rest of the backward pass goes on meanwhile. All processes begin with the parameters of rank 0.

    bucket_cap_mb: the bytes of a bucket, in MiB. broadcast_buffers: each forward pass of a training begins with the
    buffers of rank 0. find_unused_parameters: looks in each forward pass for parameters that the outputs do not depend
    on; without it such a parameter is an error of the next forward pass. process_group: by default all ranks.
    `device_ids` and `output_device` are accepted as in torch: the module computes where its parameters are.

    The gradients are averages over the processes: with parts of the same size, those of the whole batch. The state has
    torch's names, "module.…". ArgumentError where the processes have different parameters.
    """

    def __init__(
        self, module: Module, device_ids: Sequence[Any] | None = None, output_device: Any = None, dim: int = 0,
        broadcast_buffers: bool = True, init_sync: bool = True, process_group: ProcessGroup | None = None,
        bucket_cap_mb: float | None = None, find_unused_parameters: bool = False,
        gradient_as_bucket_view: bool = False, static_graph: bool = False,
    ) -> None:  # fmt: skip
        super().__init__()
        if device_ids is not None and len(device_ids) > 1:
            raise NotImplementedError(
                f"DistributedDataParallel: a process has one device, got device_ids {list(device_ids)}"
            )
        cap = 25.0 if bucket_cap_mb is None else float(bucket_cap_mb)
        if not cap > 0:
            raise ArgumentError(f"DistributedDataParallel: bucket_cap_mb is {cap}, expected more than 0")
        self.module, self.process_group = module, group_or_world(process_group)
        self.device_ids, self.output_device, self.dim = device_ids, output_device, dim
        self.broadcast_buffers, self.find_unused_parameters = broadcast_buffers, find_unused_parameters
        self.require_backward_grad_sync = True
        trained = {name: p for name, p in module.named_parameters() if p.requires_grad}
        if not trained:
            raise ArgumentError(
                "DistributedDataParallel: the module has no parameters that require gradients; those of a model that "
                "was loaded do after model.requires_grad_()"
            )
        check_same_parameters("DistributedDataParallel", module.named_parameters(), self.process_group)
        if init_sync:
            for value in (*module.parameters(), *module.buffers()):
                self._broadcast(value)
        self._names = {id(parameter): name for name, parameter in trained.items()}
        self._buckets = buckets_of([*trained.values()], int(cap * (1 << 20)))
        self._bucket_of = {id(p): bucket for bucket in self._buckets for p in bucket.parameters}
        self._ready: set[int] = set()  # parameters of this pass, by id
        self._used: set[int] | None = None  # those that any process uses in this pass; None: all
        self._next = 0  # the bucket that is sent next: the same order in all processes
        self._began = False  # whether the backward pass has given a gradient
        for parameter in trained.values():
            parameter.register_post_accumulate_grad_hook(self._on_gradient)

    def _broadcast(self, value: Tensor) -> None:
        if not value.dtype.is_quantized:
            broadcast(value.detach(), self.process_group.ranks[0], self.process_group)

    @contextmanager
    def no_sync(self) -> Iterator[None]:
        """Inside this context gradients are only added up; the next backward pass outside of it averages the sums."""
        before, self.require_backward_grad_sync = self.require_backward_grad_sync, False
        try:
            yield
        finally:
            self.require_backward_grad_sync = before

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        averages = STATE.enabled and self.require_backward_grad_sync
        if averages:
            self._check_last_pass()
        if self.broadcast_buffers and self.training and self.require_backward_grad_sync:
            for buffer in self.module.buffers():
                self._broadcast(buffer)
        output = self.module(*args, **kwargs)
        if averages and self.find_unused_parameters:
            self._leave_out_unused(output)
        return output

    def _check_last_pass(self) -> None:
        absent = [name for key, name in self._names.items() if key not in self._ready]
        if self._began and absent:
            shown = ", ".join(absent[:SHOWN]) + (f" and {len(absent) - SHOWN} more" if len(absent) > SHOWN else "")
            raise ProcessError(
                f"the last backward pass gave no gradient to {shown}", where="DistributedDataParallel",
                hint="Pass find_unused_parameters=True, or let the loss depend on all parameters",
            )  # fmt: skip
        self._begin()

    def _begin(self) -> None:
        """Prepares for a backward pass."""
        self._ready, self._next, self._used, self._began = set(), 0, None, False
        for bucket in self._buckets:
            bucket.waiting, bucket.sum, bucket.work = len(bucket.parameters), None, None

    # -- unused parameters

    def _leave_out_unused(self, output: Any) -> None:
        """Lets the pass not wait for parameters that the output does not depend on."""
        found = _leaves(output)
        order = [p for bucket in self._buckets for p in bucket.parameters]
        used = tensor([int(id(p) in found) for p in order], dtype="int32")
        all_reduce(used, ReduceOp.MAX, self.process_group)
        self._used = {id(p) for p, flag in zip(order, used.tolist(), strict=True) if flag}
        for parameter in order:
            if id(parameter) not in found:
                self._count(parameter)

    # -- the backward pass

    def _on_gradient(self, parameter: Tensor) -> None:
        """Called when `grad` of a parameter is complete."""
        if not self.require_backward_grad_sync:
            return
        self._began = True
        for bucket in self._buckets[: self._next]:
            if bucket.work is not None:
                bucket.work.is_completed()  # MPI works on a call only when it is asked about it
        if id(parameter) not in self._ready:
            self._count(parameter)
        self._send_full()

    def _count(self, parameter: Tensor) -> None:
        self._ready.add(id(parameter))
        self._bucket_of[id(parameter)].waiting -= 1

    def _send_full(self) -> None:
        """Sends the full buckets, in the order of all processes; after the last one the averages become the
        gradients."""
        while self._next < len(self._buckets) and not self._buckets[self._next].waiting:
            bucket = self._buckets[self._next]
            bucket.work = all_reduce(bucket.collect(), ReduceOp.AVG, self.process_group, async_op=True)
            self._next += 1
        if self._next == len(self._buckets):
            for bucket in self._buckets:
                assert bucket.work is not None
                bucket.work.wait()
                bucket.store(self._used)
            self._begin()


def _flat_gradient(parameter: Tensor) -> Tensor:
    grad = parameter.grad
    if grad is None:  # this process does not use it
        return zeros(parameter.numel(), dtype=parameter.dtype, device=parameter.device)
    return grad.detach().reshape(-1)


def buckets_of(parameters: list[Tensor], cap: int) -> list[Bucket]:
    """The parameters from the last to the first, about the order in which gradients are ready; each bucket has one
    dtype and device, and at most `cap` bytes or one parameter.
    """
    found: list[Bucket] = []
    group: list[Tensor] = []
    size, limit = 0, min(cap, FIRST_BUCKET)
    for parameter in reversed(parameters):
        other = bool(group) and (group[0].dtype is not parameter.dtype or group[0].device is not parameter.device)
        if group and (other or size + parameter.nbytes > limit):
            found.append(Bucket(group))
            group, size, limit = [], 0, cap
        group.append(parameter)
        size += parameter.nbytes
    return [*found, Bucket(group)]


def _leaves(output: Any) -> set[int]:
    """The leaves that the tensors in an output depend on, by id."""
    found: set[int] = set()
    seen: set[int] = set()
    stack = [output]
    while stack:
        value = stack.pop()
        if isinstance(value, dict):
            stack.extend(value.values())
        elif isinstance(value, list | tuple):
            stack.extend(value)
        elif isinstance(value, Tensor):
            if value.node is not None:
                stack.append(value.node)
            elif value.requires_grad:
                found.add(id(value))
        elif hasattr(value, "edges"):
            if id(value) not in seen:
                seen.add(id(value))
                stack.extend(edge for edge in value.edges if edge is not None)
        elif hasattr(value, "__dict__"):
            stack.extend(v for v in vars(value).values() if isinstance(v, Tensor | list | tuple | dict))
    return found
