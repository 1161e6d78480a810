"""torch.nn.modules.transformer."""

from ..layers.transformer import *  # noqa: F403
