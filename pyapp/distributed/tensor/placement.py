"""How the processes of a mesh have a tensor, by torch.distributed.tensor's names."""

from __future__ import annotations

from pyapp.dataclass import dataclass

__all__ = ["Partial", "Placement", "Replicate", "Shard"]


class Placement:
    """How the processes have a tensor: Shard, Replicate or Partial."""


@dataclass(frozen=True)
class Shard(Placement):
    """Each has a part along dim `dim`, as torch.chunk divides it."""

    dim: int


@dataclass(frozen=True)
class Replicate(Placement):
    """Each has the whole."""


@dataclass(frozen=True)
class Partial(Placement):
    """The whole is the sum of what they have."""
