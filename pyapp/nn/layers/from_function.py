"""Layers without parameters, made of a function and its settings; and functions of the engine under torch's name for
their first argument.
"""

from __future__ import annotations

import functools
import inspect
import sys
from collections.abc import Callable
from typing import Any

from ...engine import Tensor
from ...engine.op import ASK, Op
from ...engine.user_errors import ASKS, MISTAKES, named, names_itself, tell
from ..module import Module


class FunctionLayer(Module):
    """A layer that calls a function of tensors. Its settings are attributes with torch's names. Further arguments of a
    call are passed to the function's remaining parameters. A setting that is a tensor is part of the state.
    """

    function: Callable[..., Any]
    tensors = 1  # number of the function's first arguments that each call passes
    settings: tuple[str, ...] = ()
    remaining: tuple[str, ...] = ()
    shown: tuple[str, ...] | None = None  # the settings in its text, "=name": the value alone; None: by their defaults
    draws = False  # whether the function has a parameter `training`

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()
        signature = inspect.signature(type(self))
        try:
            bound = signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}; it is {type(self).__name__}{signature}") from None
        bound.apply_defaults()
        for name, value in bound.arguments.items():
            if isinstance(value, Tensor):
                self.register_buffer(name, value)
            else:
                setattr(self, name, value)

    def forward(self, *args: Any, **more: Any) -> Any:
        call = {name: getattr(self, name) for name in self.settings}
        if self.draws:
            call["training"] = self.training
        call.update(zip(self.remaining, args[self.tensors :], strict=False))
        return type(self).function(*args[: self.tensors], **{**call, **more})

    def extra_repr(self) -> str:
        if self.shown is not None:
            return ", ".join(
                str(getattr(self, name[1:])) if name[0] == "=" else f"{name}={getattr(self, name)!r}"
                for name in self.shown
            )
        defaults = inspect.signature(type(self)).parameters
        shown = {name: getattr(self, name) for name in self.settings}
        return ", ".join(
            f"{name}={value!r}"
            for name, value in shown.items()
            if not isinstance(value, Tensor) and (defaults[name].default is inspect.Parameter.empty or (
                value is not None and not (isinstance(value, bool) and value == defaults[name].default)
            ))
        )  # fmt: skip


def function_layer(
    name: str, function: Any, settings: str | None = None, tensors: int = 1, base: type = FunctionLayer,
    shown: str | None = None,
) -> Any:  # fmt: skip
    """The layer class `name` of a function. Its constructor takes the function's parameters after the first `tensors`,
    with the same defaults; or those named in `settings`, in that order. `shown`: what its text has (FunctionLayer).
    """
    known = inspect.signature(function).parameters
    after = [p for p in list(known.values())[tensors:] if p.name not in ("training", "_stacklevel")]
    taken = after if settings is None else [known[part] for part in settings.split()]
    names = tuple(p.name for p in taken)
    body = {
        "function": staticmethod(named(function)), "tensors": tensors, "settings": names, "draws": "training" in known,
        "remaining": tuple(p.name for p in after if p.name not in names), "__doc__": function.__doc__,
        "__signature__": inspect.Signature(taken), "__module__": _module_of_family(),
    }  # fmt: skip
    if shown is not None:
        body["shown"] = tuple(shown.split())
    return type(name, (base,), body)


def torch_function(function: Any, name: str | None = None) -> Any:
    """A function or op of the engine with its first parameter renamed to `input`, as in torch.nn.functional."""
    body: Any = function.definition if isinstance(function, Op) else function
    called = name or body.__name__
    first, *rest = inspect.signature(body).parameters.values()

    @functools.wraps(body)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            if ASK and (result := ASK[0](call, args, kwargs)) is not NotImplemented:
                return result
            if not args and "input" in kwargs:
                args = (kwargs.pop("input"),)
            return function(*args, **kwargs)
        except MISTAKES as error:
            if (found := tell(error, called, args, kwargs, call)) is None:
                raise
            return found

    names_itself(call)
    ASKS.add(call.__code__)  # type: ignore[attr-defined]
    call.__name__ = call.__qualname__ = called
    call.__module__ = _module_of_family()  # where pickle finds it
    call.__signature__ = inspect.Signature([first.replace(name="input"), *rest])  # type: ignore[attr-defined]
    return call


def _module_of_family() -> str:
    """The name of the module of layers or losses that is being defined, found through any helpers: pickle looks the
    class up there.
    """
    frame = sys._getframe(2)
    while frame.f_code.co_name != "<module>" and frame.f_back is not None:
        frame = frame.f_back
    return str(frame.f_globals["__name__"])
