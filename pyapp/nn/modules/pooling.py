"""torch.nn.modules.pooling."""

from ..layers.pooling import *  # noqa: F403
