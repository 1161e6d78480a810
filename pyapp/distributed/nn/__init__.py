"""torch.distributed.nn's names (docs/distributed.md)."""

from . import functional
from .functional import *  # noqa: F403
from .functional import __all__ as _calls

__all__ = [*_calls, "functional"]
