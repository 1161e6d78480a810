"""The processes that train a model together, each with some of the batches of every step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from pyapp.engine import Tensor, no_grad
from pyapp.engine.ops import tensor
from pyapp.engine.processes.collectives import all_gather_object, all_reduce, broadcast, broadcast_object_list
from pyapp.engine.processes.group import ProcessGroup
from pyapp.errors import OptionError, ProcessError
from pyapp.nn.distributed_data_parallel import buckets_of

T = TypeVar("T")
BUCKET = 25 << 20  # bytes of gradients that are summed in one call


class Ranks:
    """The processes of a group; without one, this process alone. `first`: whether it judges, saves and tells. All make
    the same calls.
    """

    def __init__(self, group: ProcessGroup | None = None) -> None:
        self.group = group
        self.rank = 0 if group is None else group.rank()
        self.size = 1 if group is None else group.size()
        self.first = self.rank == 0
        self.begun = group is None
        self.failed = False  # one of them, before the first step

    def begin(self, parameters: Iterable[Tensor], batches: int) -> None:
        """Waits for the others before the first step, of which each has `batches`, and takes the first one's trained
        parameters. OptionError for fewer batches than processes; ProcessError where another has failed.
        """
        if self.group is None:
            return
        if batches < self.size:
            raise OptionError(
                f"is {batches}, but the batches of a step are divided among {self.size} processes", where="accumulate",
                hint=f"Give --accumulate {self.size}, or a multiple: a step takes as many batches",
            )  # fmt: skip
        self._meet(False)
        for parameter in parameters:
            if parameter.requires_grad:  # the others are of the model's file, and may be in blocks
                broadcast(parameter.detach(), self.group.ranks[0], self.group)

    def fail(self) -> None:
        """Tells the others, which begin now, that this process has failed."""
        if not self.begun:
            self._meet(True)

    def _meet(self, failed: bool) -> None:
        found: list[Any] = [None] * self.size
        all_gather_object(found, failed, self.group)
        self.begun, self.failed = True, any(found)
        if self.failed and not failed:
            raise ProcessError(f"the process of rank {found.index(True)} has failed", where=f"rank {self.rank}")

    def own(self, batches: Sequence[T]) -> list[T]:
        """The batches of a step that this process computes."""
        return list(batches[self.rank :: self.size])

    def sum_gradients(self, parameters: Iterable[Tensor], value: float) -> float:
        """Sums the gradients over the processes, in place, and a number, which is returned. A parameter without a
        gradient on any process keeps none: optimisers leave it as it is.
        """
        if self.group is None:
            return value
        trained = [parameter for parameter in parameters if parameter.requires_grad]
        with no_grad():
            told = tensor([value, *(float(x.grad is not None) for x in trained)], dtype="float64")
            all_reduce(told, group=self.group)
            total, *counts = told.tolist()
            given = [x for x, count in zip(trained, counts, strict=True) if count]
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
