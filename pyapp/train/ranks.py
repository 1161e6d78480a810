"""The processes that train a model together, each with some of the batches of every step."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from pyapp.engine import no_grad
from pyapp.engine.device import Device
from pyapp.engine.ops import tensor
from pyapp.engine.processes.collectives import all_gather_object, all_reduce, broadcast, broadcast_object_list
from pyapp.engine.processes.group import ProcessGroup
from pyapp.engine.storage import release_memory
from pyapp.errors import OptionError, ProcessError
from pyapp.nn import Module
from pyapp.nn.distributed_data_parallel import buckets_of
from pyapp.nn.fully_sharded import run_sharded, shard_blocks, take_met, whole_parameters

T = TypeVar("T")
BUCKET = 25 << 20  # bytes of gradients that are summed in one call


class Ranks:
    """The processes of a group; without one, this process alone. `first`: whether it judges, saves and tells. With
    `shard` each keeps a part of every parameter, of its gradient and of the optimiser's state, on `device`. All make
    the same calls.
    """

    def __init__(
        self, group: ProcessGroup | None = None, shard: bool = False, device: Device | str | None = None
    ) -> None:
        self.group = group
        self.shard = shard and group is not None
        self.device = device
        self.rank = 0 if group is None else group.rank()
        self.size = 1 if group is None else group.size()
        self.first = self.rank == 0
        self.begun = group is None
        self.failed = False  # one of them, before the first step

    def begin(self, model: Module, batches: int) -> None:
        """Waits for the others before the first step, of which each has `batches`. All take the first one's trained
        parameters, and with `shard` divide them. OptionError for fewer batches than processes, with `shard` also for a
        number that they cannot divide evenly; ProcessError where another has failed.
        """
        if self.group is None:
            return
        if batches < self.size or (self.shard and batches % self.size):
            even = ", the same number each" if self.shard else ""
            raise OptionError(
                f"is {batches}, but the batches of a step are divided among {self.size} processes{even}",
                where="accumulate",
                hint=f"Give --accumulate {self.size}, or a multiple: a step takes as many batches",
            )
        if self.shard:
            every = (x for module in model.modules() for x in module._parameters.values() if x is not None)
            kind = next((x.dtype.name for x in every if x.dtype.is_quantized), None)
            if kind is not None:
                raise OptionError(
                    f"divides weights of floating point, but the model's are {kind}", where="shard",
                    hint="Leave out --shard, or take the model before it was quantised",
                )  # fmt: skip
        self.meet()
        for parameter in model.parameters():
            # What is not trained is of the model's file, and may be in blocks. With shard a mapped weight stays in its
            # file, which all have: no process keeps the whole.
            if parameter.requires_grad and not (self.shard and parameter._storage.owner is not None):
                broadcast(parameter.detach(), self.group.ranks[0], self.group)
        if self.shard:
            shard_blocks(model, self.group)
            if self.device is not None:
                model.to(self.device)

    def fail(self) -> None:
        """Tells the others, which begin now, that this process has failed."""
        if not self.begun:
            self.meet(failed=True)

    def meet(self, failed: bool = False) -> None:
        """Waits for the others. ProcessError where another one comes here as it has failed."""
        if self.group is None:
            return
        found: list[Any] = [None] * self.size
        all_gather_object(found, failed, self.group)
        self.begun, self.failed = True, any(found)
        if self.failed and not failed:
            raise ProcessError(f"the process of rank {found.index(True)} has failed", where=f"rank {self.rank}")

    @contextmanager
    def together(self) -> Iterator[None]:
        """What is done inside has failed everywhere where it fails in one process."""
        try:
            yield
        except BaseException:
            self.meet(failed=True)
            raise
        self.meet()

    def own(self, batches: Sequence[T]) -> list[T]:
        """The batches of a step that this process computes."""
        return list(batches[self.rank :: self.size])

    def run(self, model: Module, function: Callable[..., T], *args: Any) -> T:
        """What a function returns that computes with the model."""
        result: T = run_sharded(model, function, *args) if self.shard else function(*args)
        return result

    @contextmanager
    def whole(self, model: Module) -> Iterator[None]:
        """Inside, the first process has the whole model, and computes with it alone."""
        if not self.shard:
            yield
            return
        device = next(model.parameters()).device
        with whole_parameters(model, 0):
            yield
        release_memory(device)

    def sum_gradients(self, model: Module, value: float) -> float:
        """Sums the gradients over the processes, in place, and a number, which is returned. A parameter without a
        gradient on any process keeps none: optimisers leave it as it is.
        """
        if self.group is None:
            return value
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        met = take_met(model) if self.shard else {id(x) for x in trained if x.grad is not None}
        with no_grad():
            told = tensor([value, *(float(id(x) in met) for x in trained)], dtype="float64")
            all_reduce(told, group=self.group)
            total, *counts = told.tolist()
            given = [x for x, count in zip(trained, counts, strict=True) if count]
            if self.shard:  # the backward pass has averaged them
                for parameter, count in zip(trained, counts, strict=True):
                    if not count:
                        parameter.grad = None
                    elif parameter.grad is not None:
                        parameter.grad.mul_(self.size)
                return float(total)
            for bucket in buckets_of(given, BUCKET) if given else ():
                all_reduce(bucket.collect(), group=self.group)
                bucket.store()
        return float(total)

    def told(self, value: T) -> T:
        """The value of the first process."""
        if self.group is None:
            return value
        found: list[Any] = [value]
        broadcast_object_list(found, self.group.ranks[0], self.group)
        result: T = found[0]
        return result

    def any(self, *flags: bool) -> tuple[bool, ...]:
        """Whether each of the flags is set in one of the processes."""
        if self.group is None:
            return flags
        told = tensor([float(flag) for flag in flags], dtype="float64")
        with no_grad():
            all_reduce(told, group=self.group)
        return tuple(count > 0 for count in told.tolist())
