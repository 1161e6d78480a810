"""torch.nn.modules.module."""

from ..module import Module
from ..state import IncompatibleKeys as _IncompatibleKeys

__all__ = ["Module", "_IncompatibleKeys"]
