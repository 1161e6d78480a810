"""torch.distributed.nn.functional's names: calls that gradients go through (docs/distributed.md)."""

from ...engine.processes.differentiable import (
    all_gather,
    all_reduce,
    all_to_all,
    all_to_all_single,
    broadcast,
    reduce,
    reduce_scatter,
)

__all__ = ["all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "reduce", "reduce_scatter"]
