"""torch.overrides: which arguments have `__torch_function__`, and what it gives (see engine/subclasses.py)."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from .engine.ops import declared
from .engine.ops._index import FUNCTION_MODULES, METHOD_MODULES
from .engine.subclasses import DisableTorchFunctionSubclass, TorchFunctionMode, ask, overrides
from .engine.tensor import Tensor
from .nn import functional

Function = TypeVar("Function", bound=Callable[..., Any])


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether an argument has a `__torch_function__` that operations ask; that of Tensor itself does not count."""
    return any(type(x) is not Tensor and overrides(type(x)) for x in relevant_args)


def has_torch_function_unary(argument: Any) -> bool:
    """has_torch_function of one argument."""
    return has_torch_function((argument,))


def has_torch_function_variadic(*arguments: Any) -> bool:
    """has_torch_function of several arguments."""
    return has_torch_function(arguments)


def handle_torch_function(
    public_api: Callable[..., Any], relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """What `__torch_function__` of the arguments gives for a call of `public_api`. TypeError where none gives
    anything."""
    found = ask(public_api, args, kwargs)
    if found is NotImplemented:
        found = ask(public_api, tuple(relevant_args), {})
    if found is NotImplemented:
        raise TypeError(f"{public_api.__name__}: none of the arguments has __torch_function__")
    return found


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Function], Function]:
    """A decorator: the function asks `__torch_function__` of the arguments that `dispatcher(*args, **kwargs)` names."""

    def decorate(function: Function) -> Function:
        @functools.wraps(function)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return function(*args, **kwargs)

        return wrapped  # type: ignore[return-value]

    return decorate


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a tensor, or has `__torch_function__`."""
    return type(inp) is Tensor or hasattr(inp, "__torch_function__")


def is_tensor_method_or_property(func: Callable[..., Any]) -> bool:
    """Whether a function is one of Tensor's methods, or the function of a property."""
    return any(func in (found, getattr(found, "fget", None)) for found in vars(Tensor).values())


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that changes nothing, for classes to derive from."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def resolve_name(f: Callable[..., Any]) -> str | None:
    """The public name of a function, such as "torch.add"; None for others."""
    name = getattr(f, "__name__", "")
    if name in FUNCTION_MODULES and declared(name).public is f:
        return f"torch.{name}"
    if getattr(functional, name, None) is f:
        return f"torch.nn.functional.{name}"
    if name in METHOD_MODULES and getattr(Tensor, name) is f:
        return f"torch.Tensor.{name}"
    return None


__all__ = [
    "BaseTorchFunctionMode", "DisableTorchFunctionSubclass", "TorchFunctionMode", "handle_torch_function",
    "has_torch_function", "has_torch_function_unary", "has_torch_function_variadic", "is_tensor_like",
    "is_tensor_method_or_property", "resolve_name", "wrap_torch_function",
]  # fmt: skip
