"""torch.nn.modules.container."""

from ..layers.containers import *  # noqa: F403
