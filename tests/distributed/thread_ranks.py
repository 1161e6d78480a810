"""Ranks that are threads of one process: the interface of a library for many processes, without one."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from pyapp import Tensor, maximum, no_grad
from pyapp.engine.processes.communicator import Communicator, ReduceOp, Work
from pyapp.engine.processes.group import ProcessGroup

T = TypeVar("T")
SECONDS = 60.0  # that a thread waits for the others


class ThreadRank(Communicator):
    """One of the threads. `meet` gives every thread what each has brought."""

    name = "threads"
    seconds = SECONDS

    def __init__(
        self, rank: int, size: int, barrier: threading.Barrier, places: list[Any], letters: dict[Any, Any]
    ) -> None:  # fmt: skip
        self.rank, self.size, self._barrier, self._places, self._letters = rank, size, barrier, places, letters
        self.calls = 0

    def meet(self, brought: Any) -> list[Any]:
        self.calls += 1
        self._places[self.rank] = brought
        self._barrier.wait(SECONDS)
        found = list(self._places)
        self._barrier.wait(SECONDS)
        return found

    def all_reduce(self, tensor: Tensor, op: ReduceOp) -> Work:
        assert op in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.MAX)
        with no_grad():
            first, *others = self.meet(tensor.clone())
            for other in others:
                first = maximum(first, other) if op is ReduceOp.MAX else first + other
            tensor.copy_(first / self.size if op is ReduceOp.AVG else first)
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
        with no_grad():
            self._mail(self.rank, to, tag).put(tensor.clone())
        return done()

    def receive(self, tensor: Tensor, source: int, tag: int) -> Work:
        def end() -> None:
            with no_grad():
                tensor.copy_(self._mail(source, self.rank, tag).get(timeout=SECONDS))

        return Work(end, lambda: False)

    def _mail(self, source: int, to: int, tag: int) -> queue.Queue[Tensor]:
        """What one thread has sent to another, in its order."""
        return self._letters.setdefault((source, to, tag), queue.Queue())

    def split(self, ranks: Sequence[int]) -> Communicator | None:
        raise NotImplementedError

    def close(self) -> None:
        pass

    def abort(self) -> None:
        """Ends the waiting of the others."""
        self._barrier.abort()


def done() -> Work:
    return Work(lambda: None, lambda: True)


def _groups(ranks: Sequence[int]) -> list[ProcessGroup]:
    """The group of these ranks, as each of them has it."""
    size = len(ranks)
    barrier, places, letters = threading.Barrier(size), [None] * size, dict[Any, Any]()
    return [ProcessGroup(ThreadRank(i, size, barrier, places, letters), ranks, "threads") for i in range(size)]


def in_ranks(size: int, function: Callable[[ProcessGroup], T]) -> list[T]:
    """The results of `function(group)` in as many threads."""
    return _in_threads([(group,) for group in _groups(range(size))], function)


def in_grid(rows: int, columns: int, function: Callable[[ProcessGroup, ProcessGroup], T]) -> list[T]:
    """The results of `function(group of the column, group of the row)` in a thread for each place of a grid."""
    ranks = [[row * columns + column for column in range(columns)] for row in range(rows)]
    across, down = [_groups(own) for own in ranks], [_groups(own) for own in zip(*ranks, strict=True)]
    return _in_threads([(down[j][i], across[i][j]) for i in range(rows) for j in range(columns)], function)


def _in_threads(every: Sequence[tuple[ProcessGroup, ...]], function: Callable[..., T]) -> list[T]:
    def run(groups: tuple[ProcessGroup, ...]) -> T:
        try:
            return function(*groups)
        except BaseException:
            for group in groups:
                group.member().abort()  # type: ignore[attr-defined]
            raise

    with ThreadPoolExecutor(len(every)) as pool:
        futures = [pool.submit(run, groups) for groups in every]
        errors = [error for future in futures if (error := future.exception())]
        broken = [error for error in errors if not isinstance(error, threading.BrokenBarrierError)]
        if errors:
            raise (broken or errors)[0]
        return [future.result() for future in futures]
