"""The graph as users see it: what nodes lead to, their hooks, and places in the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from .autograd import Edge, Node, RemovableHandle, edge_of
from .gradient_hooks import After, add_hook
from .saved_tensors import Saved
from .tensor import Tensor

_metadata: WeakKeyDictionary[Any, dict[str, Any]] = WeakKeyDictionary()  # by node


def next_functions(node: Node) -> tuple[tuple[Any, int], ...]:
    """(what the gradient of an argument goes to, 0) for each tensor: a node; the AccumulateGrad of a leaf; None if it
    needs no gradient. Empty when backward has freed the graph.
    """
    args = node.args or ()
    return tuple(
        (None if edge is None else _function_of(edge), 0)
        for i, edge in enumerate(node.edges)
        if edge is not None or (i < len(args) and isinstance(args[i], (Tensor, Saved)))
    )


def metadata(node: Node) -> dict[str, Any]:
    """A dict for the user's notes about a node."""
    return _metadata.setdefault(node, {})


def register_prehook(edge: Edge, hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(grad_outputs)` is called when the gradient of a node's result, or of a leaf, is complete, with a tuple of
    it. Its result, a tuple, replaces the gradient unless it is None.
    """

    def before(gradient: Tensor) -> Tensor | None:
        changed = hook((gradient,))
        return changed[0] if isinstance(changed, tuple) else changed

    return add_hook(edge, before)


def register_hook(node: Node, hook: Callable[..., Any]) -> RemovableHandle:
    """`hook(grad_inputs, grad_outputs)` is called when the gradients of a node's arguments are computed: one for each
    of `next_functions`, None where none is needed. Its result, a tuple, replaces them unless it is None.
    """
    return add_hook(node, After(hook))


class AccumulateGrad:
    """The end of a graph at a leaf, as `next_functions` shows it: `variable` is the leaf whose `grad` is added to."""

    __slots__ = ("variable",)

    next_functions: tuple[Any, ...] = ()

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable

    def name(self) -> str:
        """torch's name."""
        return "torch::autograd::AccumulateGrad"

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(grad_outputs)` is called when the gradient of the leaf is complete, with a tuple of it. Its result, a
        tuple, replaces the gradient unless it is None.
        """
        return register_prehook(self.variable, hook)

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(grad_inputs, grad_outputs)` is called after the gradient was added to that of the leaf, with () and a
        tuple of the leaf's `grad`.
        """
        leaf = self.variable
        if leaf.after_hooks is None:
            leaf.after_hooks = []

        def after(tensor: Tensor) -> None:
            hook((), (tensor.grad,))

        leaf.after_hooks.append(after)
        return RemovableHandle(leaf.after_hooks, after)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AccumulateGrad) and other.variable is self.variable

    def __hash__(self) -> int:
        return hash((AccumulateGrad, id(self.variable)))

    def __repr__(self) -> str:
        return f"<AccumulateGrad object at {id(self.variable):#x}>"


def _function_of(edge: Edge) -> Any:
    return AccumulateGrad(edge) if isinstance(edge, Tensor) else edge


class GradientEdge(NamedTuple):
    """The place of a tensor in a graph, without its memory: `backward` and `grad` take it instead of the tensor."""

    node: Any  # a Node or an AccumulateGrad
    output_nr: int

    @property
    def edge(self) -> Edge:
        """The node, or the leaf."""
        found: Edge = self.node.variable if isinstance(self.node, AccumulateGrad) else self.node
        return found

    def leaf(self) -> Tensor:
        """The leaf. RuntimeError for the place of another tensor, which has no `grad`, nor a shape."""
        if not isinstance(self.node, AccumulateGrad):
            raise RuntimeError(f"{self.node!r} is not a leaf, so its gradient has no place; use grad() instead")
        return self.node.variable


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The GradientEdge of a tensor that requires a gradient."""
    if not tensor.requires_grad:
        raise RuntimeError("get_gradient_edge: this tensor does not require a gradient")
    return GradientEdge(_function_of(edge_of(tensor)), 0)


# Node's own attributes, and no __getattr__: a class with one is slower to read.
for _name, _value in {
    "next_functions": property(next_functions), "metadata": property(metadata),
    "register_prehook": register_prehook, "register_hook": register_hook,
}.items():  # fmt: skip
    setattr(Node, _name, _value)

__all__ = [
    "AccumulateGrad", "GradientEdge", "get_gradient_edge", "metadata", "next_functions", "register_hook",
    "register_prehook",
]  # fmt: skip
