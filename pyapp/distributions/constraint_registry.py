"""torch.distributions.constraint_registry."""

from .transforms import biject_to, transform_to

__all__ = ["biject_to", "transform_to"]
