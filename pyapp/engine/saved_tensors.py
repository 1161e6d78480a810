"""Hooks on the tensors that ops save for their gradients: `pack` gets each one when it is saved, `unpack` gives it back
when the gradient is computed.

A node keeps its arguments. Under hooks it keeps what `pack` gave instead, and of an argument whose elements the
gradient does not read only the shape, dtype and device: so the memory of the tensors can be freed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from .autograd import EXTENSIONS, Described, Edge, Node
from .grad_mode import STATE, WATCHERS
from .launch import stop_capture
from .left_nodes import blank
from .tensor import Tensor, make
from .thread_local import ThreadLocal

Hooks = tuple[Callable[[Tensor], Any], Callable[[Any], Tensor]]  # pack, unpack


class _Thread(ThreadLocal):
    """The hooks of this thread, the innermost last; and why it takes none."""

    hooks: tuple[Hooks, ...] = ()
    refusal: str | None = None


_thread = _Thread()


def current_hooks() -> Hooks | None:
    """The hooks of this thread that new nodes use: the innermost."""
    return _thread.hooks[-1] if _thread.hooks else None


class saved_tensors_hooks:
    """A context in which `pack_hook(tensor)` is called for each tensor that an op saves for its gradient, and keeps its
    result instead. `unpack_hook(result)` must give a tensor of the same elements, on the same device, whenever the
    gradient is computed. Of nested contexts the innermost counts.

    The tensor that `pack_hook` gets is detached, shares the memory of the saved one, and must not be written. What is
    saved is the engine's choice: it may be more, or less, than in torch. Tensors are then not checked for writes in
    place between the two passes: keep a copy where they may change. Block-quantised weights, and the tensors that
    `checkpoint` keeps, do not pass through the hooks. In a Graph (`pyapp.compile`) they cannot be used.
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> None:
        if _thread.refusal is not None:
            raise RuntimeError(_thread.refusal)
        _thread.hooks = (*_thread.hooks, (self.pack_hook, self.unpack_hook))
        WATCHERS.add(1)

    def __exit__(self, *_: object) -> None:
        _thread.hooks = _thread.hooks[:-1]
        WATCHERS.add(-1)


class disable_saved_tensors_hooks:
    """A context in which hooks on saved tensors raise RuntimeError with this message. RuntimeError inside such hooks,
    too."""

    def __init__(self, error_message: str) -> None:
        self.message = error_message
        self._before: list[str | None] = []

    def __enter__(self) -> None:
        if _thread.hooks:
            raise RuntimeError(self.message)
        self._before.append(_thread.refusal)
        _thread.refusal = self.message

    def __exit__(self, *_: object) -> None:
        _thread.refusal = self._before.pop()


class Saved:
    """A saved tensor in the form that `pack` gave it."""

    __slots__ = ("_packed", "_unpack")

    def __init__(self, tensor: Tensor, hooks: Hooks) -> None:
        pack, self._unpack = hooks
        stop_capture("hooks on saved tensors are calls of Python, which a replay does not repeat")
        given = tensor.detach()
        version, enabled = given._storage.version, STATE.enabled
        STATE.enabled = False
        try:
            self._packed = pack(given)
        finally:
            STATE.enabled = enabled
        if given._storage.version != version:
            raise RuntimeError("saved_tensors_hooks: the pack hook wrote into the tensor that it got; clone() it first")

    def value(self) -> Tensor:
        """What `unpack` gives, as a tensor of its own that is not connected to any graph."""
        enabled = STATE.enabled
        STATE.enabled = False
        try:
            found = self._unpack(self._packed)
        finally:
            STATE.enabled = enabled
        if not isinstance(found, Tensor):
            raise TypeError(f"saved_tensors_hooks: the unpack hook must give a tensor, it gave {type(found).__name__}")
        return make(found._storage, found._shape, found.strides, found.dtype, found.offset)


def pack_saved(node: Node) -> None:
    """Passes the saved tensors of a new node to this thread's hooks, if there are any."""
    hooks, op = current_hooks(), node.op
    if hooks is None or not node.args and node.output is None:
        return
    args = list(node.args or ())
    read: Any = () if not op.saves_inputs else range(len(args)) if node.read is None else node.read
    for i, argument in enumerate(args):
        if not isinstance(argument, Tensor) or argument.dtype.is_quantized or argument.weak:
            continue
        if i in read or not argument.dtype.has_gradient:  # whole numbers are places, which gradients read
            args[i] = Saved(argument, hooks)
        elif not op.reads_layout:
            args[i] = blank(argument)
            args[i]._requires_grad = node.edges[i] is not None
    node.args = tuple(args)
    if node.output is not None:
        node.output = Saved(node.output, hooks)
    node.versions = []
    node.__class__ = PackedNode  # here, so that other nodes pay nothing for it


class PackedNode(Node):
    """A node whose saved tensors have passed through hooks: `args` and `output` have Saved objects in their places."""

    __slots__ = ()

    def _versions(self) -> list[int]:
        return []  # what the hooks kept need not be the memory that was saved

    def release(self) -> bool:
        if any(isinstance(value, Saved) for value in (*(self.args or ()), self.output)):
            self.drop()
            return False
        return super().release()

    def gradients(self, gradient: Tensor, create_graph: bool) -> Iterable[tuple[Edge, Tensor | None]]:
        if self.args is None:
            raise self._freed()
        assert self.op.vjp is not None
        args = [
            connected(a.value(), edge, create_graph) if isinstance(a, Saved) else a
            for a, edge in zip(self.args, self.edges, strict=True)
        ]
        output: Any = self.output
        if isinstance(output, Saved):
            output = connected(output.value(), self if create_graph else None, create_graph)
        found = self.op.vjp(gradient, output, *args)
        return [(edge, g) for edge, g in zip(self.edges, found, strict=False) if edge is not None]


def connected(value: Tensor, edge: Edge | None, create_graph: bool) -> Tensor:
    """`value`, whose own place in the graph is nowhere, as the tensor of an edge; None: it needs no gradient."""
    value._requires_grad = edge is not None
    if create_graph and edge is not None:
        if isinstance(edge, Tensor):
            node = Node(_ALIAS, (), value)  # type: ignore[arg-type]
            node.edges = (edge,)
            edge = node
        value.node = edge
    return value


_ALIAS = Described("Alias", lambda gradient, *_: (gradient,))
EXTENSIONS.pack_saved = pack_saved

__all__ = [
    "Saved", "connected", "current_hooks", "disable_saved_tensors_hooks", "pack_saved", "saved_tensors_hooks",
]  # fmt: skip
