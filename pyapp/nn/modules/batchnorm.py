"""torch.nn.modules.batchnorm."""

from ..normalization import BatchNorm1d, BatchNorm2d, BatchNorm3d, _BatchNorm

__all__ = ["BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "_BatchNorm"]
