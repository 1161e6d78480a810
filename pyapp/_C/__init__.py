"""Functions of torch._C that packages use."""

from ..engine.subclasses import DisableTorchFunctionSubclass, _disabled_torch_function_impl


def _get_tracing_state() -> None:
    """None: nothing is traced by TorchScript."""


__all__ = ["DisableTorchFunctionSubclass", "_disabled_torch_function_impl", "_get_tracing_state"]
