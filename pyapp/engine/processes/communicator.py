"""What a library for many processes must do for tensors. `mpi.py` and `nccl.py` implement it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from enum import Enum

from ...errors import ProcessError
from ..tensor import Tensor


class ReduceOp(Enum):
    """How the tensors of all ranks become one: torch.distributed.ReduceOp."""

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"


class Work:
    """A call that may still run. `wait()` returns when its results are there; until then the caller must leave the
    tensors alone. Calls of one group end in their order.

    `ended()` says whether the library is done, without waiting; `end()` waits for it; `finish()` then writes results to
    where the caller wants them. `kept` is memory that the library reads or writes meanwhile.
    """

    def __init__(
        self, end: Callable[[], None], ended: Callable[[], bool], finish: Callable[[], None] | None = None,
        kept: object = None,
    ) -> None:  # fmt: skip
        self._end, self._ended, self._finish, self._kept = end, ended, finish, kept
        self._waited = False

    def then(self, finish: Callable[[], None]) -> Work:
        """The same call, with one more thing to do when it is done."""
        before = self._finish

        def both() -> None:
            if before is not None:
                before()
            finish()

        self._finish = both
        return self

    def wait(self, timeout: object = None) -> bool:
        """Waits until the results are there. `timeout` is accepted as in torch and has no effect."""
        if not self._waited:
            self._end()
            self._waited = True
            if self._finish is not None:
                self._finish()
            self._kept = self._finish = None
        return True

    def is_completed(self) -> bool:
        """Whether `wait` would return at once. It also lets the library work on the call."""
        return self._waited or self._ended()


def all_of(works: Sequence[Work]) -> Work:
    """Several calls as one."""

    def wait() -> None:
        for work in works:
            work.wait()

    return Work(wait, lambda: all(work.is_completed() for work in works))


def _waited(work: Work) -> None:
    work.wait()


def absent_ranks(rank: int, absent: Sequence[int], size: int, seconds: float) -> ProcessError:
    """The error of a rank that has waited for others."""
    who = f"rank{'s' * (len(absent) > 1)} {', '.join(map(str, absent))}"
    return ProcessError(
        f"{who} of {size} did not come to init_process_group within {seconds:g} s", where=f"rank {rank}",
        hint="Every process must call it; `timeout` says how long to wait for the others",
    )  # fmt: skip


def different_calls(rank: int, calls: Sequence[str]) -> ProcessError:
    """The error of ranks that have made different calls."""
    own = calls[rank]
    other = next(i for i, call in enumerate(calls) if call != own)
    return ProcessError(
        f"rank {rank} calls {own}, but rank {other} calls {calls[other]}", where=f"rank {rank}",
        hint="All ranks make the same calls in the same order, with tensors of the same shape and dtype",
    )  # fmt: skip


def late_ranks(rank: int, what: str, seconds: float) -> ProcessError:
    """The error of a rank that has waited for the others in a call."""
    return ProcessError(
        f"{what}: the other ranks did not come within {seconds:g} s", where=f"rank {rank}",
        hint="A rank makes fewer calls, or hangs; `timeout` of init_process_group says how long to wait",
    )  # fmt: skip


def gone_ranks(rank: int, what: str, gone: Sequence[int]) -> ProcessError:
    """The error of a rank that waits in a call for ranks that have left."""
    who = f"rank{'s' * (len(gone) > 1)} {', '.join(map(str, gone))}"
    return ProcessError(
        f"{what}: {who} {'have' if len(gone) > 1 else 'has'} left, by the end of the script or destroy_process_group",
        where=f"rank {rank}", hint="All ranks make the same calls, and leave after them",
    )  # fmt: skip


class Communicator(ABC):
    """The calls of one group, as rank `rank` of `size`. All ranks make the same calls in the same order.

    Tensors are contiguous; `source` and `to` are ranks of this group. A call returns before its results are there; when
    it is waited for, ProcessError for ranks that do not come within `seconds`.
    """

    name: str  # of the backend: "mpi", "nccl"
    rank: int
    size: int
    seconds: float

    @abstractmethod
    def all_reduce(self, tensor: Tensor, op: ReduceOp) -> Work:
        """Replaces the tensor of every rank by the reduction of all."""

    @abstractmethod
    def reduce(self, tensor: Tensor, to: int, op: ReduceOp) -> Work:
        """Replaces the tensor of one rank by the reduction of all."""

    @abstractmethod
    def broadcast(self, tensor: Tensor, source: int) -> Work:
        """Copies the tensor of one rank to all."""

    @abstractmethod
    def all_gather(self, output: Tensor, tensor: Tensor) -> Work:
        """The tensors of all ranks, one after the other, in `output`, which has `size` times as many elements."""

    @abstractmethod
    def reduce_scatter(self, output: Tensor, tensor: Tensor, op: ReduceOp) -> Work:
        """Part `rank` of the reduction of all tensors in `output`; `tensor` has `size` times as many elements."""

    @abstractmethod
    def send(self, tensor: Tensor, to: int, tag: int) -> Work: ...

    @abstractmethod
    def receive(self, tensor: Tensor, source: int, tag: int) -> Work: ...

    @contextmanager
    def beside(self, tensors: Sequence[Tensor]) -> Iterator[None]:
        """What is sent and received of these tensors in this block goes on side by side: of two ranks that send to each
        other first and then receive, neither waits for the other."""
        yield

    def repeated_all_reduce(self, tensor: Tensor, op: ReduceOp) -> Callable[[], None]:
        """A function that reduces the tensor each time it is called, and returns when the result is there."""
        return lambda: _waited(self.all_reduce(tensor, op))

    def repeated_all_gather(self, output: Tensor, tensor: Tensor) -> Callable[[], None]:
        """A function that gathers the tensors each time it is called, and returns when the result is there."""
        return lambda: _waited(self.all_gather(output, tensor))

    def agree(self, call: str) -> None:
        """Compares a description of the next call. ProcessError on all ranks if it is not the same on all."""
        calls = [data.decode() for data in self.all_gather_bytes(call.encode())]
        if any(other != call for other in calls):
            raise different_calls(self.rank, calls)

    def announce(self, data: bytes | None) -> bytes:
        """The bytes of the first rank, on all; the others give None, and wait for it as long as it takes."""
        return self.all_gather_bytes(data or b"")[0]

    @abstractmethod
    def barrier(self) -> Work:
        """Ends when every rank has called it."""

    @abstractmethod
    def all_gather_bytes(self, data: bytes) -> list[bytes]:
        """The bytes of every rank, in the order of the ranks."""

    @abstractmethod
    def split(self, ranks: Sequence[int]) -> Communicator | None:
        """A communicator of some of the ranks, in this order; None on the others. All ranks call it."""

    @abstractmethod
    def close(self) -> None:
        """Ends the communicator."""
