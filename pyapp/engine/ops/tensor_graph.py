"""What a tensor shows of its graph: its node, the `grad` that it retains, and hooks on its gradient."""

from __future__ import annotations

from typing import Any
from weakref import ref

from .. import graph_nodes as _graph_nodes  # noqa: F401 (what users ask of nodes)
from ..autograd import Node, RemovableHandle, edge_of
from ..declare import attribute, method
from ..gradient_hooks import add_hook
from ..tensor import Tensor


@attribute("grad_fn")
def _grad_fn(x: Tensor) -> Node | None:
    """The node that made this tensor; None for leaves."""
    return x.node


@method()
def retain_grad(x: Tensor) -> None:
    """Has backward() fill `grad` of a tensor that is not a leaf."""
    if not x.requires_grad:
        raise RuntimeError("retain_grad: this tensor does not require a gradient; call requires_grad_() first")
    if x.node is not None:
        x.node.retained = ref(x)


@attribute("retains_grad")
def _retains_grad(x: Tensor) -> bool:
    """Whether backward() fills `grad` though this is not a leaf."""
    return x.node is not None and x.node.retained is not None and x.node.retained() is x


@method()
def register_hook(x: Tensor, hook: Any) -> RemovableHandle:
    """`hook(grad)` is called when the gradient of this tensor is computed. Its result, unless None, replaces the
    gradient.
    """
    if not x.requires_grad:
        raise RuntimeError("register_hook: this tensor does not require a gradient; call requires_grad_() first")
    return add_hook(edge_of(x), hook)


@method()
def register_post_accumulate_grad_hook(x: Tensor, hook: Any) -> RemovableHandle:
    """`hook(tensor)` is called after backward() has added to the `grad` of this leaf."""
    if x.node is not None or not x.requires_grad:
        raise RuntimeError("register_post_accumulate_grad_hook: takes leaves that require a gradient")
    if x.after_hooks is None:
        x.after_hooks = []
    x.after_hooks.append(hook)
    return RemovableHandle(x.after_hooks, hook)
