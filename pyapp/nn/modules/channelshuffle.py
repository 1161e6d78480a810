"""torch.nn.modules.channelshuffle."""

from ..layers.upsampling import ChannelShuffle

__all__ = ["ChannelShuffle"]
