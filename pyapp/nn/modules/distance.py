"""torch.nn.modules.distance."""

from ..layers.distance import *  # noqa: F403
