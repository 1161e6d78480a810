"""What a library for many processes must do for tensors. `mpi.py` implements it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
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


def absent_ranks(rank: int, absent: Sequence[int], size: int, seconds: float) -> ProcessError:
    """The error of a rank that has waited for others."""
    who = f"rank{'s' * (len(absent) > 1)} {', '.join(map(str, absent))}"
    return ProcessError(
        f"{who} of {size} did not come to init_process_group within {seconds:g} s", where=f"rank {rank}",
        hint="Every process must call it; `timeout` says how long to wait for the others",
    )  # fmt: skip


class Communicator(ABC):
    """The calls of one group, as rank `rank` of `size`. All ranks make the same calls in the same order.

    Tensors are contiguous; `source` and `to` are ranks of this group. A call returns before its results are there.
    """

    name: str  # of the backend: "mpi"
    rank: int
    size: int

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
