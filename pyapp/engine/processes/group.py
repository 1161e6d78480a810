"""The groups of this process: all ranks, and some of them (torch.distributed's process groups)."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from ...errors import OptionError, ProcessError
from ..tensor import Tensor
from . import mpi, nccl
from .communicator import Communicator, ReduceOp

TIMEOUT = 300.0  # seconds that init_process_group waits for the others
CALL_TIMEOUT = 1800.0  # seconds that a call waits for the others, as in torch
_START = "Processes are started by pyapp run -n {} SCRIPT.py (or mpirun), not by torchrun or mp.spawn"
# torch's names of backends. MPI serves the CPU; beside NCCL it does what cards do not.
_BACKENDS = {"mpi": "mpi", "gloo": "mpi", "nccl": "nccl", "cpu:gloo,cuda:nccl": "nccl", "cuda:nccl": "nccl"}


class ProcessGroup:
    """Ranks that call together. `ranks` are their numbers among all; `communicator` is None in a process that is not
    one of them.
    """

    def __init__(self, communicator: Communicator | None, ranks: Sequence[int], name: str) -> None:
        self.communicator, self.ranks, self.group_name = communicator, tuple(ranks), name
        self._process = os.getpid()

    def rank(self) -> int:
        """The number of this process in the group; -1 if it is not in it."""
        return -1 if self.communicator is None else self.communicator.rank

    def size(self) -> int:
        """The number of processes in the group."""
        return len(self.ranks)

    def name(self) -> str:
        """The backend."""
        return "" if self.communicator is None else self.communicator.name

    def member(self) -> Communicator:
        """The communicator. ProcessError in a process that is not in the group or was forked, or after the group has
        ended.
        """
        if self.communicator is None:
            raise ProcessError(
                f"this process is not in the group of the ranks {', '.join(map(str, self.ranks))}",
                where="distributed", hint="Only ranks of a group call its functions, and not after its end",
            )  # fmt: skip
        if os.getpid() != self._process:
            raise ProcessError(
                "this process was forked from one of a group", where="distributed",
                hint='MPI cannot go on in it: start workers with "spawn", or before init_process_group',
            )  # fmt: skip
        return self.communicator

    def index_of(self, rank: int) -> int:
        """The place in the group of a process, by its number among all. OptionError if it is not in the group."""
        if rank not in self.ranks:
            raise OptionError(
                f"rank {rank} is not in the group of {', '.join(map(str, self.ranks))}", where="distributed"
            )
        return self.ranks.index(rank)

    def combined(self, tensor: Tensor, op: str) -> Tensor:
        """The tensor of every process, reduced: "SUM", "MAX" …. All call it."""
        found = tensor._row_major()
        self.member().all_reduce(found, ReduceOp[op]).wait()
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> ProcessGroup:
        return self

    def __repr__(self) -> str:
        return f"ProcessGroup({self.group_name}: rank {self.rank()} of {self.size()})"


class _Groups:
    """The groups of this process; the first has all ranks."""

    world: ProcessGroup | None = None
    all: list[ProcessGroup] = []


def is_initialized() -> bool:
    """Whether init_process_group was called."""
    return _Groups.world is not None


def world() -> ProcessGroup:
    """The group of all ranks. ProcessError before init_process_group."""
    if _Groups.world is None:
        raise ProcessError("there is no group of processes", where="distributed", hint="Call init_process_group first")
    return _Groups.world


def group_or_world(group: ProcessGroup | None) -> ProcessGroup:
    """`group`, or that of all ranks."""
    return world() if group is None else group


def init_process_group(
    backend: str | None = None, init_method: str | None = None, timeout: timedelta | float | None = None,
    world_size: int = -1, rank: int = -1, **_: Any,
) -> ProcessGroup:  # fmt: skip
    """Joins the processes of this run, which all call it, into one group.

    backend: "mpi", for tensors of the CPU; those of other devices are copied there and back. torch's "gloo" is another
    name for it here. "nccl", for tensors of NVIDIA's cards; those of the CPU go by MPI. `timeout`, a timedelta or
    seconds, is how long to wait for the others, here (by default five minutes) and in each call (half an hour).
    `init_method` is "env://" or None. `world_size` and `rank` are checked if they are given: what started the processes
    has set them.

    ProcessError where a library or a rank is missing; OptionError for an unknown backend.
    """
    if _Groups.world is not None:
        raise ProcessError("the group of processes exists already", where="init_process_group",
                           hint="Call destroy_process_group before another one")  # fmt: skip
    if init_method not in (None, "env://"):
        raise OptionError(f"is {init_method!r:.60}, expected 'env://'", where="init_method")
    seconds = (
        timeout.total_seconds() if isinstance(timeout, timedelta) else TIMEOUT if timeout is None else float(timeout)
    )
    if not seconds > 0:
        raise OptionError(f"is {seconds:g} s, expected more than 0", where="timeout")
    chosen = backend or "mpi"
    kind = _BACKENDS.get(str(chosen).lower())
    if kind is None:
        raise OptionError(f"there is no {chosen!r:.60}; choose {', '.join(_BACKENDS)}", where="backend")
    library = nccl.load() if kind == "nccl" else None
    made: Communicator = mpi.Mpi.world(seconds, CALL_TIMEOUT if timeout is None else seconds)
    made = made if library is None else nccl.Nccl(made, library)
    for what, wanted, found in (("world_size", world_size, made.size), ("rank", rank, made.rank)):
        if wanted not in (-1, found):
            raise OptionError(
                f"is {wanted}, but the processes were started with {found}", where=what, hint=_START.format(world_size)
            )  # fmt: skip
    told = os.environ.get("WORLD_SIZE", "")
    if made.size == 1 and told.isdecimal() and int(told) > 1:  # each would work for itself
        raise ProcessError(
            f"WORLD_SIZE is {told}, but MPI knows of this process alone", where="init_process_group",
            hint=_START.format(told),
        )  # fmt: skip
    _Groups.world = ProcessGroup(made, range(made.size), "all ranks")
    _Groups.all = [_Groups.world]
    return _Groups.world


def new_group(ranks: Sequence[int] | None = None, **_: Any) -> ProcessGroup:
    """A group of some ranks (None: of all). All processes call it, also those that are not in the group."""
    everyone = world()
    chosen = list(range(everyone.size()) if ranks is None else sorted(ranks))
    if not chosen or len(set(chosen)) != len(chosen) or not 0 <= chosen[0] <= chosen[-1] < everyone.size():
        raise OptionError(f"{chosen!r:.100} are not different ranks from 0 to {everyone.size() - 1}", where="new_group")
    made = ProcessGroup(everyone.member().split(chosen), chosen, f"group {len(_Groups.all)}")
    _Groups.all.append(made)
    return made


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Ends a group; without one, all groups. All its ranks call it."""
    ended = [*reversed(_Groups.all)] if group is None or group is _Groups.world else [group]
    for one in ended:
        if one.communicator is not None:
            one.communicator.close()
            one.communicator = None
        if one in _Groups.all:
            _Groups.all.remove(one)
    if not _Groups.all:
        _Groups.world = None
