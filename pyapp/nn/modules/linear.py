"""torch.nn.modules.linear."""

from ..layers.linear import *  # noqa: F403
