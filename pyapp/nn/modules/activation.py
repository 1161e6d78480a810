"""torch.nn.modules.activation."""

from ..layers.activation import *  # noqa: F403
from ..layers.attention import MultiheadAttention as MultiheadAttention
