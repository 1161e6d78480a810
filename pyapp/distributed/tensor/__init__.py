"""Tensors and layers that several processes divide, by torch.distributed.tensor's names (docs/distributed.md)."""

from ..device_mesh import DeviceMesh, init_device_mesh
from . import experimental, parallel
from .dtensor import (
    DTensor,
    distribute_module,
    distribute_tensor,
    empty,
    full,
    ones,
    rand,
    randn,
    zeros,
)
from .placement_types import Partial, Placement, Replicate, Shard

__all__ = [
    "DTensor", "DeviceMesh", "Partial", "Placement", "Replicate", "Shard", "distribute_module", "distribute_tensor",
    "empty", "experimental", "full", "init_device_mesh", "ones", "parallel", "rand", "randn", "zeros",
]  # fmt: skip
