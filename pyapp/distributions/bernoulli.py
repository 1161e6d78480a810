"""torch.distributions.bernoulli's name."""

from .discrete import Bernoulli

__all__ = ["Bernoulli"]
