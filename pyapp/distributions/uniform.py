"""torch.distributions.uniform's name."""

from .continuous import Uniform

__all__ = ["Uniform"]
