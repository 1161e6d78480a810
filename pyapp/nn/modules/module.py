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
from ..parameter import Parameter
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


_REGISTRATIONS: dict[str, list[Callable[..., Any]]] = {"parameter": [], "buffer": [], "module": []}
_plain_setattr, _plain_register_buffer = Module.__setattr__, Module.register_buffer


class _Registration(RemovableHandle):
    """Removes a hook of registration. After the last one modules register members as before the first."""

    def remove(self) -> None:
        super().remove()
        if not any(_REGISTRATIONS.values()):
            Module.__setattr__ = _plain_setattr  # type: ignore[method-assign]
            Module.register_buffer = _plain_register_buffer  # type: ignore[method-assign]


def _register(kind: str, hook: Callable[..., Any]) -> RemovableHandle:
    _REGISTRATIONS[kind].append(hook)
    Module.__setattr__ = _watched_setattr  # type: ignore[method-assign]
    Module.register_buffer = _watched_register_buffer  # type: ignore[method-assign]
    return _Registration(_REGISTRATIONS[kind], hook)


def _run(kind: str, owner: Module, name: str, value: Any) -> Any:
    """The member, or what a hook gave for it."""
    for hook in tuple(_REGISTRATIONS[kind]):
        changed = hook(owner, name, value)
        value = value if changed is None else changed
    return value


def _watched_setattr(self: Module, name: str, value: Any) -> None:
    if isinstance(value, Module):
        value = _run("module", self, name, value)
    elif isinstance(value, Parameter):
        value = _run("parameter", self, name, value)
    _plain_setattr(self, name, value)


def _watched_register_buffer(self: Module, name: str, tensor: Any, persistent: bool = True) -> None:
    _plain_register_buffer(self, name, _run("buffer", self, name, tensor), persistent)


__all__ = [
    "_EXTRA_STATE_KEY_SUFFIX", "Module", "_IncompatibleKeys", "register_module_buffer_registration_hook",
    "register_module_forward_hook", "register_module_forward_pre_hook", "register_module_full_backward_hook",
    "register_module_full_backward_pre_hook", "register_module_module_registration_hook",
    "register_module_parameter_registration_hook",
]  # fmt: skip
