"""Hooks of modules: before and after forward, and on the gradients of inputs and outputs; of one module, and of all."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, MutableMapping
from typing import TYPE_CHECKING, Any

from ..engine import Tensor
from ..engine.autograd import RemovableHandle
from ..engine.autograd_function import Function

if TYPE_CHECKING:
    from .module import Module

Hook = Callable[..., Any]


class ModuleHooks:
    """The hooks of a module, in the order in which they run."""

    def __init__(self) -> None:
        self.before: list[tuple[Hook, bool]] = []  # hook, with_kwargs
        self.after: list[tuple[Hook, bool, bool]] = []  # hook, with_kwargs, always_call
        self.backward: list[Hook] = []
        self.before_backward: list[Hook] = []

    def __bool__(self) -> bool:
        return bool(self.before or self.after or self.backward or self.before_backward)

    def call(self, module: Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Runs the hooks around module.forward: those of all modules first, then those of this one."""
        after = [*EVERYWHERE.after, *self.after]
        left = [entry for entry in after if entry[2]]  # to be run in any case
        if not left:
            return self._call(module, args, kwargs, after, left)
        try:
            return self._call(module, args, kwargs, after, left)
        except Exception:
            for hook, with_kwargs, _ in left:
                try:
                    hook(module, args, kwargs, None) if with_kwargs else hook(module, args, None)
                except Exception as error:
                    warnings.warn(
                        f"{type(module).__name__}: a hook with always_call raised {error!r} after forward had failed",
                        stacklevel=2,
                    )
            raise

    def _call(self, module: Module, args: Any, kwargs: Any, after: list[Any], left: list[Any]) -> Any:
        for hook, with_kwargs in (*EVERYWHERE.before, *self.before):
            changed = hook(module, args, kwargs) if with_kwargs else hook(module, args)
            if changed is None:
                continue
            if with_kwargs:
                if not isinstance(changed, tuple) or len(changed) != 2:
                    raise RuntimeError(
                        "register_forward_pre_hook: a hook with kwargs returns None or (args, kwargs), not "
                        f"{changed!r:.60}"
                    )
                args, kwargs = changed
            else:
                args = changed if isinstance(changed, tuple) else (changed,)
        backward = [*EVERYWHERE.backward, *self.backward]
        before_backward = [*EVERYWHERE.before_backward, *self.before_backward]
        watch = _Watch(module, backward, before_backward) if backward or before_backward else None
        if watch is not None:
            args = watch.inputs(args)
        output = module.forward(*args, **kwargs)
        for entry in after:
            hook, with_kwargs, _ = entry
            if entry in left:
                left.remove(entry)
            changed = hook(module, args, kwargs, output) if with_kwargs else hook(module, args, output)
            output = output if changed is None else changed
        return output if watch is None else watch.outputs(output)


class HooksByNumber(MutableMapping[int, Any]):
    """A module's hooks of a kind, as torch's `_forward_hooks` and so on: they are counted, changed and cleared here."""

    def __init__(self, module: Module, kind: str) -> None:
        self._module, self._kind = module, kind

    def _entries(self) -> list[Any]:
        own = vars(self._module).get("_hooks")
        return [] if own is None else getattr(own, self._kind)

    def __getitem__(self, number: int) -> Hook:
        for entry in self._entries():
            if id(entry) == number:
                return entry[0] if isinstance(entry, tuple) else entry
        raise KeyError(number)

    def __setitem__(self, number: int, hook: Hook) -> None:
        more = {"before": (False,), "after": (False, False)}.get(self._kind)
        self.pop(number, None)
        self._module._register(self._kind, hook if more is None else (hook, *more), False)

    def __delitem__(self, number: int) -> None:
        entries = self._entries()
        for i, entry in enumerate(entries):
            if id(entry) == number:
                del entries[i]
                return
        raise KeyError(number)

    def __iter__(self) -> Iterator[int]:
        return iter([id(entry) for entry in self._entries()])

    def __len__(self) -> int:
        return len(self._entries())

    def __repr__(self) -> str:
        return f"OrderedDict({list(self.items())})"


EVERYWHERE = ModuleHooks()  # the hooks of all modules


class RemovableGlobalHandle(RemovableHandle):
    """Removes a hook of all modules. After the last one modules look for hooks no more."""

    def __init__(self, hooks: list[Any], hook: Any, owner: type[Module]) -> None:
        super().__init__(hooks, hook)
        self._owner = owner

    def remove(self) -> None:
        super().remove()
        if not EVERYWHERE:
            self._owner._hooks = None


def register_everywhere(owner: type[Module], kind: str, hook: Any) -> RemovableHandle:
    """Adds a hook of all modules. They find it through an attribute of the class `Module`, so that a call of a module
    costs nothing where there is none."""
    hooks = getattr(EVERYWHERE, kind)
    hooks.append(hook)
    owner._hooks = _NONE_OF_ITS_OWN
    return RemovableGlobalHandle(hooks, hook, owner)


_NONE_OF_ITS_OWN = ModuleHooks()


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
