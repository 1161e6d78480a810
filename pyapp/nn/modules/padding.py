"""torch.nn.modules.padding."""

from ..layers.padding import *  # noqa: F403
