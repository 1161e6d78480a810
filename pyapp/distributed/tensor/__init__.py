"""Tensors and layers that several processes divide, by torch.distributed.tensor's names (docs/distributed.md).

Here a process has its parts as plain tensors, not as DTensors.
"""

from . import parallel
from .placement import Partial, Placement, Replicate, Shard

__all__ = ["Partial", "Placement", "Replicate", "Shard", "parallel"]
