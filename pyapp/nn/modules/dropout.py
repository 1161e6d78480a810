"""torch.nn.modules.dropout."""

from ..layers.dropout import *  # noqa: F403
