"""Second gradients of functions that are linear in pieces, such as relu: zeros, as in torch, and not no gradient.

The gradient of such a function does not change with the argument, but belongs to it: `level` says so in the graph. A
pass sends nothing along these edges; at its end leaves and inputs that are reached by them alone get zeros.
"""

from __future__ import annotations

from collections.abc import Iterable

from .autograd import EXTENSIONS, LEVEL, Edge, Node
from .tensor import Tensor


def level(gradient: Tensor, node: Node) -> Tensor:
    """The gradient that a node gave, with the sources of the node behind it."""
    found = gradient.detach()
    made = Node(LEVEL, (gradient,), found)  # type: ignore[arg-type]
    made.edges = (*made.edges, *[edge for edge in node.edges if edge is not None])
    made.args = ()
    found._requires_grad, found.node = True, made
    return found


def reach(edges: Iterable[Edge | None], reached: dict[int, Edge]) -> None:
    """Adds these nodes and leaves, and all behind them, by their ids."""
    left = [edge for edge in edges if edge is not None]
    while left:
        edge = left.pop()
        if id(edge) not in reached:
            reached[id(edge)] = edge
            if isinstance(edge, Node):
                left.extend(source for source in edge.edges if source is not None)


EXTENSIONS.level, EXTENSIONS.reach = level, reach

__all__ = ["level", "reach"]
