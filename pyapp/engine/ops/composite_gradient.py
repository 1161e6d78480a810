"""The gradient of an op through its definition."""

from __future__ import annotations

from typing import Any

from ..autograd import STATE, edge_of, enable_grad, gradients_at
from ..op import Op
from ..tensor import Tensor
from .view import permute


def fused_gradient(forward: Op, of_result: bool = False) -> Op:
    """The gradient of an op as a separate op, NAME_backward(grad, *arguments) → gradients aligned with the arguments;
    with `of_result` NAME_backward(grad, result, *arguments), for ops that save both. Its definition is the gradient of
    the op's definition, and kernels can claim it.
    """
    name = forward.name.lstrip("_") + "_backward"

    def definition(gradient: Tensor, *args: Any) -> tuple[Any, ...]:
        return definition_gradient(forward, gradient, *args[of_result:])

    backward = Op(name, definition, None, "none", False, forward.module)
    backward.__doc__ = f"The gradients of {forward.name.lstrip('_')} in its arguments."
    forward.takes_complex = True  # as the nodes of the definition do
    if of_result:
        forward.vjp = backward
    else:
        forward.vjp = lambda gradient, _, *args: backward(gradient, *args)
    return backward


def definition_gradient(op: Any, gradient: Tensor, *args: Any) -> tuple[Any, ...]:
    """Gradients of an op through its definition, recorded in the graph: for dtypes without a kernel, and for second
    order.

    Each argument gets a separate node at which the backward pass stops, because one argument may be computed from
    another, or be the same tensor.
    """
    second_order = STATE.enabled
    wanted = [i for i, a in enumerate(args) if isinstance(a, Tensor) and a.requires_grad]
    separate = list(args)
    with enable_grad():
        for i in wanted:
            copy = args[i].detach().requires_grad_() if not second_order else args[i]
            separate[i] = permute(copy, range(copy.ndim))
        output = op.definition(*separate)
    edges = [edge_of(separate[i]) for i in wanted]
    stop = frozenset(id(edge) for edge in edges)
    by_edge = gradients_at(edges, [output], [gradient], second_order, second_order, stop)
    found = [by_edge.get(id(edge)) for edge in edges]
    result: list[Any] = [None] * len(args)
    for i, g in zip(wanted, found, strict=True):
        result[i] = g
    return tuple(result)
