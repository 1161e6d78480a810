"""torch.nn.modules.normalization."""

from ..layers.channel_normalization import GroupNorm, LocalResponseNorm
from ..layers.normalization import LayerNorm, RMSNorm

__all__ = ["GroupNorm", "LayerNorm", "LocalResponseNorm", "RMSNorm"]
