"""torch.distributions.kl's name."""

from .divergence import kl_divergence

__all__ = ["kl_divergence"]
