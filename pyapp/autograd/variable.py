"""torch.autograd.variable."""

from . import Variable

__all__ = ["Variable"]
