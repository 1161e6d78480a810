"""Tensors and layers that several processes divide, by torch.distributed.tensor's names (docs/distributed.md)."""

from ..device_mesh import DeviceMesh, init_device_mesh
from . import parallel
from .dtensor import (
    DTensor,
    distribute_module,
    distribute_tensor,
    empty,
    full,
    implicit_replication,
    ones,
    rand,
    randn,
    zeros,
)
from .placement import Partial, Placement, Replicate, Shard

__all__ = [
    "DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor",
    "empty", "full", "implicit_replication", "init_device_mesh", "ones", "parallel", "rand", "randn", "zeros",
]  # fmt: skip
