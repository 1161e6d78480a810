"""torch.nn.modules.upsampling."""

from ..layers.upsampling import *  # noqa: F403
