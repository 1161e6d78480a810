"""torch.nn.modules.flatten."""

from ..layers.linear import Flatten, Unflatten

__all__ = ["Flatten", "Unflatten"]
