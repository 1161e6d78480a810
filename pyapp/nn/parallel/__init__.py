"""torch.nn.parallel: DistributedDataParallel for several processes, DataParallel for one device."""

from ..data_parallel import DataParallel, data_parallel
from ..distributed_data_parallel import DistributedDataParallel

__all__ = ["DataParallel", "DistributedDataParallel", "data_parallel"]
