"""torch.nn.parallel.distributed."""

from ..distributed_data_parallel import DistributedDataParallel

__all__ = ["DistributedDataParallel"]
