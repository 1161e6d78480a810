"""torch.distributions.kl's names."""

from .divergence import kl_divergence, register_kl

__all__ = ["kl_divergence", "register_kl"]
