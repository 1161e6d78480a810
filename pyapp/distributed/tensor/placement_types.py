"""How the processes of a mesh have a tensor, by torch.distributed.tensor's names."""

from __future__ import annotations

from pyapp.dataclass import dataclass
from pyapp.errors import ArgumentError

__all__ = ["Partial", "Placement", "Replicate", "Shard"]

REDUCTIONS = ("sum", "avg", "max", "min", "product")


class Placement:
    """How the processes have a tensor: Shard, Replicate or Partial."""

    def is_shard(self, dim: int | None = None) -> bool:
        """Whether each has a part: along `dim`, where that is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether each has the whole."""
        return isinstance(self, Replicate)

    def is_partial(self) -> bool:
        """Whether the whole is what theirs give together."""
        return isinstance(self, Partial)


@dataclass(frozen=True)
class Shard(Placement):
    """Each has a part along dim `dim`, as torch.chunk divides it."""

    dim: int


@dataclass(frozen=True)
class Replicate(Placement):
    """Each has the whole."""


@dataclass(frozen=True)
class Partial(Placement):
    """The whole is what theirs give together: `reduce_op` is "sum", "avg", "max", "min" or "product". Sums alone are
    computed with; others become the whole first.
    """

    reduce_op: str = "sum"

    def __post_init__(self) -> None:
        if self.reduce_op not in REDUCTIONS:
            raise ArgumentError(f"Partial: reduce_op is one of {', '.join(REDUCTIONS)}, not {self.reduce_op!r:.40}")

    def __repr__(self) -> str:
        return "Partial()" if self.reduce_op == "sum" else f"Partial({self.reduce_op})"
