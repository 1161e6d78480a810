"""Hooks on gradients during a backward pass: of one tensor or node, and of several tensors together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from .autograd import EXTENSIONS, RemovableHandle
from .grad_mode import GROUPS
from .tensor import Tensor
from .thread_local import ThreadLocal


def add_hook(edge: Any, hook: Any) -> RemovableHandle:
    """Adds a hook to those of a node or leaf."""
    if edge.hooks is None:
        edge.hooks = []
    edge.hooks.append(hook)
    return RemovableHandle(edge.hooks, hook)


def run_hooks(edge: Any, gradient: Tensor) -> Tensor:
    """The gradient of a node or leaf, as its hooks change it."""
    for hook in tuple(edge.hooks or ()):
        if isinstance(hook, After):
            continue
        changed = hook(gradient)
        if changed is None:
            continue
        if not isinstance(changed, Tensor):
            raise TypeError(f"a gradient's hook gives a Tensor or None, not {type(changed).__name__}")
        if isinstance(gradient, Tensor):
            for name in ("shape", "dtype", "device"):
                was, now = getattr(gradient, name), getattr(changed, name)
                if was != now:
                    raise RuntimeError(f"a gradient's hook changed its {name} from {was} to {now}")
        gradient = changed
    return gradient


class After:
    """A hook on the gradients that a node has computed, among the other hooks of the node."""

    def __init__(self, hook: Callable[..., Any]) -> None:
        self.hook = hook


def run_after(node: Any, gradient: Tensor, found: Any) -> Any:
    """The gradients (edge, gradient) of a node's arguments, as its hooks change them."""
    hooks = [hook.hook for hook in tuple(node.hooks or ()) if isinstance(hook, After)]
    if not hooks:
        return found
    edges = [edge for edge, _ in node.next_functions]
    found = list(found)
    given = iter(g for _, g in found)
    inputs = tuple(None if edge is None else next(given) for edge in edges)
    for hook in hooks:
        changed = hook(inputs, (gradient,))
        if changed is not None:
            changed = changed if isinstance(changed, tuple) else (changed,)
            if len(changed) != len(inputs):
                raise RuntimeError(f"a node's hook gave {len(changed)} gradients for {len(inputs)} of '{node.op.name}'")
            inputs = changed
    kept = [g for edge, g in zip(edges, inputs, strict=True) if edge is not None]
    return [(edge, g) for (edge, _), g in zip(found, kept, strict=True)]


class _Pass:
    """A backward pass in which hooks of several tensors may run."""

    __slots__ = ("groups", "reached")

    def __init__(self, reached: set[int]) -> None:
        self.reached = reached  # ids of the nodes and leaves that the gradients go through
        self.groups: dict[Any, list[Any]] = {}  # by group: its gradients so far, and how many are not there yet


class _Thread(ThreadLocal):
    """The innermost backward pass of this thread that has been noted."""

    current: _Pass | None = None


_thread = _Thread()


def begin_pass(roots: Iterable[Any], nodes: Iterable[Any], needed: set[int] | None) -> Any:
    """Notes a backward pass through these nodes; returns what `end_pass` takes."""
    before = _thread.current
    reached = {id(root) for root in roots}
    for node in nodes:
        reached.add(id(node))
        reached.update(id(edge) for edge in node.edges if edge is not None)
    _thread.current = _Pass(reached if needed is None else reached & needed)
    return before


def end_pass(before: Any) -> None:
    """The pass around it, if any, goes on."""
    _thread.current = before


class GroupHandle(RemovableHandle):
    """Removes a hook of several tensors."""

    def __init__(self, edges: Sequence[Any], function: Callable[..., Any], every: bool) -> None:
        self._edges = [id(edge) for edge in edges]
        self._function, self._every = function, every
        self._handles = [add_hook(edge, self._hook(at)) for at, edge in enumerate(edges)]
        GROUPS.add(1)

    def _hook(self, at: int) -> Callable[[Tensor], None]:
        def call(gradient: Tensor) -> None:
            current = _thread.current
            if current is None:  # the hook was added within this pass
                return
            state = current.groups.get(self)
            if not self._every:
                if state is None:
                    current.groups[self] = []
                    self._function(gradient)
                return
            if state is None:
                count = sum(edge in current.reached for edge in self._edges)
                state = current.groups[self] = [[None] * len(self._edges), count]
            state[0][at] = gradient
            state[1] -= 1
            if not state[1]:
                self._function(state[0])

        return call

    def remove(self) -> None:
        if self._handles:
            for handle in self._handles:
                handle.remove()
            self._handles = []
            GROUPS.add(-1)


EXTENSIONS.run_hooks, EXTENSIONS.run_after = run_hooks, run_after
EXTENSIONS.begin_pass, EXTENSIONS.end_pass = begin_pass, end_pass
