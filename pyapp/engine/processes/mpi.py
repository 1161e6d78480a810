"""Groups of processes by MPI (`pip install 'pyapp[distributed]'`: mpi4py and Open MPI), on the CPU.

Tensors in the host's memory are sent from where they lie. Those of other devices are copied to the host and back;
float16 and bfloat16, which MPI cannot add, are reduced in float32. Reference: MPI 4.1, chapters 3 and 6.
"""

from __future__ import annotations

import atexit
import importlib
import os
import time
from array import array
from collections.abc import Callable, Sequence
from functools import partial
from itertools import pairwise
from math import inf
from typing import Any
from zlib import crc32

from ...errors import ProcessError
from ..device import cpu
from ..dtype import DType
from ..tensor import Tensor
from .communicator import Communicator, ReduceOp, Work, absent_ranks, different_calls, gone_ranks, late_ranks

_INSTALL = "Install it with pip install 'pyapp[distributed]', and start the script with pyapp run -n 2 SCRIPT.py"
_KINDS = {
    "float32": "FLOAT", "float64": "DOUBLE", "int64": "INT64_T", "int32": "INT32_T", "int16": "INT16_T",
    "int8": "INT8_T", "uint8": "UINT8_T", "uint16": "UINT16_T", "uint32": "UINT32_T", "uint64": "UINT64_T",
    "bool": "C_BOOL",
}  # fmt: skip
_OPERATIONS = {
    ReduceOp.SUM: "SUM", ReduceOp.AVG: "SUM", ReduceOp.PRODUCT: "PROD", ReduceOp.MIN: "MIN", ReduceOp.MAX: "MAX",
    ReduceOp.BAND: "BAND", ReduceOp.BOR: "BOR", ReduceOp.BXOR: "BXOR",
}  # fmt: skip
# A sum of truth values is their "or", as of 1 and 0 that are kept in a bool.
_OF_BOOLS = {
    ReduceOp.SUM: "LOR", ReduceOp.MAX: "LOR", ReduceOp.BOR: "LOR", ReduceOp.PRODUCT: "LAND", ReduceOp.MIN: "LAND",
    ReduceOp.BAND: "LAND", ReduceOp.BXOR: "LXOR",
}  # fmt: skip
_HERE, _ALL_HERE, _GONE = 32001, 32002, 32003  # tags of meeting and leaving; MPI guarantees tags up to 32767
_LOOK = 0.005  # seconds between two looks for a message
_SPINS = 500  # looks at a call without a pause between them, which wait for ranks that are nearly there
_MUCH = 1 << 18  # bytes from which MPI's calls that wait are the faster ones
_HEAD = 512  # bytes that are sent at once when one rank announces something
_GRACE = (
    5.0  # seconds that ranks wait longer: than the first, which knows who is absent; for what one that left has sent
)
_LOOK_FOR_GONE = 0.1  # seconds between two looks for ranks that have left
_UNENDED: list[Any] = []  # requests


def load() -> Any:
    """mpi4py.MPI. ProcessError where it, or an MPI library, is missing."""
    try:
        return importlib.import_module("mpi4py.MPI")
    except ImportError as error:
        raise ProcessError("mpi4py is not installed", where="backend 'mpi'", hint=_INSTALL) from error
    except RuntimeError as error:  # mpi4py found no MPI library
        raise ProcessError(f"there is no MPI library: {error}", where="backend 'mpi'", hint=_INSTALL) from error


class Mpi(Communicator):
    """A group of processes that mpirun has started."""

    name = "mpi"

    def __init__(self, mpi: Any, handle: Any, seconds: float, ranks: Sequence[int]) -> None:
        """`ranks`: those of the group, by their numbers among all."""
        self._mpi, self._handle, self.seconds, self._ranks = mpi, handle, seconds, tuple(ranks)
        self._leave: Callable[[], None] | None = None  # what tells all that this process goes, of the group of all
        self._compared = array("q", (0, 0))  # a number of a call, and its negative
        handle.Set_errhandler(mpi.ERRORS_RETURN)  # as exceptions of mpi4py
        self.rank, self.size = handle.Get_rank(), handle.Get_size()

    @classmethod
    def world(cls, seconds: float, each: float) -> Mpi:
        """All processes that mpirun has started. ProcessError names those that have not come here within this time;
        `each` is how long to wait for them in a call.
        """
        mpi = load()
        everyone, end = mpi.COMM_WORLD, time.monotonic() + seconds
        rank, size = everyone.Get_rank(), everyone.Get_size()
        memory = [bytearray(1) for _ in range(size)]
        others = range(1, size)
        if rank:
            sent = everyone.Isend([bytearray(1), mpi.BYTE], 0, _HERE)
            messages = {0: everyone.Irecv([memory[0], mpi.BYTE], 0, _ALL_HERE)}
        else:
            messages = {other: everyone.Irecv([memory[other], mpi.BYTE], other, _HERE) for other in others}
        if not _within(end + bool(rank) * _GRACE, list(messages.values())):
            absent = [other for other, message in messages.items() if not message.Test()]
            for other in absent:
                messages[other].Cancel()
            raise absent_ranks(rank, absent, size, seconds)
        answers = [everyone.Isend([memory[0], mpi.BYTE], other, _ALL_HERE) for other in others] if not rank else [sent]
        mpi.Request.Waitall(answers)
        made = cls(mpi, everyone.Dup(), each, range(size))
        made._leave = partial(_leave, mpi, os.getpid())
        atexit.register(made._leave)  # before MPI ends, which would wait for those that wait for this rank
        return made

    # -- calls

    def all_reduce(self, tensor: Tensor, op: ReduceOp) -> Work:
        own = _Host(tensor, reduced=True)
        call, buffer = self._operation(tensor.dtype, op), own.buffer(self._mpi)
        request = self._handle.Iallreduce(self._mpi.IN_PLACE, buffer, op=call)
        return self._work("all_reduce", request, own).then(lambda: own.store(self.size if op is ReduceOp.AVG else 1))

    def reduce(self, tensor: Tensor, to: int, op: ReduceOp) -> Work:
        own = _Host(tensor, reduced=True)
        call, buffer = self._operation(tensor.dtype, op), own.buffer(self._mpi)
        if self.rank != to:
            return self._work("reduce", self._handle.Ireduce(buffer, None, op=call, root=to), own)
        request = self._handle.Ireduce(self._mpi.IN_PLACE, buffer, op=call, root=to)
        return self._work("reduce", request, own).then(lambda: own.store(self.size if op is ReduceOp.AVG else 1))

    def broadcast(self, tensor: Tensor, source: int) -> Work:
        own = _Host(tensor)
        work = self._work("broadcast", self._handle.Ibcast(own.buffer(self._mpi), root=source), own)
        return work if self.rank == source else work.then(own.store)

    def all_gather(self, output: Tensor, tensor: Tensor) -> Work:
        own, every = _Host(tensor), _Host(output)
        sent, (data, _, kind) = own.buffer(self._mpi), every.buffer(self._mpi)
        request = self._handle.Iallgather(sent, [data, sent[1], kind])  # the count is that of one rank
        return self._work("all_gather", request, own, every).then(every.store)

    def reduce_scatter(self, output: Tensor, tensor: Tensor, op: ReduceOp) -> Work:
        whole, part = _Host(tensor, reduced=True), _Host(output, reduced=True)
        call = self._operation(tensor.dtype, op)
        into, (data, _, kind) = part.buffer(self._mpi), whole.buffer(self._mpi)
        # the count is that of one rank
        request = self._handle.Ireduce_scatter_block([data, into[1], kind], into, op=call)
        return self._work("reduce_scatter", request, whole, part).then(
            lambda: part.store(self.size if op is ReduceOp.AVG else 1)
        )

    def send(self, tensor: Tensor, to: int, tag: int) -> Work:
        own = _Host(tensor)
        return self._work("send", self._handle.Isend(own.buffer(self._mpi), to, tag), own)

    def receive(self, tensor: Tensor, source: int, tag: int) -> Work:
        own = _Host(tensor)
        return self._work("receive", self._handle.Irecv(own.buffer(self._mpi), source, tag), own).then(own.store)

    def repeated_all_reduce(self, tensor: Tensor, op: ReduceOp) -> Callable[[], None]:
        """As Communicator.repeated_all_reduce: in the host's memory, without copies."""
        if tensor.device is not cpu or tensor.dtype.name not in _KINDS or op is ReduceOp.AVG:
            return super().repeated_all_reduce(tensor, op)
        buffer, call = _Host(tensor).buffer(self._mpi), self._operation(tensor.dtype, op)
        names = "Iallreduce", "Allreduce"
        return self._repeated("all_reduce", *names, tensor.nbytes, self._mpi.IN_PLACE, buffer, call)

    def repeated_all_gather(self, output: Tensor, tensor: Tensor) -> Callable[[], None]:
        """As Communicator.repeated_all_gather: in the host's memory, without copies."""
        if tensor.device is not cpu:
            return super().repeated_all_gather(output, tensor)
        sent, (data, _, kind) = (_Host(x).buffer(self._mpi) for x in (tensor, output))
        names = "Iallgather", "Allgather"
        return self._repeated("all_gather", *names, output.nbytes, sent, [data, sent[1], kind])

    def _repeated(self, what: str, started: str, at_once: str, nbytes: int, *args: Any) -> Callable[[], None]:
        """A call of MPI's for a Graph, by the name of the one that returns before its end, or for much data, for which
        that is slow, of the one that waits: after all ranks have come, since it would wait for ever."""

        def call() -> None:
            if nbytes < _MUCH:
                self._wait(getattr(self._handle, started)(*args), f"{what} of a Graph")
                return
            self._wait(self._handle.Ibarrier(), f"{what} of a Graph")
            getattr(self._handle, at_once)(*args)

        return call

    def agree(self, call: str) -> None:
        """As Communicator.agree: by a number that stands for the call."""
        if self.size == 1:
            return
        own = crc32(call.encode())
        numbers = self._compared
        numbers[0], numbers[1] = own, -own
        request = self._handle.Iallreduce(
            self._mpi.IN_PLACE, [numbers, 2, self._mpi.INT64_T], op=self._mpi.MAX
        )  # the largest, and minus the smallest
        self._wait(request, call)
        if numbers[0] != own or numbers[1] != -own:
            raise different_calls(self.rank, [data.decode() for data in self.all_gather_bytes(call.encode())])

    def announce(self, data: bytes | None) -> bytes:
        """As Communicator.announce. Ranks that wait for long sleep."""
        head = bytearray(_HEAD)
        if data is not None:
            head[:4] = len(data).to_bytes(4, "little")
            head[4 : 4 + len(data)] = data[: _HEAD - 4]
            del head[_HEAD:]
        self._wait(self._handle.Ibcast([head, self._mpi.BYTE], root=0), "announce", inf)
        length = int.from_bytes(head[:4], "little")
        if length <= _HEAD - 4:
            return bytes(head[4 : 4 + length])
        whole = bytearray(length) if data is None else bytearray(data)
        self._wait(self._handle.Ibcast([whole, self._mpi.BYTE], root=0), "announce")
        return bytes(whole)

    def barrier(self) -> Work:
        return self._work("barrier", self._handle.Ibarrier())

    def all_gather_bytes(self, data: bytes) -> list[bytes]:
        lengths, own = array("q", bytes(8 * self.size)), array("q", [len(data)])
        mpi, kind = self._mpi, self._mpi.INT64_T
        self._wait(self._handle.Iallgather([own, 1, kind], [lengths, 1, kind]), "a call with objects")
        every = bytearray(sum(lengths))
        self._wait(self._handle.Iallgatherv([data, mpi.BYTE], [every, list(lengths), mpi.BYTE]), "a call with objects")
        starts = [sum(lengths[:i]) for i in range(self.size + 1)]
        return [bytes(every[begin:end]) for begin, end in pairwise(starts)]

    def split(self, ranks: Sequence[int]) -> Mpi | None:
        member = self.rank in ranks
        color = 0 if member else self._mpi.UNDEFINED
        handle = self._handle.Split(color, ranks.index(self.rank) if member else 0)
        return Mpi(self._mpi, handle, self.seconds, [self._ranks[r] for r in ranks]) if member else None

    def close(self) -> None:
        if self._leave is not None:
            atexit.unregister(self._leave)
            self._leave()
        self._handle.Free()

    def _operation(self, dtype: DType, op: ReduceOp) -> Any:
        if dtype.name == "bool":
            name = _OF_BOOLS.get(op)
        else:
            bits = op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
            refused = (bits and dtype.is_floating_point) or (op is ReduceOp.AVG and not dtype.is_floating_point)
            name = None if refused else _OPERATIONS[op]
        if name is None or dtype.is_quantized or dtype.is_storage_only:
            raise TypeError(f"{op.name} of {dtype} tensors is not possible")
        return getattr(self._mpi, name)

    def _work(self, what: str, request: Any, *kept: object) -> Work:
        _keep(request)
        return Work(lambda: self._wait(request, what), lambda: bool(request.Test()), kept=kept)

    def _gone(self) -> list[int]:
        """The ranks that have left."""
        everyone = self._mpi.COMM_WORLD
        here = everyone.Get_rank()
        return [rank for rank in self._ranks if rank != here and everyone.Iprobe(rank, _GONE)]

    def _wait(self, request: Any, what: str, seconds: float | None = None) -> None:
        """Waits for a call of MPI. ProcessError where it fails, takes longer than `seconds` (None: the group's), or a
        rank has left without it.
        """
        seconds = self.seconds if seconds is None else seconds
        try:
            for _ in range(_SPINS):
                if request.Test():
                    return
            now, pause = time.monotonic(), 0.0
            end, look = now + seconds, now + _LOOK_FOR_GONE
            while not request.Test():
                now = time.monotonic()
                if now > end:
                    raise (
                        gone_ranks(self.rank, what, gone)
                        if (gone := self._gone())
                        else late_ranks(self.rank, what, seconds)
                    )
                if now > look:
                    look = now + _LOOK_FOR_GONE
                    if self._gone():  # what it has sent before may still come
                        end, look = min(end, now + _GRACE), inf
                time.sleep(pause)  # 0 lets other processes of this core run
                pause = min(pause + 1e-6, _LOOK / 5)
        except BaseException as error:
            _keep(request)
            if isinstance(error, self._mpi.Exception):
                raise ProcessError(str(error), where=f"rank {self.rank}", hint="The group cannot be used") from error
            raise


def _keep(request: Any) -> None:
    """MPI may read and write a call's memory until the call has ended, also where nobody waits for it any more. A
    request keeps its memory."""
    _UNENDED[:] = [kept for kept in _UNENDED if kept is not request and not _has_ended(kept)]
    _UNENDED.append(request)


def _has_ended(request: Any) -> bool:
    try:
        return bool(request.Test())
    except Exception:  # it ended with an error, which its own caller gets
        return True


class _Host:
    """A tensor as MPI sees it: itself in the host's memory, or a copy there. `reduced`: MPI is to compute with it."""

    def __init__(self, tensor: Tensor, reduced: bool = False) -> None:
        self.tensor = tensor
        wide = reduced and tensor.dtype.name in ("float16", "bfloat16")
        seen = tensor.detach() if tensor.device is cpu else tensor.detach().to(cpu)
        self.seen = seen.float() if wide else seen

    def buffer(self, mpi: Any) -> list[Any]:
        """What mpi4py takes: memory, the number of elements, and their type."""
        kind = _KINDS.get(self.seen.dtype.name)
        data = self.seen.data_view().cast("B") if self.seen.numel() else bytearray()
        return [data, len(data), mpi.BYTE] if kind is None else [data, self.seen.numel(), getattr(mpi, kind)]

    def store(self, divisor: int = 1) -> None:
        """Writes what MPI has left to the tensor, divided."""
        if divisor != 1:
            self.seen.div_(divisor)
        if self.seen._storage is self.tensor._storage:
            self.tensor._storage.version += 1
        else:
            self.tensor.detach().copy_(self.seen.to(self.tensor.device))


def _leave(mpi: Any, process: int) -> None:
    """Tells the other ranks that this one goes, and waits until all do: who waits for it in a call learns that it will
    not come."""
    if os.getpid() != process or mpi.Is_finalized():  # a forked process is not a rank
        return
    everyone = mpi.COMM_WORLD
    others = [rank for rank in range(everyone.Get_size()) if rank != everyone.Get_rank()]
    empty = bytearray(1)
    messages = [everyone.Isend([empty, mpi.BYTE], rank, _GONE) for rank in others]
    messages += [everyone.Irecv([bytearray(1), mpi.BYTE], rank, _GONE) for rank in others]
    _within(inf, messages)


def _within(end: float, requests: list[Any]) -> bool:
    """Whether all requests end before this time."""
    while not all(request.Test() for request in requests):
        if time.monotonic() > end:
            return False
        time.sleep(_LOOK)
    return True
