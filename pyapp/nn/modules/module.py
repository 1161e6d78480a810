"""torch.nn.modules.module: the module, and hooks of all modules.

A hook of all modules runs before a module's own hooks of its kind. Where there is none, calls of modules cost nothing
for it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...engine.autograd import RemovableHandle
from ..hooks import register_everywhere
from ..module import Module
from ..registrations import REGISTRATIONS
from ..state import EXTRA as _EXTRA_STATE_KEY_SUFFIX
from ..state import IncompatibleKeys as _IncompatibleKeys


def register_module_forward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, args)` runs before the forward of every module. Its result, unless None, replaces the arguments."""
    return register_everywhere(Module, "before", (hook, False))


def register_module_forward_hook(
    hook: Callable[..., Any], *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """`hook(module, args, output)`, or with `with_kwargs` (module, args, kwargs, output), runs after the forward of
    every module. Its result, unless None, replaces the output. `always_call`: also where forward has failed, with None
    as output.
    """
    return register_everywhere(Module, "after", (hook, with_kwargs, always_call))


def register_module_full_backward_pre_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, grad_output)` runs for every module when the gradients of its outputs are computed. Its result,
    unless None, replaces them.
    """
    return register_everywhere(Module, "before_backward", hook)


def register_module_full_backward_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, grad_input, grad_output)` runs for every module when the gradients of its positional inputs are
    computed. Its result, unless None, replaces them.
    """
    return register_everywhere(Module, "backward", hook)


def register_module_parameter_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, parameter)` runs when a parameter is registered in any module. Its result, unless None,
    replaces the parameter."""
    return _register("parameter", hook)


def register_module_buffer_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, buffer)` runs when a buffer is registered in any module. Its result, unless None, replaces
    the buffer."""
    return _register("buffer", hook)


def register_module_module_registration_hook(hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(module, name, submodule)` runs when a module is registered in another. Its result, unless None, replaces
    the submodule."""
    return _register("module", hook)


def _register(kind: str, hook: Callable[..., Any]) -> RemovableHandle:
    hooks = getattr(REGISTRATIONS, kind)
    hooks.append(hook)
    return RemovableHandle(hooks, hook)


__all__ = [
    "_EXTRA_STATE_KEY_SUFFIX", "Module", "_IncompatibleKeys", "register_module_buffer_registration_hook",
    "register_module_forward_hook", "register_module_forward_pre_hook", "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook", "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]  # fmt: skip
