"""torch.autograd.graph's names: nodes of the graph, places in it, and hooks on what it saves."""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from ..engine.autograd import Node as _Node
from ..engine.autograd import RemovableHandle, edge_of
from ..engine.device import Device
from ..engine.gradient_hooks import GroupHandle
from ..engine.graph_nodes import AccumulateGrad, GradientEdge, get_gradient_edge
from ..engine.saved_tensors import disable_saved_tensors_hooks, saved_tensors_hooks
from ..engine.tensor import Tensor


class Node(abc.ABC):
    """What `grad_fn` and `next_functions` give: `isinstance(x.grad_fn, Node)`. A node of an op has `metadata` and
    `register_hook` too.
    """

    @abc.abstractmethod
    def name(self) -> str:
        """Such as "MulBackward0"."""

    @property
    @abc.abstractmethod
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes that the gradients of the arguments go to."""

    @abc.abstractmethod
    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """`hook(grad_outputs)` may change the gradient before the node gets it."""


Node.register(_Node)
Node.register(AccumulateGrad)


def register_multi_grad_hook(
    tensors: Sequence[Tensor], fn: Callable[..., Any], *, mode: str = "all"
) -> RemovableHandle:
    """`fn(gradients)` is called once in each backward pass, when the gradients of all those of the tensors that take
    part in it are computed: a list, with None for the others. With mode="any": `fn(gradient)`, with the first that is.
    Its result does not change them.
    """
    if mode not in ("all", "any"):
        raise ValueError(f"register_multi_grad_hook: the mode is 'all' or 'any', not {mode!r}")
    if any(not tensor.requires_grad for tensor in tensors):
        raise RuntimeError("register_multi_grad_hook: takes tensors that require gradients")
    return GroupHandle([edge_of(tensor) for tensor in tensors], fn, mode == "all")


class save_on_cpu(saved_tensors_hooks):
    """A context in which saved tensors wait for the backward pass in the CPU's memory. Those of the CPU are not copied.
    `pin_memory` has no effect; `device_type` is torch's argument for it.
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        super().__init__(_to_cpu, _back)


def _to_cpu(tensor: Tensor) -> tuple[Tensor, Device]:
    return tensor.cpu(), tensor.device


def _back(packed: tuple[Tensor, Device]) -> Tensor:
    tensor, device = packed
    return tensor.to(device)


class allow_mutation_on_saved_tensors(saved_tensors_hooks):
    """A context in which tensors may be written in place after ops have saved them: what is saved is copied."""

    def __init__(self) -> None:
        super().__init__(Tensor.clone, lambda kept: kept)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Has autograd count a write in place that it could not see, such as one through a NumPy array."""
    for x in (tensor,) if isinstance(tensor, Tensor) else tensor:
        x._storage.version += 1


__all__ = [
    "GradientEdge", "Node", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge",
    "increment_version", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
]  # fmt: skip
