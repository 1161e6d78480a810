"""torch.distributions.categorical's name."""

from .discrete import Categorical

__all__ = ["Categorical"]
