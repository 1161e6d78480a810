"""torch.nn.modules.pixelshuffle."""

from ..layers.upsampling import PixelShuffle, PixelUnshuffle

__all__ = ["PixelShuffle", "PixelUnshuffle"]
