"""torch.distributions.normal's name."""

from .continuous import Normal

__all__ = ["Normal"]
