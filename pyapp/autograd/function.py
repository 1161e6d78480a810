"""torch.autograd.function's names."""

from ..engine.autograd_function import Context as FunctionCtx
from ..engine.autograd_function import Function, once_differentiable

__all__ = ["Function", "FunctionCtx", "once_differentiable"]
