"""Tells a listener when ops, kernels and gradients begin and end, and what memory tensors take, while it listens.

What runs them is changed meanwhile and changed back afterwards, so that nothing is slower while nobody listens. Views,
which compute nothing, are not reported; kernels that an op launches several at a time are part of the op.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Protocol

from .autograd import Node
from .autograd_function import OutputNode
from .device import Device
from .launch import KERNELS, Graph, Kernel, MissingKernel
from .op import OPS, Op
from .storage import Storage
from .tensor import Tensor
from .tracing import import_every_op


class Listener(Protocol):
    """What hears of them. In each thread, calls of `enter` and of `leave` or `cancel` come in nested pairs."""

    def enter(self, name: str, kind: str, args: tuple[Any, ...]) -> None:
        """Something begins. `kind`: "op", "kernel", "backward" (the gradient of an op) or "graph" (a replay)."""

    def leave(self) -> None:
        """The innermost ends."""

    def cancel(self) -> None:
        """The innermost did nothing: it is as if it had not begun."""

    def memory(self, device: Device, nbytes: int) -> None:
        """A tensor has taken memory of a device, or with a negative number given it back."""


_lock = threading.Lock()
_LAUNCH = vars(Kernel)["launch"]  # the slot, which is empty while a kernel is not compiled


def listen(listener: Listener, memory: bool) -> Callable[[], None]:
    """Begins; returns the function that ends it. With `memory` tensors' memory is reported too. RuntimeError while
    another one listens.
    """
    if not _lock.acquire(blocking=False):
        raise RuntimeError("profile: another profile is recording; they cannot be nested")
    undo: list[Callable[[], None]] = []

    def stop() -> None:
        for step in reversed(undo):
            step()
        _lock.release()

    try:
        import_every_op()
        for op in list(OPS.values()):
            if not op.view:
                undo.append(_watch_op(op, listener))
        for kernel in KERNELS.values():
            undo.append(_watch_kernel(kernel, listener))
        for kind in _kinds_of_nodes():
            undo.append(_watch_gradients(kind, listener))
        undo.append(_watch_replays(listener))
        if memory:
            undo.append(_watch_memory(listener))
    except BaseException:
        stop()
        raise
    return stop


def _watch_op(op: Op, listener: Listener) -> Callable[[], None]:
    claim, in_place, name = op.claim, op.claim_in_place, op.name.lstrip("_")

    def run(*args: Any, **kwargs: Any) -> Any:
        listener.enter(name, "op", args)
        try:
            if claim is not None:
                try:
                    found = claim(*args, **kwargs)
                    if found is not NotImplemented:
                        return found
                except MissingKernel:
                    pass
            return op._without_claim(args, kwargs)
        finally:
            listener.leave()

    def run_in_place(*args: Any, **kwargs: Any) -> bool:
        listener.enter(f"{name}_", "op", args)
        done = True
        try:
            done = in_place(*args, **kwargs)  # type: ignore[misc]
        finally:
            if done:
                listener.leave()
            else:
                listener.cancel()
        return done

    op.claim = run
    if in_place is not None:
        op.claim_in_place = run_in_place

    def undo() -> None:
        op.claim, op.claim_in_place = claim, in_place

    return undo


def _watch_kernel(kernel: Kernel, listener: Listener) -> Callable[[], None]:
    try:
        compiled = _LAUNCH.__get__(kernel)
    except AttributeError:
        compiled = None
    name = kernel.name
    run = kernel.general_launch() if compiled is None else compiled

    def launch(*slots: Any) -> None:
        listener.enter(name, "kernel", ())
        try:
            run(*slots)
        finally:
            listener.leave()

    kernel.launch = launch

    def undo() -> None:
        if compiled is None:
            del kernel.launch
        else:
            kernel.launch = compiled

    return undo


def _kinds_of_nodes() -> list[type[Node]]:
    """The classes of nodes that compute gradients in a way of their own."""
    found, waiting = [], [Node]
    while waiting:
        kind = waiting.pop()
        waiting += kind.__subclasses__()
        if "gradients" in vars(kind):
            found.append(kind)
    return found


def _watch_gradients(kind: type[Node], listener: Listener) -> Callable[[], None]:
    own = kind.gradients

    def gradients(self: Node, gradient: Tensor, create_graph: bool) -> Any:
        if isinstance(self, OutputNode):  # a part of another node
            return own(self, gradient, create_graph)
        listener.enter(self.name(), "backward", ())
        try:
            return own(self, gradient, create_graph)
        finally:
            listener.leave()

    def undo() -> None:
        kind.gradients = own  # type: ignore[method-assign]

    kind.gradients = gradients  # type: ignore[method-assign]
    return undo


def _watch_replays(listener: Listener) -> Callable[[], None]:
    own, listening = Graph.replay, True

    def replay(self: Graph) -> Any:
        if not listening:  # who decodes with a Graph keeps this method
            return own(self)
        listener.enter("Graph.replay", "graph", ())
        try:
            return own(self)
        finally:
            listener.leave()

    def undo() -> None:
        nonlocal listening
        Graph.replay, listening = own, False  # type: ignore[method-assign]

    Graph.replay = replay  # type: ignore[method-assign]
    return undo


def _watch_memory(listener: Listener) -> Callable[[], None]:
    take, give = Storage.__init__, Storage.__del__

    def taken(self: Storage, nbytes: int, *device: Device) -> None:
        take(self, nbytes, *device)
        listener.memory(self.device, nbytes)

    def given(self: Storage) -> None:
        if self.pool is not None:  # else it is another owner's memory
            listener.memory(self.device, -self.nbytes)
        give(self)

    def undo() -> None:
        Storage.__init__, Storage.__del__ = take, give  # type: ignore[method-assign]

    Storage.__init__, Storage.__del__ = taken, given  # type: ignore[method-assign, assignment]
    return undo


__all__ = ["Listener", "listen"]
