"""torch.nn.modules.adaptive."""

from ..layers.adaptive_softmax import *  # noqa: F403
