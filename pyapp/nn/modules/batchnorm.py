"""torch.nn.modules.batchnorm."""

from ..layers.channel_normalization import BatchNorm as _BatchNorm
from ..layers.channel_normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d, _NormBase
from ..layers.synchronized import SyncBatchNorm

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "SyncBatchNorm", "_BatchNorm", "_NormBase"]
