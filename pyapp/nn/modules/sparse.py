"""torch.nn.modules.sparse."""

from ..layers.embedding import *  # noqa: F403
