"""torch.distributed.optim's names."""

from ..optim.sharded import ZeroRedundancyOptimizer

__all__ = ["ZeroRedundancyOptimizer"]
