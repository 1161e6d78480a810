"""Functions of torch._C that packages use."""

from ..engine.subclasses import DisableTorchFunctionSubclass, _disabled_torch_function_impl

__all__ = ["DisableTorchFunctionSubclass", "_disabled_torch_function_impl"]
