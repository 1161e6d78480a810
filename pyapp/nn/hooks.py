"""Hooks of modules: before and after forward, and on the gradients of inputs and outputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..engine import Tensor
from ..engine.autograd_function import Function

if TYPE_CHECKING:
    from .module import Module


class ModuleHooks:
    """The hooks of a module, in the order of registration."""

    def __init__(self) -> None:
        self.before: list[tuple[Callable[..., Any], bool]] = []
        self.after: list[tuple[Callable[..., Any], bool]] = []
        self.backward: list[Callable[..., Any]] = []
        self.before_backward: list[Callable[..., Any]] = []

    def call(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs the forward hooks around module.forward."""
        for hook, with_kwargs in tuple(self.before):
            changed = hook(module, args, kwargs) if with_kwargs else hook(module, args)
            if changed is None:
                continue
            if with_kwargs:
                args, kwargs = changed
            else:
                args = changed if isinstance(changed, tuple) else (changed,)
        watched = self.backward or self.before_backward
        watch = _Watch(module, self.backward, self.before_backward) if watched else None
        if watch is not None:
            args = watch.inputs(args)
        output = module.forward(*args, **kwargs)
        for hook, with_kwargs in tuple(self.after):
            changed = hook(module, args, kwargs, output) if with_kwargs else hook(module, args, output)
            output = output if changed is None else changed
        return output if watch is None else watch.outputs(output)


class _Watch:
    """Calls a module's backward hooks: records the gradients of the outputs, and passes them with the gradients of the
    inputs to the hooks, which may replace the gradients of the inputs.
    """

    def __init__(self, module: Module, hooks: list[Callable[..., Any]], before: list[Callable[..., Any]]) -> None:
        self.module = module
        self.hooks, self.before = hooks, before
        self.grad_outputs: tuple[Any, ...] = ()
        self.without: tuple[None, ...] | None = None  # runs the hooks when no input requires a gradient

    def inputs(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        if not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            self.without = (None,) * len(args)
            return args
        return tuple(_In.apply(self, *args))

    def outputs(self, output: Any) -> Any:
        several = isinstance(output, (tuple, list))
        found = _Out.apply(self, *(output if several else (output,)))
        return type(output)(found) if several else found[0]


class _Through(Function):
    """The identity."""

    @staticmethod
    def forward(ctx: Any, watch: _Watch, *values: Any) -> Any:
        ctx.watch = watch
        ctx.set_materialize_grads(False)
        return tuple(v.detach() if isinstance(v, Tensor) else v for v in values)


class _Out(_Through):
    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        watch = ctx.watch
        for hook in tuple(watch.before):
            changed = hook(watch.module, gradients)
            if changed is not None:
                gradients = changed if isinstance(changed, tuple) else (changed,)
        watch.grad_outputs = gradients
        if watch.without is not None:  # backward ends inside the module: no input gradient will follow
            for hook in tuple(watch.hooks):
                hook(watch.module, watch.without, gradients)
        return None, *gradients


class _In(_Through):
    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        watch = ctx.watch
        for hook in tuple(watch.hooks):
            changed = hook(watch.module, gradients, watch.grad_outputs)
            if changed is not None:
                gradients = changed if isinstance(changed, tuple) else (changed,)
        return None, *gradients
