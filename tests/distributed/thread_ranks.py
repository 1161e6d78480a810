"""Ranks that are threads of one process: the interface of a library for many processes, without one."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from pyapp import Tensor, no_grad
from pyapp.engine.processes.communicator import Communicator, ReduceOp, Work
from pyapp.engine.processes.group import ProcessGroup

T = TypeVar("T")
SECONDS = 60.0  # that a thread waits for the others


class ThreadRank(Communicator):
    """One of the threads. `meet` gives every thread what each has brought."""

    name = "threads"
    seconds = SECONDS

    def __init__(self, rank: int, size: int, barrier: threading.Barrier, places: list[Any]) -> None:
        self.rank, self.size, self._barrier, self._places = rank, size, barrier, places
        self.calls = 0

    def meet(self, brought: Any) -> list[Any]:
        self.calls += 1
        self._places[self.rank] = brought
        self._barrier.wait(SECONDS)
        found = list(self._places)
        self._barrier.wait(SECONDS)
        return found

    def all_reduce(self, tensor: Tensor, op: ReduceOp) -> Work:
        assert op is ReduceOp.SUM
        with no_grad():
            first, *others = self.meet(tensor.clone())
            for other in others:
                first = first + other
            tensor.copy_(first)
        return done()

    def all_gather(self, output: Tensor, tensor: Tensor) -> Work:
        with no_grad():
            for i, part in enumerate(self.meet(tensor.clone())):
                output.reshape(self.size, -1).select(0, i).copy_(part.reshape(-1))
        return done()

    def broadcast(self, tensor: Tensor, source: int) -> Work:
        with no_grad():
            tensor.copy_(self.meet(tensor.clone())[source])
        return done()

    def all_gather_bytes(self, data: bytes) -> list[bytes]:
        return self.meet(data)

    def barrier(self) -> Work:
        self.meet(None)
        return done()

    def reduce(self, tensor: Tensor, to: int, op: ReduceOp) -> Work:
        raise NotImplementedError

    def reduce_scatter(self, output: Tensor, tensor: Tensor, op: ReduceOp) -> Work:
        whole = tensor.clone()
        self.all_reduce(whole, op)
        with no_grad():
            output.copy_(whole.reshape(self.size, -1).select(0, self.rank).reshape(output.shape))
        return done()

    def send(self, tensor: Tensor, to: int, tag: int) -> Work:
        raise NotImplementedError

    def receive(self, tensor: Tensor, source: int, tag: int) -> Work:
        raise NotImplementedError

    def split(self, ranks: Sequence[int]) -> Communicator | None:
        raise NotImplementedError

    def close(self) -> None:
        pass


def done() -> Work:
    return Work(lambda: None, lambda: True)


def in_ranks(size: int, function: Callable[[ProcessGroup], T]) -> list[T]:
    """The results of `function(group)` in as many threads."""
    barrier, places = threading.Barrier(size), [None] * size
    groups = [ProcessGroup(ThreadRank(rank, size, barrier, places), range(size), "threads") for rank in range(size)]

    def run(group: ProcessGroup) -> T:
        try:
            return function(group)
        except BaseException:
            barrier.abort()
            raise

    with ThreadPoolExecutor(size) as pool:
        futures = [pool.submit(run, group) for group in groups]
        errors = [error for future in futures if (error := future.exception())]
        broken = [error for error in errors if not isinstance(error, threading.BrokenBarrierError)]
        if errors:
            raise (broken or errors)[0]
        return [future.result() for future in futures]
