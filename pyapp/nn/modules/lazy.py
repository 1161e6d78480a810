"""torch.nn.modules.lazy."""

from ..layers.lazy import LazyModuleMixin

__all__ = ["LazyModuleMixin"]
