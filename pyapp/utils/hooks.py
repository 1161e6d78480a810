"""torch.utils.hooks: what the registration of a hook returns."""

from ..engine.autograd import RemovableHandle

__all__ = ["RemovableHandle"]
