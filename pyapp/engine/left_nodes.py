"""Nodes that a backward pass leaves for later passes, because they save no elements; and tensors without memory."""

from __future__ import annotations

from collections.abc import Iterable

from .autograd import EXTENSIONS, SERVED, Edge, Node
from .device import Device
from .dtype import DType
from .storage import Storage
from .tensor import Tensor, make

_SMALL = 4096  # bytes of an argument that a node may keep as it is
_blanks: dict[tuple[DType, Device], Storage] = {}


def blank(like: Tensor) -> Tensor:
    """A tensor of that shape, dtype and device, which takes no memory: all elements are one, NaN. For a gradient that
    does not read them."""
    kind = like.dtype
    storage = _blanks.get((kind, like.device))
    if storage is None:
        storage = _blanks[kind, like.device] = Storage.of_bytes(b"\xff" * kind.itemsize, like.device)
    return make(storage, like._shape, (0,) * len(like._shape), kind)


def leave(node: Node) -> None:
    """Takes the memory of large arguments from a node, of which it needs the shapes."""
    node.versions = SERVED
    args = node.args or ()
    for i, edge in enumerate(node.edges):
        if edge is None or i >= len(args):  # the node of an output has an edge and no arguments
            continue
        argument = args[i]
        if argument is edge or argument._storage.nbytes <= _SMALL or argument.dtype.is_quantized:
            continue
        made = blank(argument)
        made._requires_grad = True
        args = node.args = (*args[:i], made, *args[i + 1 :])


def freed_before(ends: Iterable[Node]) -> Node | None:
    """A node that an earlier pass has freed: among these and their sources, or behind such as that pass has left."""
    edges: list[Edge | None] = [edge for end in ends for edge in (end, *end.edges)]
    while edges:
        node = edges.pop()
        if isinstance(node, Node):
            if node.args is None:
                return node
            if node.versions is SERVED:
                edges.extend(node.edges)
    return None


EXTENSIONS.leave, EXTENSIONS.freed_before = leave, freed_before

__all__ = ["blank", "freed_before", "leave"]
