"""torch.nn.modules.batchnorm."""

from ..layers.normalization import BatchNorm as _BatchNorm
from ..layers.normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "_BatchNorm"]
