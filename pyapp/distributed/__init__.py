"""Several processes, by torch.distributed's names (docs/distributed.md): groups of ranks, and calls between them.

`pyapp run -n 2 SCRIPT.py` starts the processes. DistributedDataParallel is in pyapp.nn.parallel, DistributedSampler in
pyapp.utils.data.distributed, ZeroRedundancyOptimizer in pyapp.distributed.optim, fully_shard in pyapp.distributed.fsdp,
DTensor in pyapp.distributed.tensor, parallelize_module in pyapp.distributed.tensor.parallel, stages of a model in
pyapp.distributed.pipelining; pyapp.distributed.checkpoint saves and loads divided states.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
from typing import Any

from ..engine.processes import nccl
from ..engine.processes.collectives import *  # noqa: F403
from ..engine.processes.collectives import __all__ as _calls
from ..engine.processes.communicator import ReduceOp, Work
from ..engine.processes.group import (
    ProcessGroup,
    destroy_process_group,
    group_or_world,
    init_process_group,
    is_initialized,
    new_group,
)
from ..engine.processes.mesh import DeviceMesh, init_device_mesh
from ..errors import ProcessError

__all__ = [
    *_calls, "DeviceMesh", "ProcessGroup", "ReduceOp", "Work", "destroy_process_group", "get_backend",
    "get_global_rank", "get_group_rank", "get_node_local_rank", "get_process_group_ranks", "get_rank",
    "get_world_size", "group", "init_device_mesh", "init_process_group", "is_available", "is_initialized",
    "is_backend_available", "is_gloo_available", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched",
    "is_ucc_available", "is_xccl_available", "new_group",
]  # fmt: skip


class group:
    """`group.WORLD`: the group of all ranks, as None."""

    WORLD = None


def is_mpi_available() -> bool:
    """Whether mpi4py is installed. It is not imported, which would start MPI."""
    return importlib.util.find_spec("mpi4py") is not None


def is_nccl_available() -> bool:
    """Whether NCCL is installed."""
    try:
        nccl.load()
    except ProcessError:
        return False
    return True


def is_gloo_available() -> bool:
    """Whether the backend Gloo is there: always False; MPI serves CPUs."""
    return False


is_ucc_available = is_xccl_available = is_gloo_available


def is_backend_available(backend: str) -> bool:
    """Whether a backend is there: "mpi" or "nccl", where they are installed."""
    return {"mpi": is_mpi_available, "nccl": is_nccl_available}.get(backend.lower(), is_gloo_available)()


def is_torchelastic_launched() -> bool:
    """Whether torchrun has started the process: TORCHELASTIC_RUN_ID is set."""
    return "TORCHELASTIC_RUN_ID" in os.environ


def is_available() -> bool:
    """Whether there is a backend."""
    return is_mpi_available()


def get_rank(group: ProcessGroup | None = None) -> int:
    """The number of this process in a group; -1 if it is not in it."""
    return group_or_world(group).rank()


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """The number of this process among those of its machine: LOCAL_RANK, which `pyapp run` sets; else `fallback_rank`.
    RuntimeError without either."""
    found = os.environ.get("LOCAL_RANK")
    if found is not None:
        return int(found)
    if fallback_rank is None:
        raise RuntimeError("get_node_local_rank: LOCAL_RANK is not set; start the script with pyapp run -n 2 SCRIPT.py")
    return fallback_rank


def get_world_size(group: ProcessGroup | None = None) -> int:
    """The number of processes in a group; -1 in a process that is not in it."""
    found = group_or_world(group)
    return found.size() if found.rank() >= 0 else -1


def get_backend(group: ProcessGroup | None = None) -> str:
    """ "mpi" or "nccl"."""
    return group_or_world(group).member().name


def get_process_group_ranks(group: ProcessGroup | None = None) -> list[int]:
    """The ranks of a group by their numbers among all."""
    return list(group_or_world(group).ranks)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """The number among all of a rank of a group."""
    ranks = get_process_group_ranks(group)
    if not 0 <= group_rank < len(ranks):
        raise ProcessError(f"the group has {len(ranks)} ranks, there is no rank {group_rank}", where="get_global_rank")
    return ranks[group_rank]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """The number in a group of a rank by its number among all."""
    return group.index_of(global_rank)


def __getattr__(name: str) -> Any:
    if name in ("checkpoint", "device_mesh", "fsdp", "launch", "nn", "optim", "pipelining", "tensor"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
