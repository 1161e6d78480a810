"""Layers without parameters: a function, and the settings it gets at each call."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..engine import Tensor
from ..engine.mistakes import named
from .module import Module


class FunctionLayer(Module):
    """Keeps settings, as attributes by torch's names, for a function of tensors; what a call brings beyond the tensors
    goes to the function's remaining arguments. A setting that is a tensor is part of the state.
    """

    function: Callable[..., Any]
    tensors = 1  # how many of the function's first arguments come with each call
    settings: tuple[str, ...] = ()
    remaining: tuple[str, ...] = ()
    draws = False  # whether the function asks if it is training

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
    name: str, function: Any, settings: str | None = None, tensors: int = 1, base: type = FunctionLayer
) -> Any:
    """A class of layers. Its arguments are those of the function after the tensors, with the same defaults; or, by
    name, `settings`, in their order.
    """
    known = inspect.signature(function).parameters
    after = [p for p in list(known.values())[tensors:] if p.name not in ("training", "_stacklevel")]
    taken = after if settings is None else [known[part] for part in settings.split()]
    names = tuple(p.name for p in taken)
    body = {
        "function": staticmethod(named(function)), "tensors": tensors, "settings": names, "draws": "training" in known,
        "remaining": tuple(p.name for p in after if p.name not in names), "__doc__": function.__doc__,
        "__signature__": inspect.Signature(taken), "__module__": function.__module__,
    }  # fmt: skip
    return type(name, (base,), body)
